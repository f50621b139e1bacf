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

// TestEncodeHeader: page basic/transports/streamable-http, header values.
func TestEncodeHeader(t *testing.T) {
	for value, want := range map[string]string{
		"eu-west":      "eu-west",
		"two words":    "two words",
		"":             "",
		"Zürich":       "=?base64?WsO8cmljaA==?=",
		" left":        "=?base64?IGxlZnQ=?=",
		"one\ntwo":     "=?base64?b25lCnR3bw==?=",
		"a\tb":         "=?base64?YQli?=",
		"=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?=",
		"=?base64?x":   "=?base64?x",
	} {
		if got := encodeHeader(value); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// TestReadEvents: a stream is read event by event until the response.
func TestReadEvents(t *testing.T) {
	response := `{"jsonrpc":"2.0","id":1,"result":{}}`
	long := `{"method":"m","params":"` + strings.Repeat("x", 200_000) + `"}`
	for _, c := range []struct {
		name, stream string
		want         []string
		err          error
	}{
		{"notifications", ": hello\n\nevent: message\nid: 7\ndata: {\"method\":\"a\"}\n\ndata:{\"method\":\"b\"}\r\n\r\ndata: " + response + "\n\ndata: late\n\n",
			[]string{`{"method":"a"}`, `{"method":"b"}`, response}, nil},
		{"several lines", "data: {\"method\":\ndata: \"a\"}\n\ndata: " + response + "\n\n", []string{"{\"method\":\n\"a\"}", response}, nil},
		{"long", "data: " + long + "\n\ndata: " + response + "\n\n", []string{long, response}, nil},
		{"no response", "data: {\"method\":\"a\"}\n\n", []string{`{"method":"a"}`}, ErrBroken},
		{"cut off", "data: " + response, nil, ErrBroken},
		{"cut off in a long line", "data: " + long, nil, ErrBroken},
	} {
		var got []string
		err := readEvents(strings.NewReader(c.stream), func(m json.RawMessage) error { got = append(got, string(m)); return nil })
		if !errors.Is(err, c.err) || strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: %v, %.200q", c.name, err, got)
		}
	}
	stop := errors.New("enough")
	if err := readEvents(strings.NewReader("data: {}\n\n"), func(json.RawMessage) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if err := readEvents(&endless{}, func(json.RawMessage) error { return nil }); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a line that does not end: %v", err)
	}
}

// endless is a line without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestExchange: what is in a request is repeated in headers; if the server finds
// one missing, the tools are asked for and the call is sent again.
func TestExchange(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var m struct {
			ID     json.RawMessage
			Params struct{ Cursor string }
		}
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		seen = append(seen, fmt.Sprint(r.Header["Mcp-Protocol-Version"], r.Header["Mcp-Method"], r.Header["Mcp-Name"], r.Header["Mcp-Param-Shard"], r.Header["Mcp-Param-Page"], r.Header["Mcp-Param-Team"]))
		w.Header().Set("Content-Type", "application/json")
		answer := func(format string, args ...any) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, fmt.Sprintf(format, args...))
		}
		switch {
		case r.Header.Get("Mcp-Method") == "tools/list" && m.Params.Cursor == "":
			answer(`"result":{"tools":[{"name":"other","inputSchema":{}}],"nextCursor":"2"}`)
		case r.Header.Get("Mcp-Method") == "tools/list":
			answer(`"result":{"tools":[{"name":"open","inputSchema":{"properties":{"shard":{"x-mcp-header":"Shard"},"page":{"x-mcp-header":"Page"},"bad":{"x-mcp-header":"a b"},"scope":{"properties":{"team":{"x-mcp-header":"Team"}}}}}}]}`)
		case r.Header.Get("Mcp-Method") == "tools/call" && r.Header["Mcp-Param-Shard"] == nil:
			w.WriteHeader(http.StatusBadRequest)
			answer(`"error":{"code":-32020,"message":"missing"}`)
		case r.Header.Get("Mcp-Method") == "prompts/get":
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"who?"}}`)
		default:
			answer(`"result":{"done":true}`)
		}
	}))
	defer server.Close()
	c := New(server.URL, "", "test")
	defer c.Close()
	var got string
	each := func(m json.RawMessage) error { got += string(m); return nil }
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"open","arguments":{"shard":"","page":3,"bad":"x","scope":{"team":"ops"}},` + meta + `}}`
	for range 2 {
		if err := c.Exchange(t.Context(), []byte(call), each); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Exchange(t.Context(), []byte(`{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"uri":"ze://ü",`+meta+`}}`), each); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":7,"result":{"done":true}}`
	if want += want + `{"jsonrpc":"2.0","id":8,"result":{"done":true}}`; got != want {
		t.Errorf("got %s", got)
	}
	wantSeen := []string{
		"[2026-07-28] [tools/call] [open] [] [] []",
		"[2026-07-28] [tools/list] [] [] [] []", "[2026-07-28] [tools/list] [] [] [] []",
		"[2026-07-28] [tools/call] [open] [] [3] [ops]", "[2026-07-28] [tools/call] [open] [] [3] [ops]",
		"[2026-07-28] [resources/read] [=?base64?emU6Ly/DvA==?=] [] [] []",
	}
	if strings.Join(seen, "\n") != strings.Join(wantSeen, "\n") {
		t.Errorf("sent\n%s", strings.Join(seen, "\n"))
	}
	err := c.Exchange(t.Context(), []byte(`{"jsonrpc":"2.0","id":9,"method":"prompts/get","params":{"name":"p",`+meta+`}}`), each)
	var status *StatusError
	if !errors.As(err, &status) || status.Status != http.StatusUnauthorized || status.Body != "who?" {
		t.Errorf("an answer to nobody: %v", err)
	}
}
