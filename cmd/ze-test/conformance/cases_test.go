package conformance

import "strings"

// exchangeCases are requests that a server of one revision has to refuse, and
// unusual ones it has to take.
func exchangeCases() []exchangeCase {
	const (
		list     = "tools/list"
		call     = "tools/call"
		discover = "server/discover"
	)
	plain := request("1", list, meta)
	simple := request("1", call, `"name":"test_simple_text",`+meta)
	m := func(members string) string { return `"_meta":{` + members + `}` }
	return []exchangeCase{
		// What is right.
		{name: "discover", method: discover, body: request("1", discover, meta)},
		{name: "list", method: list, body: plain},
		{name: "call", method: call, target: "test_simple_text", body: simple},
		{name: "string id", method: list, body: request(`"a"`, list, meta)},
		{name: "id zero", method: list, body: request("0", list, meta)},
		{name: "empty string id", method: list, body: request(`""`, list, meta)},
		{name: "large integer id", method: list, body: request("9007199254740993", list, meta),
			deviation: deviation{"200 ok", "400 -32600", "an id is kept byte for byte; JSON-RPC bounds no integer"}},
		{name: "client info", method: list, body: request("1", list, m(`"`+version+`":"2026-07-28","`+caps+`":{},"io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"}`))},
		{name: "arguments left out", method: call, target: "test_simple_text", body: simple},
		{name: "empty arguments", method: call, target: "test_simple_text", body: request("1", call, `"name":"test_simple_text","arguments":{},`+meta)},
		{name: "charset", method: list, headers: "Content-Type: application/json; charset=utf-8", body: plain},
		{name: "encoded name", method: call, headers: "Mcp-Name: =?base64?dGVzdF9zaW1wbGVfdGV4dA==?=", body: simple},
		{name: "padded header", method: list, headers: "Mcp-Method:  tools/list ", body: plain},
		{name: "session id", method: list, headers: "Mcp-Session-Id: 123", body: plain},
		{name: "tool that fails", method: call, target: "test_error_handling", body: request("1", call, `"name":"test_error_handling",`+meta)},
		{name: "prompt", method: "prompts/get", target: "test_simple_prompt", body: request("1", "prompts/get", `"name":"test_simple_prompt",`+meta)},
		{name: "resource", method: "resources/read", target: "test://static-text", body: request("1", "resources/read", `"uri":"test://static-text",`+meta)},

		// HTTP.
		{name: "GET", verb: "GET", headers: "Content-Type:\nMcp-Protocol-Version:",
			deviation: deviation{"405 -32600", "405 -32000", "codes from -32000 to -32019 are leftovers that are not to be sent"}},
		{name: "DELETE", verb: "DELETE", headers: "Content-Type:\nMcp-Protocol-Version:",
			deviation: deviation{"405 -32600", "405 -32000", "as GET"}},
		{name: "PUT", verb: "PUT", method: list, body: plain,
			deviation: deviation{"405 -32600", "405 -32000", "as GET"}},
		{name: "text", method: list, headers: "Content-Type: text/plain", body: plain,
			deviation: deviation{"415 -32600", "415 -32000", "as GET"}},
		{name: "no content type", method: list, headers: "Content-Type:", body: plain,
			deviation: deviation{"415 -32600", "415 -32000", "as GET"}},
		{name: "accepts JSON only", method: list, headers: "Accept: application/json", body: plain},
		{name: "accepts streams only", method: list, headers: "Accept: text/event-stream", body: plain},
		{name: "accepts anything", method: list, headers: "Accept: */*", body: plain},
		{name: "accepts HTML", method: list, headers: "Accept: text/html", body: plain,
			deviation: deviation{"406 -32600", "200 ok", "an answer that the client rules out helps nobody"}},
		{name: "says not what it accepts", method: list, headers: "Accept:", body: plain},
		{name: "too large", method: list, body: strings.Repeat(" ", 5<<20) + plain,
			deviation: deviation{"413 -32600", "413 -32000", "as GET"}},

		// JSON and JSON-RPC.
		{name: "empty body", method: list},
		{name: "no JSON", method: list, body: "{"},
		{name: "two values", method: list, body: plain + plain},
		{name: "null", method: list, body: "null"},
		{name: "number", method: list, body: "1"},
		{name: "batch", method: list, body: "[" + plain + "]"},
		{name: "empty batch", method: list, body: "[]"},
		{name: "null id", method: list, body: request("null", list, meta)},
		{name: "fractional id", method: list, body: request("1.5", list, meta)},
		{name: "object id", method: list, body: request("{}", list, meta)},
		{name: "boolean id", method: list, body: request("true", list, meta)},
		{name: "no jsonrpc", method: list, body: `{"id":1,"method":"tools/list","params":{` + meta + `}}`},
		{name: "jsonrpc 1.0", method: list, body: `{"jsonrpc":"1.0","id":1,"method":"tools/list","params":{` + meta + `}}`},
		{name: "no method", method: list, body: `{"jsonrpc":"2.0","id":1,"params":{` + meta + `}}`},
		{name: "numeric method", method: list, body: `{"jsonrpc":"2.0","id":1,"method":7,"params":{` + meta + `}}`},
		{name: "response", method: list, body: `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{name: "error response", method: list, body: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`},
		{name: "unknown member", method: list, body: `{"jsonrpc":"2.0","id":1,"extra":1,"method":"tools/list","params":{` + meta + `}}`},
		{name: "member twice", method: list, body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list","params":{` + meta + `}}`,
			deviation: deviation{"400 -32700", "200 ok", "programs in between may read the other one of the two"}},
		{name: "params array", method: list, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`,
			deviation: deviation{"400 -32602", "400 -32600", "it is a request, whose parameters are wrong"}},
		{name: "invalid UTF-8", method: list, body: request("\"\xff\"", list, meta),
			deviation: deviation{"400 -32700", "200 ok", "JSON is UTF-8 (RFC 8259, section 8.1); a repaired id is not the id that was sent"}},

		// Notifications.
		{name: "cancellation", method: "notifications/cancelled", body: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,` + meta + `}}`},
		{name: "initialized", method: "notifications/initialized", headers: "Mcp-Protocol-Version:\nMcp-Method:", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
		{name: "unknown notification", method: "notifications/x", body: `{"jsonrpc":"2.0","method":"notifications/x","params":{` + meta + `}}`},

		// Headers.
		{name: "no method header", body: plain},
		{name: "wrong method header", method: call, body: plain},
		{name: "method header in capitals", method: "TOOLS/LIST", body: plain},
		{name: "no version header", method: list, headers: "Mcp-Protocol-Version:", body: plain},
		{name: "other version header", method: list, headers: "Mcp-Protocol-Version: 2025-11-25", body: plain},
		{name: "no name header", method: call, body: simple},
		{name: "wrong name header", method: call, target: "greet", body: simple},
		{name: "name header badly padded", method: call, headers: "Mcp-Name: =?base64?dGVzdF9zaW1wbGVfdGV4dA?=", body: simple},
		{name: "name header in capital marks", method: call, headers: "Mcp-Name: =?BASE64?dGVzdF9zaW1wbGVfdGV4dA==?=", body: simple},
		{name: "parameter header", method: call, target: "test_custom_header", headers: "Mcp-Param-Region: west", body: request("1", call, `"name":"test_custom_header","arguments":{"region":"west"},`+meta)},
		{name: "no parameter header", method: call, target: "test_custom_header", body: request("1", call, `"name":"test_custom_header","arguments":{"region":"west"},`+meta)},
		{name: "wrong parameter header", method: call, target: "test_custom_header", headers: "Mcp-Param-Region: east", body: request("1", call, `"name":"test_custom_header","arguments":{"region":"west"},`+meta)},
		{name: "empty parameter header", method: call, target: "test_custom_header", headers: "Mcp-Param-Region: EMPTY", body: request("1", call, `"name":"test_custom_header","arguments":{"region":""},`+meta)},
		{name: "parameter header without argument", method: call, target: "test_custom_header", headers: "Mcp-Param-Region: west", body: request("1", call, `"name":"test_custom_header","arguments":{},`+meta),
			deviation: deviation{"400 -32020", "200 ok", "a header that the body does not repeat is a mismatch"}},

		// Metadata and versions.
		{name: "no params", method: list, body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{name: "no metadata", method: list, body: request("1", list, "")},
		{name: "metadata null", method: list, body: request("1", list, `"_meta":null`),
			deviation: deviation{"400 -32602", "400 -32600", "as if it were missing, whose code the revision fixes"}},
		{name: "no version", method: list, body: request("1", list, m(`"`+caps+`":{}`))},
		{name: "numeric version", method: list, body: request("1", list, m(`"`+version+`":1,"`+caps+`":{}`))},
		{name: "no capabilities", method: list, body: request("1", list, m(`"`+version+`":"2026-07-28"`))},
		{name: "capabilities array", method: list, body: request("1", list, m(`"`+version+`":"2026-07-28","`+caps+`":[]`))},
		{name: "client info without version", method: list, body: request("1", list, m(`"`+version+`":"2026-07-28","`+caps+`":{},"io.modelcontextprotocol/clientInfo":{"name":"a"}`))},
		{name: "version in the future", method: list, headers: "Mcp-Protocol-Version: 2031-01-01", body: request("1", list, m(`"`+version+`":"2031-01-01","`+caps+`":{}`))},
		{name: "older version", method: list, headers: "Mcp-Protocol-Version: 2025-11-25", body: request("1", list, m(`"`+version+`":"2025-11-25","`+caps+`":{}`))},
		{name: "version in the metadata only", method: list, headers: "Mcp-Protocol-Version: 2031-01-01", body: plain},

		// Of older revisions.
		{name: "initialize", headers: "Mcp-Protocol-Version:", body: request("1", "initialize", `"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}`)},
		{name: "initialize in the new form", method: "initialize", body: request("1", "initialize", meta)},
		{name: "legacy list", headers: "Mcp-Protocol-Version: 2025-06-18", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			deviation: deviation{"400 -32020", "400 -32022", "what is wrong first is that Mcp-Method is missing; the message names the revision"}},
		{name: "list without anything", headers: "Mcp-Protocol-Version:", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
			deviation: deviation{"400 -32020", "400 -32022", "what is wrong first is that MCP-Protocol-Version is missing; the message names the revision"}},
		{name: "ping", method: "ping", body: request("1", "ping", meta)},
		{name: "set level", method: "logging/setLevel", body: request("1", "logging/setLevel", `"level":"info",`+meta)},
		{name: "subscribe", method: "resources/subscribe", body: request("1", "resources/subscribe", `"uri":"test://static-text",`+meta)},
		{name: "task result", method: "tasks/result", body: request("1", "tasks/result", `"taskId":"a",`+meta)},
		{name: "task list", method: "tasks/list", body: request("1", "tasks/list", meta)},

		// Methods and their parameters.
		{name: "unknown method", method: "a/b", body: request("1", "a/b", meta)},
		{name: "unknown tool", method: call, target: "nope", body: request("1", call, `"name":"nope",`+meta)},
		{name: "no tool", method: call, body: request("1", call, meta),
			deviation: deviation{"400 -32602", "200 -32602", "the parameters do not have the form of the method; the status of -32602 is left open"}},
		{name: "numeric tool", method: call, target: "1", body: request("1", call, `"name":1,`+meta),
			deviation: deviation{"400 -32602", "200 -32602", "as for no tool"}},
		{name: "arguments array", method: call, target: "test_simple_text", body: request("1", call, `"name":"test_simple_text","arguments":[],`+meta),
			deviation: deviation{"400 -32602", "200 -32602", "as for no tool"}},
		{name: "argument missing", method: call, target: "greet", body: request("1", call, `"name":"greet","arguments":{},`+meta)},
		{name: "argument of the wrong type", method: call, target: "greet", body: request("1", call, `"name":"greet","arguments":{"name":1},`+meta)},
		{name: "unknown argument", method: call, target: "greet", body: request("1", call, `"name":"greet","arguments":{"name":"a","b":1},`+meta)},
		{name: "unknown prompt", method: "prompts/get", target: "nope", body: request("1", "prompts/get", `"name":"nope",`+meta)},
		{name: "unknown resource", method: "resources/read", target: "test://nope", body: request("1", "resources/read", `"uri":"test://nope",`+meta)},
		{name: "cursor", method: list, body: request("1", list, `"cursor":"x",`+meta),
			deviation: deviation{"200 -32602", "200 ok", "nobody was given this cursor (page server/utilities/pagination)"}},
		{name: "numeric cursor", method: list, body: request("1", list, `"cursor":1,`+meta),
			deviation: deviation{"200 -32602", "200 -32603", "the caller is wrong, not the server"}},
		{name: "answers null", method: call, target: "test_simple_text", body: request("1", call, `"name":"test_simple_text","inputResponses":null,`+meta),
			deviation: deviation{"200 -32602", "200 ok", "null is no set of answers, whoever asks for them"}},
		{name: "state of a number", method: call, target: "test_simple_text", body: request("1", call, `"name":"test_simple_text","requestState":1,`+meta)},
	}
}
