package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"ze.internal/ze/mcp/client"
)

// wants fails unless the next message is as want says, and returns it.
func (h *host) wants(want string) map[string]any {
	h.t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		h.t.Fatal(err)
	}
	got := h.receive()
	if d := differs("", w, got); d != "" {
		h.t.Fatalf("%s\nin %v", d, got)
	}
	return got.(map[string]any)
}

// initialize begins as a host of a revision does.
func (h *host) initialize(version, capabilities string) {
	h.t.Helper()
	h.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":` + capabilities + `,"clientInfo":{"name":"host","version":"1"}}}`)
	h.wants(`{"id":0,"result":{"protocolVersion":"` + version + `"}}`)
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// answer answers a request of ze-mcp.
func (h *host) answer(request map[string]any, result string) {
	h.t.Helper()
	id, err := json.Marshal(request["id"])
	if err != nil {
		h.t.Fatal(err)
	}
	h.send(`{"jsonrpc":"2.0","id":` + string(id) + `,` + result + `}`)
}

// TestQuestions: what the daemon asks reaches a host with a handshake as a
// request, and the answer reaches the command.
func TestQuestions(t *testing.T) {
	d := newDaemon(t)
	d.start(t)
	for _, c := range []struct{ name, answer, want string }{
		{"accepted", `"result":{"action":"accept","content":{"command":"show version"}}`, `{"isError":false,"structuredContent":{"version":"test"}}`},
		{"declined", `"result":{"action":"decline"}`, `{"isError":true}`},
		{"not understood", `"error":{"code":-32601,"message":"no"}`, `{"isError":true}`},
		{"no object", `"result":7`, `{"isError":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, []string{"--socket", d.socket})
			h.initialize("2025-06-18", `{"elicitation":{}}`)
			h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_execute"}}`)
			asked := h.wants(`{"method":"elicitation/create","params":{"mode":null,"message":"*","requestedSchema":{"type":"object"}}}`)
			h.answer(asked, c.answer)
			h.wants(`{"id":1,"result":` + c.want + `}`)
			h.answer(asked, c.answer) // a second one is nobody's
		})
	}
	t.Run("confirmation", func(t *testing.T) {
		h := newHost(t, []string{"--socket", d.socket})
		h.initialize("2025-11-25", `{"elicitation":{"form":{}}}`)
		h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_token","arguments":{"action":"create","name":"ci","scope":"read"}}}`)
		h.wants(`{"id":1,"result":{"isError":false}}`)
		h.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ze_token","arguments":{"action":"revoke","name":"ci"}}}`)
		asked := h.wants(`{"method":"elicitation/create","params":{"mode":"form","message":"*"}}`)
		// Going away while it is asked leaves everything as it is.
		h.end()
		again := newHost(t, []string{"--socket", d.socket})
		again.initialize("2025-11-25", `{}`)
		again.answer(asked, `"result":{"action":"accept","content":{"confirm":true}}`)
		again.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_token","arguments":{"action":"list"}}}`)
		if list := again.receive(); !strings.Contains(list.(map[string]any)["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string), `"ci"`) {
			t.Errorf("the token is gone though nobody confirmed: %v", list)
		}
	})
}

// TestCancel: a request that is cancelled gets no answer, and what it runs ends.
func TestCancel(t *testing.T) {
	d := newDaemon(t)
	d.start(t)
	h := newHost(t, []string{"--socket", d.socket})
	h.initialize("2025-11-25", `{}`)
	h.send(`{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{"name":"ze_execute","arguments":{"command":"monitor event for 1h"},"_meta":{"progressToken":5}}}`)
	h.wants(`{"method":"notifications/progress","params":{"progressToken":5,"progress":"*"}}`)
	h.send(`{"jsonrpc":"2.0","id":"m","method":"ping"}`)
	h.wants(`{"id":"m","result":{}}`)
	h.send(`{"jsonrpc":"2.0","id":"m","method":"tools/list"}`)
	h.wantsAfter("notifications/progress", `{"id":"m","error":{"code":-32600}}`)
	h.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m","reason":"enough"}}`)
	h.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	h.wantsAfter("notifications/progress", `{"id":"p","result":{}}`)
}

