package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// scripted stands for a server that gives set results, one after another, and
// keeps the params it was sent.
type scripted struct {
	results []string // a result, or an error that begins with "!"
	params  []map[string]json.RawMessage
	header  []http.Header
}

func (s *scripted) open(t *testing.T) *Client {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var m struct {
			ID     json.RawMessage
			Params map[string]json.RawMessage
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		s.params, s.header = append(s.params, m.Params), append(s.header, r.Header)
		if len(s.params) > len(s.results) {
			t.Errorf("request %d was not expected: %s", len(s.params), body)
			return
		}
		member, value := "result", s.results[len(s.params)-1]
		if e, ok := strings.CutPrefix(value, "!"); ok {
			member, value = "error", e
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"%s":%s}`, m.ID, member, value)
	}))
	t.Cleanup(h.Close)
	c := Open(Options{URL: h.URL, Token: "secret", Name: "test", Capabilities: map[string]any{"elicitation": map[string]any{}}})
	t.Cleanup(c.Close)
	return c
}

const asks = `{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}`

// TestRounds: a call is sent again with the answers and the state of the last
// round, and nothing of the one before.
func TestRounds(t *testing.T) {
	s := &scripted{results: []string{asks + `,"requestState":"one"}`, asks + `}`, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`}}
	rounds := 0
	r, err := s.open(t).CallTool(t.Context(), "tool", map[string]int{"a": 1}, func(q map[string]Question) (map[string]json.RawMessage, error) {
		if rounds++; q["k"].Method != "elicitation/create" {
			t.Errorf("asked %v", q)
		}
		if rounds == 2 {
			return nil, nil
		}
		return map[string]json.RawMessage{"k": json.RawMessage(`{"action":"accept"}`)}, nil
	})
	if err != nil || r.Text() != "done" || rounds != 2 {
		t.Fatalf("%+v, %v after %d rounds", r, err, rounds)
	}
	if string(s.params[1]["inputResponses"]) != `{"k":{"action":"accept"}}` || string(s.params[1]["requestState"]) != `"one"` {
		t.Errorf("second round: %s", s.params[1])
	}
	for _, left := range []string{"inputResponses", "requestState"} {
		if v, ok := s.params[2][left]; ok {
			t.Errorf("third round: %s is %s", left, v)
		}
	}
	if string(s.params[2]["arguments"]) != `{"a":1}` || !strings.Contains(string(s.params[2]["_meta"]), `"elicitation":{}`) {
		t.Errorf("third round: %s", s.params[2])
	}
}

