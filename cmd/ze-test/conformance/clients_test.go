package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTypeScriptClient drives the daemon with the official TypeScript client:
// a call, and one whose missing argument the daemon asks for.
func TestTypeScriptClient(t *testing.T) {
	url, token := startDaemon(t)
	p := node(t, []string{"ZE_TOKEN=" + token, `ANSWER={"command":"show version"}`}, "client.mjs", url,
		`[{"name":"ze_show","arguments":{"action":"version"}},{"name":"ze_execute","arguments":{}}]`)
	var out struct {
		Tools   []string
		Results []struct {
			IsError           bool
			StructuredContent struct{ Version string }
		}
		Asked []struct {
			RequestedSchema struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(p.stdout), &out); err != nil || p.code != 0 {
		t.Fatalf("%v, code %d\n%s", err, p.code, p.tail())
	}
	if !slices.Contains(out.Tools, "ze_execute") {
		t.Errorf("the list of tools lacks ze_execute: %v", out.Tools)
	}
	if len(out.Results) != 2 {
		t.Fatalf("%d results, want 2", len(out.Results))
	}
	for i, r := range out.Results {
		if r.IsError || r.StructuredContent.Version != "test" {
			t.Errorf("result %d is %+v, want version test\n%s", i, r, p.stdout)
		}
	}
	if len(out.Asked) != 1 || out.Asked[0].RequestedSchema.Properties["command"] == nil {
		t.Errorf("the client was asked %+v, want one form with the field command", out.Asked)
	}
}

// TestInspector drives the daemon with the Inspector's command line.
func TestInspector(t *testing.T) {
	url, token := startDaemon(t)
	inspect := func(token string, args ...string) program {
		t.Helper()
		return node(t, nil, inspectorScript, append([]string{"--cli", "--server-url", url, "--transport", "http", "--protocol-era", "modern",
			"--header", "Authorization: Bearer " + token, "--format", "json"}, args...)...)
	}
	t.Run("list", func(t *testing.T) {
		p := inspect(token, "--method", "tools/list", "--strict")
		if p.code != 0 || !strings.Contains(p.stdout, `"ze_execute"`) {
			t.Errorf("code %d, want 0 and ze_execute in the list\n%s", p.code, p.tail())
		}
	})
	t.Run("call", func(t *testing.T) {
		p := inspect(token, "--method", "tools/call", "--tool-name", "ze_show", "--tool-arg", "action=version")
		if p.code != 0 || !strings.Contains(p.stdout, `"test"`) {
			t.Errorf("code %d, want 0 and the version\n%s", p.code, p.tail())
		}
	})
	t.Run("app", func(t *testing.T) {
		p := inspect(token, "--method", "tools/call", "--tool-name", "ze_show_bgp", "--app-info", "--advertise-apps")
		if p.code != 0 || !strings.Contains(p.stdout, `"ui://`) {
			t.Errorf("code %d, want 0 and the address of a panel\n%s", p.code, p.tail())
		}
	})
	t.Run("no app", func(t *testing.T) {
		if p := inspect(token, "--method", "tools/call", "--tool-name", "ze_execute", "--app-info", "--advertise-apps"); p.code != 2 {
			t.Errorf("code %d, want 2: the tool has no panel\n%s", p.code, p.tail())
		}
	})
	t.Run("wrong token", func(t *testing.T) {
		if p := inspect("ze_wrong", "--method", "tools/list"); p.code != 3 {
			t.Errorf("code %d, want 3: not authenticated\n%s", p.code, p.tail())
		}
	})
}

// bearer adds a token to every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestGoClient drives the daemon with the official Go SDK: a call, and one whose
// missing argument the daemon asks for.
func TestGoClient(t *testing.T) {
	url, token := startDaemon(t)
	asked := 0
	client := sdk.NewClient(&sdk.Implementation{Name: "ze-test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked++
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"command": "show version"}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, call := range []*sdk.CallToolParams{
		{Name: "ze_show", Arguments: map[string]any{"action": "version"}},
		{Name: "ze_execute", Arguments: map[string]any{}},
	} {
		result, err := session.CallTool(t.Context(), call)
		if err != nil {
			t.Fatalf("%s: %v", call.Name, err)
		}
		if got, _ := json.Marshal(result.StructuredContent); result.IsError || !strings.Contains(string(got), `"version":"test"`) {
			t.Errorf("%s: %s, isError %v, want version test", call.Name, got, result.IsError)
		}
	}
	if asked != 1 {
		t.Errorf("the client was asked %d times, want once", asked)
	}
}
