package mcp

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzBody sends any body with the headers of a tools/call. Whatever it is, the
// answer must be one JSON-RPC response with a status of the protocol's table,
// and nothing may panic.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_switch","arguments":{"lamp":"hall","on":true},` + metaMember + `}}`,
		`{"jsonrpc":"2.0","id":"\u0061","method":"tools\/call","params":{"name":"ze_switch",` + metaMember + `}}`,
		formCall("ze_switch", `{"lamp":"hall"}`),
		strings.Replace(formCall("ze_switch", `{}`), `"arguments"`, `"inputResponses":{"ze-arguments":{"action":"accept","content":{"lamp":"hall","on":true}}},"requestState":"v1.AAAA","arguments"`, 1),
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`[{}]`, `{"id":1,"id":2}`, `{"a\"b":[1e400,-0,"\ud800"]}`, " \n", "\xef\xbb\xbf{}", strings.Repeat("[", 100),
	} {
		f.Add([]byte(seed))
	}
	server := newFixture(f, func(o *Options) { o.MaxBody = 1 << 16 })
	f.Fuzz(func(t *testing.T, body []byte) {
		r := post(adminToken, "tools/call", "ze_switch", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusAccepted:
			if w.Body.Len() > 0 {
				t.Errorf("202 with a body: %s", w.Body)
			}
			return
		case http.StatusOK, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("status %d", w.Code)
		}
		var answer struct {
			ID     json.RawMessage
			Result *struct{ ResultType string }
			Error  *struct{ Code int }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if (answer.Result == nil) == (answer.Error == nil) || (answer.Result != nil && answer.Result.ResultType != "complete" && answer.Result.ResultType != "input_required") {
			t.Errorf("neither result nor error: %s", w.Body)
		}
		if answer.Error != nil && answer.Error.Code == codeInternal {
			t.Errorf("internal error: %s", w.Body)
		}
		var sent struct{ ID json.RawMessage }
		if json.Unmarshal(body, &sent) == nil && answer.ID != nil && string(sent.ID) != string(answer.ID) {
			t.Errorf("sent id %s, got %s", sent.ID, answer.ID)
		}
	})
}
