package mcp

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// message is a JSON-RPC request, or a notification if it has no id.
type message struct {
	id     jsontext.Value // as it was sent, byte for byte: an integer of any size stays itself
	method string
	params jsontext.Value // nil if absent; of any JSON type
}

// checked are the options for reading JSON that command.CheckJSON has passed.
var checked = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// parseMessage reads a body that must be exactly one request or notification.
func parseMessage(body []byte) (message, *failure) {
	if err := command.CheckJSON(body); err != nil {
		return message{}, &failure{status: http.StatusBadRequest, code: codeParse, message: "the body must be one JSON text: " + err.Error()}
	}
	switch jsontext.Value(body).Kind() {
	case '{':
	case '[':
		return message{}, invalidRequest("batches are not part of MCP %s: send each message as a POST of its own", Revision)
	default:
		return message{}, invalidRequest("the body must be a JSON-RPC request object")
	}
	var in struct{ JSONRPC, ID, Method, Params, Result, Error jsontext.Value }
	var other []byte // name of the first member that no request has
	command.Members(body, func(name []byte, value jsontext.Value) {
		switch string(name) {
		case "jsonrpc":
			in.JSONRPC = value
		case "id":
			in.ID = value
		case "method":
			in.Method = value
		case "params":
			in.Params = value
		case "result":
			in.Result = value
		case "error":
			in.Error = value
		default:
			if other == nil {
				other = append([]byte{}, name...)
			}
		}
	})
	if in.Method == nil && (in.Result != nil || in.Error != nil) {
		// Without its id: that belongs to a request of somebody else.
		return message{}, invalidRequest("a response was sent, but this server sends no requests")
	}
	if in.ID != nil && !isID(in.ID) {
		return message{}, invalidRequest("id must be a string or an integer")
	}
	version, _ := text(in.JSONRPC)
	method, isString := text(in.Method)
	var fail *failure
	switch {
	case in.JSONRPC == nil:
		fail = invalidRequest(`jsonrpc is missing: it must be "2.0"`)
	case version != "2.0":
		fail = invalidRequest(`jsonrpc must be "2.0"`)
	case in.Method == nil:
		fail = invalidRequest("method is missing")
	case !isString || method == "":
		fail = invalidRequest("method must be a string that is not empty")
	case in.Result != nil || in.Error != nil:
		fail = invalidRequest("a request has no result and no error")
	case other != nil:
		fail = invalidRequest("unknown member %s: a request has jsonrpc, id, method and params", quoted(string(other)))
	}
	if fail != nil {
		return message{}, fail.to(in.ID)
	}
	return message{id: in.ID, method: method, params: in.Params}, nil
}

// isID reports whether v may identify a request: a string, or a number written
// as an integer.
func isID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return true
	case '0':
		return !bytes.ContainsAny(v, ".eE")
	}
	return false
}

// text returns the text of a JSON string, and whether v is one. v is what
// json.Unmarshal has taken from checked JSON: without space around it.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	b, err := jsontext.AppendUnquote(make([]byte, 0, len(v)), v)
	return string(b), err == nil
}
