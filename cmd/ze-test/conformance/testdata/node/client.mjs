// Calls tools with the official client, which answers forms with what ANSWER
// holds, and prints what came back: client.mjs URL CALLS.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, calls] = process.argv.slice(2);
const asked = [];
const client = new Client(
  { name: 'ze-test', version: '1' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: '2026-07-28' } } },
);
client.setRequestHandler('elicitation/create', (request) => {
  asked.push(request.params);
  return { action: 'accept', content: JSON.parse(process.env.ANSWER ?? '{}') };
});
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: 'Bearer ' + process.env.ZE_TOKEN } } }),
);
const out = { tools: (await client.listTools()).tools.map((t) => t.name), results: [], asked };
for (const call of JSON.parse(calls)) out.results.push(await client.callTool(call));
console.log(JSON.stringify(out));
await client.close();