// wantsAfter is wants after any messages of methods that end so.
func (h *host) wantsAfter(methods, want string) map[string]any {
	h.t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		h.t.Fatal(err)
	}
	for {
		got := h.receive().(map[string]any)
		if method, _ := got["method"].(string); strings.HasSuffix(method, methods) {
			continue
		}
		if d := differs("", w, got); d != "" {
			h.t.Fatalf("%s\nin %v", d, got)
		}
		return got
	}
}

// TestDaemonComesAndGoes: a host is told that there are tools once the daemon is
// there, and what to do when it is gone.
func TestDaemonComesAndGoes(t *testing.T) {
	d := newDaemon(t)
	h := newHost(t, []string{"--socket", d.socket})
	h.initialize("2025-11-25", `{}`)
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_show","arguments":{"action":"version"}}}`
	said := func() string {
		h.send(call)
		// A daemon that stops may take up one more stream first: then the host hears
		// of its lists twice, which costs it nothing.
		m := h.wantsAfter("/list_changed", `{"id":1,"result":{"isError":true,"content":[{"type":"text"}]}}`)
		return m["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
	}
	if text := said(); !strings.Contains(text, "no ze daemon answers on "+d.socket+": start it with") {
		t.Error(text)
	}
	changed := func() {
		for _, list := range []string{"tools", "prompts", "resources"} {
			h.wants(`{"method":"notifications/` + list + `/list_changed","params":null}`)
		}
	}
	stop := d.start(t)
	changed()
	h.send(call)
	h.wants(`{"id":1,"result":{"isError":false}}`)
	stop()
	if text := said(); !strings.Contains(text, "start it with") {
		t.Error(text)
	}

	// One that was there at the handshake may come back with other tools.
	stop = d.start(t)
	changed()
	h.end()
	h = newHost(t, []string{"--socket", d.socket})
	h.initialize("2025-11-25", `{}`)
	h.send(call)
	h.wants(`{"id":1,"result":{"isError":false}}`)
	stop()
	d.start(t)
	changed()
}

// TestURL: a daemon elsewhere is reached with a token.
func TestURL(t *testing.T) {
	d := newDaemon(t)
	d.start(t)
	for _, c := range []struct {
		name, url, token, want string
	}{
		{"token", d.url(t), d.token, `"version":"test"`},
		{"no path", strings.TrimSuffix(d.url(t), "/mcp"), d.token, `"version":"test"`},
		{"no token", d.url(t), "", "wants a token: make one with"},
		{"wrong token", d.url(t), "ze_wrong", "refuses the token"},
		{"wrong path", d.url(t) + "/x", d.token, "there is no MCP at"},
		{"nobody there", "http://127.0.0.1:1/mcp", d.token, "no ze daemon answers at http://127.0.0.1:1/mcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t, nil, "ZE_MCP_URL="+c.url, "ZE_TOKEN="+c.token)
			h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_execute","arguments":{"command":"show version"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
			m := h.wants(`{"id":1,"result":{"resultType":"complete","content":[{"type":"text"}]}}`)
			text := m["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
			if !strings.Contains(text, c.want) {
				t.Errorf("%s does not say %s", text, c.want)
			}
			h.end()
			if c.token != "" && strings.Contains(h.log.String()+text, c.token) {
				t.Error("the token is shown")
			}
		})
	}
}

// TestUsage: what cannot be meant is refused before anything is served.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args        []string
		environment string
		want        string
	}{
		{[]string{"serve"}, "", "unknown command"},
		{[]string{"--sock", "x"}, "", "unknown flag"},
		{nil, "ZE_MCP_URL=ftp://127.0.0.1/mcp", "is not http://HOST:PORT/mcp"},
		{nil, "ZE_MCP_URL=http://u:secret@127.0.0.1/mcp", "belongs into ZE_TOKEN"},
	} {
		var out, log strings.Builder
		if code := run(t.Context(), streams{strings.NewReader(""), &out, &log}, c.args, []string{c.environment}); code != exitUsage {
			t.Errorf("%v %s: exit code %d", c.args, c.environment, code)
		}
		if out.Len() > 0 || !strings.Contains(log.String(), c.want) || strings.Contains(log.String(), "secret") {
			t.Errorf("%v %s: %q, %q", c.args, c.environment, out.String(), log.String())
		}
	}
}

