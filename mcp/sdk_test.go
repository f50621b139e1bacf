package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer adds a token to every request and remembers which revision each spoke.
type bearer struct {
	token string

	mu       sync.Mutex
	versions []string
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	b.mu.Lock()
	b.versions = append(b.versions, r.Header.Get("MCP-Protocol-Version"))
	b.mu.Unlock()
	return http.DefaultTransport.RoundTrip(r)
}

// TestOfficialClient drives the server with the official Go SDK's client.
func TestOfficialClient(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f.guarded())
	defer server.Close()
	ctx := t.Context()

	auth := &bearer{token: readToken}
	client := sdk.NewClient(&sdk.Implementation{Name: "quill", Version: "2.1.0"}, nil)
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: auth}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()

	list, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"ze_execute", "ze_reference", "ze_show", "ze_show_lamp"}; !slices.Equal(names, want) {
		t.Errorf("tools are %v, want %v", names, want)
	}

	result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "ze_show", Arguments: map[string]any{"action": "clock"}})
	if err != nil {
		t.Fatal(err)
	}
	const clock = `{"time":"2026-11-30T12:00:00Z"}`
	if got, _ := json.Marshal(result.StructuredContent); result.IsError || string(got) != clock {
		t.Errorf("structured content is %s, want %s", got, clock)
	}
	if text, ok := result.Content[0].(*sdk.TextContent); !ok || text.Text != clock {
		t.Errorf("content is %+v, want the text %s", result.Content, clock)
	}

	result, err = session.CallTool(ctx, &sdk.CallToolParams{
		Name: "ze_show_lamp", Arguments: map[string]any{"action": "history", "lamp": "küche", "limit": 3},
	})
	if err != nil || result.IsError {
		t.Errorf("a call with mirrored parameters: %+v, %v", result, err)
	}

	result, err = session.CallTool(ctx, &sdk.CallToolParams{Name: "ze_execute", Arguments: map[string]any{"command": "smash hall"}})
	if err != nil || !result.IsError || result.StructuredContent != nil {
		t.Errorf("a forbidden command line: %+v, %v; want isError", result, err)
	}

	_, err = session.CallTool(ctx, &sdk.CallToolParams{Name: "ze_smash", Arguments: map[string]any{"lamp": "hall"}})
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != codeInvalidParams {
		t.Errorf("a forbidden tool: %v, want code %d", err, codeInvalidParams)
	}

	auth.mu.Lock()
	defer auth.mu.Unlock()
	for i, v := range auth.versions {
		if v != Revision {
			t.Errorf("request %d spoke %q", i, v)
		}
	}
}
