package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// deviation is a case in which this server answers otherwise than the one of
// the official SDK, and why.
type deviation struct{ ours, theirs, why string }

// exchangeCase is one request. Answers are compared by status and JSON-RPC code.
type exchangeCase struct {
	name    string
	verb    string // HTTP method; default POST
	headers string // "Name: value" lines beyond or instead of the standard ones; "Name:" drops one
	method  string // that the standard headers name
	target  string // value of Mcp-Name; "" for none
	body    string
	deviation
}

const (
	version = "io.modelcontextprotocol/protocolVersion"
	caps    = "io.modelcontextprotocol/clientCapabilities"
	meta    = `"_meta":{"` + version + `":"2026-07-28","` + caps + `":{}}`
)

func request(id, method, params string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

func (c exchangeCase) send(t *testing.T, url string) string {
	t.Helper()
	verb := c.verb
	if verb == "" {
		verb = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	if c.method != "" {
		req.Header.Set("Mcp-Method", c.method)
	}
	if c.target != "" {
		req.Header.Set("Mcp-Name", c.target)
	}
	for line := range strings.Lines(c.headers) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if value = strings.TrimPrefix(value, " "); value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, strings.TrimPrefix(value, "EMPTY"))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_, last, _ := strings.Cut(string(body), "data: ")
		body = []byte(last)
	}
	var answer struct {
		Result *struct{ IsError bool }
		Error  *struct{ Code int }
	}
	what := "-"
	switch json.Unmarshal(body, &answer); {
	case answer.Error != nil:
		what = fmt.Sprint(answer.Error.Code)
	case answer.Result != nil && answer.Result.IsError:
		what = "isError"
	case answer.Result != nil:
		what = "ok"
	case len(body) > 0:
		what = "text"
	}
	return fmt.Sprint(resp.StatusCode, " ", what)
}

// TestAgainstTypeScript sends malformed, unusual and legacy requests to this
// server and to the one of the official TypeScript SDK. Where they do not agree
// the table says why.
func TestAgainstTypeScript(t *testing.T) {
	theirs, ours := nodeServer(t, "server.mjs"), serve(t)
	for _, c := range exchangeCases() {
		t.Run(c.name, func(t *testing.T) {
			want, got := c.send(t, theirs), c.send(t, ours)
			switch {
			case c.why == "" && got != want:
				t.Errorf("answers %s, the TypeScript server %s", got, want)
			case c.why != "" && (got != c.ours || want != c.theirs):
				t.Errorf("answers %s, the TypeScript server %s; the table has %s and %s", got, want, c.ours, c.theirs)
			case c.why != "" && c.ours == c.theirs:
				t.Error("a reason is given for answers that agree")
			}
		})
	}
}