// TestWarning: a token that anybody on the way can read is warned of.
func TestWarning(t *testing.T) {
	for url, want := range map[string]bool{"http://192.0.2.1/mcp": true, "https://192.0.2.1/mcp": false, "http://[::1]:1/mcp": false} {
		var out, log strings.Builder
		run(t.Context(), streams{strings.NewReader(""), &out, &log}, nil, []string{"ZE_MCP_URL=" + url, "ZE_TOKEN=ze_x"})
		if strings.Contains(log.String(), "in the clear") != want {
			t.Errorf("%s: %s", url, log.String())
		}
	}
}

// TestSDKClient: the official client, which starts ze-mcp as a process, works
// with a handshake and without.
func TestSDKClient(t *testing.T) {
	d := newDaemon(t)
	d.start(t)
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			asked := 0
			o := &sdk.ClientOptions{ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				asked++
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"command": "show version"}}, nil
			}}
			cmd := exec.Command(os.Args[0], "--socket", d.socket)
			cmd.Env = append(os.Environ(), asProgram+"=1", "GOCOVERDIR="+t.TempDir())
			session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).
				Connect(ctx, &sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("speaks %s", got)
			}
			tools, err := session.ListTools(ctx, nil)
			if err != nil || len(tools.Tools) < 10 {
				t.Fatal(tools, err)
			}
			for _, tool := range tools.Tools {
				if (tool.OutputSchema != nil) != (version >= "2025-06-18") {
					t.Errorf("%s: output schema %v", tool.Name, tool.OutputSchema)
				}
			}
			result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "ze_execute", Arguments: map[string]any{}})
			if err != nil {
				t.Fatal(err)
			}
			if can := version >= "2025-06-18"; result.IsError == can || (asked == 1) != can {
				t.Errorf("asked %d times, failed: %v", asked, result.IsError)
			}
			if _, err := session.ListResources(ctx, nil); err != nil {
				t.Error(err)
			}
			if _, err := session.ListPrompts(ctx, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExplain: a failure says where the daemon was looked for, and what to do.
func TestExplain(t *testing.T) {
	socket := &upstream{socket: "/run/ze/ze.sock"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: syscall.EACCES}, "add the user to the group"},
		{&net.OpError{Op: "dial", Err: syscall.ENOENT}, "start it with"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "start it with"},
		{client.ErrBroken, "may have been done"},
		{&client.StatusError{Status: 429, Body: "wait a second"}, "429 Too Many Requests: wait a second"},
		{errors.New("other"), "/run/ze/ze.sock: other"},
	} {
		if got := socket.explain(c.err).Error(); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

// TestCaller: over the control socket the caller is the local user, whatever
// token is sent along; the record says so.
func TestCaller(t *testing.T) {
	d := newDaemon(t)
	d.start(t)
	h := newHost(t, []string{"--socket", d.socket}, "ZE_TOKEN="+d.token)
	h.initialize("2025-11-25", `{}`)
	h.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_token","arguments":{"action":"create","name":"ci","scope":"read"}}}`)
	h.wants(`{"id":1,"result":{"isError":false}}`)
	h.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ze_execute","arguments":{"command":"show audit"}}}`)
	m := h.wants(`{"id":2,"result":{"isError":false,"structuredContent":"*"}}`)
	list, err := json.Marshal(m["result"].(map[string]any)["structuredContent"])
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`"accessor":"uid:%d"`, os.Getuid())
	if !strings.Contains(string(list), want) || strings.Contains(string(list), `"principal":"admin"`) {
		t.Errorf("no %s in %s", want, list)
	}
}
