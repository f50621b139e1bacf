// A server of the official SDK with some of the fixtures, as what to compare
// with. It prints its address and serves until its input ends.
import http from 'node:http';
import { McpServer, createMcpHandler, fromJsonSchema } from '@modelcontextprotocol/server';

const text = (s) => ({ content: [{ type: 'text', text: s }] });

function make() {
  const server = new McpServer({ name: 'oracle', version: '1' });
  server.registerTool('test_simple_text', { description: 'Answers a text.', inputSchema: fromJsonSchema({ type: 'object' }) }, () => text('hello'));
  server.registerTool(
    'greet',
    { description: 'Greets.', inputSchema: fromJsonSchema({ type: 'object', properties: { name: { type: 'string' } }, required: ['name'], additionalProperties: false }) },
    ({ name }) => text('Hello, ' + name + '!'),
  );
  server.registerTool(
    'test_custom_header',
    { description: 'Mirrors.', inputSchema: fromJsonSchema({ type: 'object', properties: { region: { type: 'string', 'x-mcp-header': 'Region' } }, additionalProperties: false }) },
    ({ region }) => text('region: ' + region),
  );
  server.registerTool('test_error_handling', { description: 'Fails.', inputSchema: fromJsonSchema({ type: 'object' }) }, () => {
    throw new Error('this tool intentionally fails');
  });
  server.registerPrompt('test_simple_prompt', { description: 'One message.' }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'hello' } }],
  }));
  server.registerResource('static-text', 'test://static-text', { description: 'A text.' }, () => ({
    contents: [{ uri: 'test://static-text', mimeType: 'text/plain', text: 'hello' }],
  }));
  return server;
}

const handler = createMcpHandler(make, { legacy: 'reject' });

http
  .createServer(async (req, res) => {
    const chunks = [];
    for await (const c of req) chunks.push(c);
    const headers = new Headers();
    for (let i = 0; i < req.rawHeaders.length; i += 2) headers.append(req.rawHeaders[i], req.rawHeaders[i + 1]);
    const body = chunks.length > 0 && req.method !== 'GET' && req.method !== 'HEAD' ? Buffer.concat(chunks) : undefined;
    try {
      const answer = await handler.fetch(new Request('http://' + req.headers.host + req.url, { method: req.method, headers, body }));
      res.writeHead(answer.status, Object.fromEntries(answer.headers));
      res.end(Buffer.from(await answer.arrayBuffer()));
    } catch (e) {
      res.writeHead(599);
      res.end(String(e));
    }
  })
  .listen(0, '127.0.0.1', function () {
    console.log('http://127.0.0.1:' + this.address().port + '/mcp');
  });

process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