// TestRoundsEnd: a server that never has enough is not asked for ever.
func TestRoundsEnd(t *testing.T) {
	s := &scripted{results: []string{asks + `}`, asks + `}`, asks + `}`, asks + `}`, asks + `}`}}
	c := s.open(t)
	none := func(map[string]Question) (map[string]json.RawMessage, error) { return nil, nil }
	if _, err := c.CallTool(t.Context(), "tool", nil, none); err == nil || !strings.Contains(err.Error(), "still asks after 4 rounds") || len(s.params) != 5 {
		t.Errorf("%v after %d requests", err, len(s.params))
	}
	s.results = append(s.results, asks+`}`, asks+`}`)
	if _, err := c.Call(t.Context(), "tool", nil); err == nil || !strings.Contains(err.Error(), `asks first: ["k"]`) {
		t.Errorf("nobody to ask: %v", err)
	}
	mine := errors.New("mine")
	if _, err := c.CallTool(t.Context(), "tool", nil, func(map[string]Question) (map[string]json.RawMessage, error) { return nil, mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
}

// TestHeadersAreLearned: a client that does not know which arguments a tool
// wants in headers finds out when the server misses them.
func TestHeadersAreLearned(t *testing.T) {
	const mismatch, done = `!{"code":-32020,"message":"no header"}`, `{"resultType":"complete","structuredContent":{"ok":true}}`
	s := &scripted{results: []string{mismatch,
		`{"tools":[{"name":"other"}],"nextCursor":"2"}`,
		`{"tools":[{"name":"tool","inputSchema":{"properties":{"peer":{"type":"string","x-mcp-header":"Peer"}}}}]}`,
		done, done, mismatch, `{"tools":[]}`, mismatch}}
	c := s.open(t)
	for range 2 {
		if got, err := c.Call(t.Context(), "tool", map[string]string{"peer": "Zürich"}); err != nil || string(got) != `{"ok":true}` {
			t.Fatalf("%s, %v", got, err)
		}
	}
	for i, want := range []string{"", "", "", "=?base64?WsO8cmljaA==?=", "=?base64?WsO8cmljaA==?="} {
		if got := s.header[i].Get("Mcp-Param-Peer"); got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
	// Where that is not what it was, the error stands.
	var e *RPCError
	if _, err := c.Call(t.Context(), "tool", nil); !errors.As(err, &e) || e.Code != -32020 {
		t.Error(err)
	}
}

// TestTask: what a server may say of a task, and of a request about one.
func TestTask(t *testing.T) {
	s := &scripted{results: []string{
		`{"resultType":"task","taskId":"t 1","status":"working","pollIntervalMs":1000}`,
		`{"resultType":"complete","taskId":"t 1","status":"failed","error":{"code":-32603,"message":"m"}}`,
		`{"resultType":"complete","_meta":{}}`,
		`{"resultType":"complete","taskId":"t 1"}`,
		`{"resultType":"complete","status":"working"}`,
		`{"resultType":"task"}`,
		`{"resultType":"task","taskId":"t 2","status":"working"}`,
	}}
	c := s.open(t)
	r, err := c.CallTool(t.Context(), "tool", nil, nil)
	if err != nil || r.Task == nil || r.Task.ID != "t 1" || r.Task.Ended() || r.Task.PollMs != 1000 {
		t.Fatalf("%+v, %v", r, err)
	}
	ended, err := c.Task(t.Context(), r.Task.ID)
	if err != nil || !ended.Ended() || ended.Error.Code != -32603 || s.header[1].Get("Mcp-Name") != "t 1" {
		t.Errorf("%+v, %v, %v", ended, err, s.header[1])
	}
	if err := c.CancelTask(t.Context(), "t 1"); err != nil {
		t.Error(err)
	}
	if err := c.UpdateTask(t.Context(), "t 1", nil); err == nil || !strings.Contains(err.Error(), "tasks/update was not just acknowledged") {
		t.Error(err)
	}
	if _, err := c.Task(t.Context(), "t 1"); err == nil {
		t.Error("a task without an id was taken")
	}
	if _, err := c.CallTool(t.Context(), "tool", nil, nil); err == nil {
		t.Error("a task without anything was taken")
	}
	if _, err := c.Call(t.Context(), "tool", nil); err == nil || !strings.Contains(err.Error(), "has become task t 2") {
		t.Error(err)
	}
}

// TestMessageMeta: members of _meta are added, replaced and taken away.
func TestMessageMeta(t *testing.T) {
	c := New("http://127.0.0.1:1/mcp", "", "test")
	m, err := c.Message("resources/read", map[string]any{"uri": "ze://a", "_meta": map[string]any{metaVersion: 7, metaClientInfo: nil, "progressToken": "p"}})
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Params struct {
			Meta json.RawMessage `json:"_meta"`
		}
	}
	if err := json.Unmarshal(m.Body, &body); err != nil {
		t.Fatal(err)
	}
	const want = `{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/protocolVersion":7,"progressToken":"p"}`
	if string(body.Params.Meta) != want {
		t.Errorf("got %s, want %s", body.Params.Meta, want)
	}
	if m.Header.Get("Mcp-Name") != "ze://a" || m.Header.Get("Mcp-Protocol-Version") != Revision || m.Header.Get("Authorization") != "" {
		t.Errorf("headers: %v", m.Header)
	}
}

// TestSendKeepsWhatCame: notifications before the response, and bodies that are
// no response.
func TestSendKeepsWhatCame(t *testing.T) {
	stream := "data: {\"method\":\"notifications/progress\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"m\"}}\n\n"
	for _, c := range []struct{ kind, body string }{{"text/event-stream", stream}, {"text/plain", "try later\n"}, {"text/event-stream", ": nothing\n\n"}} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, c.body)
		}))
		client := New(h.URL, "", "test")
		m, err := client.Message("tools/list", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := client.Send(t.Context(), m)
		switch {
		case strings.HasPrefix(c.body, ":"):
			if !errors.Is(err, ErrBroken) {
				t.Errorf("a stream without a response: %v", err)
			}
		case err != nil:
			t.Error(err)
		case c.kind == "text/plain":
			if a.Error != nil || a.Result != nil || string(a.Body) != c.body || a.Status != http.StatusTooManyRequests {
				t.Errorf("%+v", a)
			}
			var status *StatusError
			if _, err := client.Do(t.Context(), "tools/list", "", nil); !errors.As(err, &status) || status.Status != http.StatusTooManyRequests {
				t.Error(err)
			}
		case len(a.Notifications) != 1 || a.Error == nil || a.Error.Code != -1 || a.Error.Status != http.StatusTooManyRequests:
			t.Errorf("%+v", a)
		}
		client.Close()
		h.Close()
	}
}
