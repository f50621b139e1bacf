package mcp

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Error codes of JSON-RPC 2.0 and of the revision (its page basic/index).
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// failure is an answer that is not a result: an HTTP status and a JSON-RPC error.
type failure struct {
	status  int
	code    int
	message string
	data    []byte         // JSON, nil for none
	id      jsontext.Value // of the request, nil while it is not known
}

// to returns the failure as the answer to the request with this id.
func (f *failure) to(id jsontext.Value) *failure {
	f.id = id
	return f
}

// label is the failure's value of the code label: the JSON-RPC code, or the
// HTTP status where that alone says what was refused.
func (f *failure) label() string {
	switch f.status {
	case http.StatusOK, http.StatusBadRequest, http.StatusNotFound:
		return strconv.Itoa(f.code)
	}
	return strconv.Itoa(f.status)
}

// refusal is a failure of HTTP itself, before there is a message to answer.
func refusal(status int, message string) *failure {
	return &failure{status: status, code: codeInvalidRequest, message: message}
}

func invalidRequest(format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, code: codeInvalidRequest, message: fmt.Sprintf(format, args...)}
}

// invalidParams says that the parameters do not have the method's shape.
func invalidParams(format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, code: codeInvalidParams, message: fmt.Sprintf(format, args...)}
}

// refusedParams says that well-formed parameters name something that is not
// there. Its status is 200 because clients that stop at 4xx never read the error.
func refusedParams(format string, args ...any) *failure {
	return &failure{status: http.StatusOK, code: codeInvalidParams, message: fmt.Sprintf(format, args...)}
}

func headerMismatch(format string, args ...any) *failure {
	return &failure{status: http.StatusBadRequest, code: codeHeaderMismatch, message: fmt.Sprintf(format, args...)}
}

func internalFailure() *failure {
	return &failure{status: http.StatusOK, code: codeInternal, message: "internal error; the daemon's log has the cause"}
}

func unsupportedVersion(requested string) *failure {
	data, _ := jsontext.AppendQuote([]byte(`{"supported":["`+Revision+`"],"requested":`), requested)
	return &failure{
		status: http.StatusBadRequest, code: codeUnsupportedVersion, data: append(data, '}'),
		message: "this server speaks MCP revision " + Revision + " only: without a handshake, with version and capabilities in params._meta of every request",
	}
}

// missingCapability says that the request did not declare what its answer needs.
// required is a client-capabilities object (page basic/index, error codes).
func missingCapability(message, required string) *failure {
	return &failure{status: http.StatusBadRequest, code: codeMissingCapability, message: message,
		data: []byte(`{"requiredCapabilities":` + required + `}`)}
}

// write sends the failure.
func (f *failure) write(w http.ResponseWriter) { writeJSON(w, f.status, f.encode()) }

// encode returns the failure as a JSON-RPC error.
func (f *failure) encode() []byte {
	b := append(make([]byte, 0, 256+len(f.message)+len(f.data)+len(f.id)), `{"jsonrpc":"2.0",`...)
	if f.id != nil {
		b = append(b, `"id":`...)
		b = append(b, f.id...)
		b = append(b, ',')
	}
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, int64(f.code), 10)
	b = append(b, `,"message":`...)
	b, _ = jsontext.AppendQuote(b, f.message) // invalid UTF-8, its only error, is replaced
	if f.data != nil {
		b = append(b, `,"data":`...)
		b = append(b, f.data...)
	}
	return append(b, `}}`...)
}

// writeResult sends the answer to a request.
func writeResult(w http.ResponseWriter, id jsontext.Value, result []byte) {
	head := append(make([]byte, 0, 48+len(id)), `{"jsonrpc":"2.0","id":`...)
	head = append(head, id...)
	writeJSON(w, http.StatusOK, append(head, `,"result":`...), result, []byte{'}'})
}

// writeAccepted answers a notification.
func writeAccepted(w http.ResponseWriter) {
	setCommonHeaders(w.Header(), 0)
	w.WriteHeader(http.StatusAccepted)
}

// writeJSON sends one JSON text given in parts. A failed write means that the
// caller has gone, which nobody is left to hear.
func writeJSON(w http.ResponseWriter, status int, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	h := w.Header()
	h["Content-Type"] = contentJSON
	setCommonHeaders(h, n)
	w.WriteHeader(status)
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			return
		}
	}
}

// Values of headers that all answers share; nobody changes them.
var (
	contentJSON = []string{"application/json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

func setCommonHeaders(h http.Header, length int) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(length)}
}
