package appliance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/rest"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/mcp"
	"ze.internal/ze/mcp/client"
)

// ledger stands for the audit log and keeps what a call left there, but for the times.
type ledger struct{ records []audit.Record }

func (l *ledger) add(r audit.Record) error {
	r.Time, r.Duration = time.Time{}, 0
	l.records = append(l.records, r)
	return nil
}
func (l *ledger) Begin(_ context.Context, r audit.Record) (uint64, error) { return 1, l.add(r) }
func (l *ledger) End(_ context.Context, _ uint64, r audit.Record) error   { return l.add(r) }
func (l *ledger) Note(r audit.Record) error                               { return l.add(r) }
func (l *ledger) Pending(r ...audit.Record) *audit.Pending                { return audit.NewPending(r...) }
func (l *ledger) Refused(r audit.Record)                                  { _ = l.add(r) }

// Authenticate makes every caller the one principal.
func (h *house) Authenticate(context.Context, string) (*access.Principal, error) { return h.p, nil }

// configModel is what set and delete need to know which words are secret.
func configModel(t *rapid.T) *schema.Node {
	set, err := schema.Load([]schema.Source{config.Model()})
	if err != nil {
		t.Fatal(err)
	}
	return set.Data()
}

// house is every surface on one set of commands, for one principal.
type house struct {
	p          *access.Principal
	ledger     ledger
	dispatcher *command.Dispatcher
	mcp, rest  http.Handler
}

// newHouse registers ze's own commands, those that p may not run under names
// that nobody knows if rename is true. All but the ones that list and explain
// commands do nothing.
func newHouse(t *rapid.T, set *schema.Set, p *access.Principal, rename bool) *house {
	own := *p
	own.Deny = slices.Clone(p.Deny)
	h := &house{p: &own}
	registry := command.NewRegistry()
	commands, err := builtin.Commands(set, builtin.Deps{Registry: registry, Clock: time.Now, Config: config.NewManager(config.Options{Model: configModel(t)})})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range commands {
		if !strings.HasPrefix(c.Name(), "show command") {
			c.Run = func(context.Context, *command.Request) (any, error) { return map[string]any{}, nil }
		}
		if rename && !p.May(c.Name(), c.Scope()) {
			decl := c.Command
			decl.Path = slices.Clone(decl.Path)
			decl.Path[len(decl.Path)-1] = fmt.Sprintf("nobody-knows-%d", i)
			commands[i] = command.New(&decl, c.Run)
			own.Deny = append(own.Deny, commands[i].Name())
		}
	}
	if err := registry.Register(commands...); err != nil {
		t.Fatal(err)
	}
	h.dispatcher = command.NewDispatcher(command.Options{Registry: registry, Audit: &h.ledger, Clock: time.Now, Logger: zerolog.Nop()})
	if h.mcp, err = mcp.New(mcp.Options{Dispatcher: h.dispatcher, Auth: h, Name: "ze", Version: "test", Logger: zerolog.Nop()}); err != nil {
		t.Fatal(err)
	}
	h.rest = rest.New(rest.Options{Dispatcher: h.dispatcher, Surface: "rest", Logger: zerolog.Nop(),
		Principal: func(*http.Request) (*access.Principal, error) { return h.p, nil }})
	return h
}

// ask returns what one request answers, and what it left in the audit log.
func (h *house) ask(handler http.Handler, method, path string, header map[string]string, body string) string {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	for k, v := range header {
		r.Header.Set(k, v)
	}
	h.ledger.records = nil
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return fmt.Sprintf("%d %v %s\n%+v", w.Code, w.Header(), w.Body, h.ledger.records)
}

func (h *house) askMCP(method, name, params string) string {
	header := map[string]string{"Content-Type": "application/json", "Accept": "application/json", "MCP-Protocol-Version": client.Revision, "Mcp-Method": method}
	if name != "" {
		header["Mcp-Name"] = name
	}
	return h.ask(h.mcp, "POST", "/mcp", header, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		method, params, client.Revision))
}

func (h *house) callTool(tool, args string) string {
	return h.askMCP("tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":%s,`, tool, args))
}

// TestForbiddenIsLikeAbsent: for any principal every answer of every surface is,
// octet for octet, what it would be if the commands it may not run had other
// names: there is no way to tell what is forbidden from what does not exist.
func TestForbiddenIsLikeAbsent(t *testing.T) {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	var prefixes []string
	for _, c := range set.Commands() {
		for n := range c.Path {
			prefixes = append(prefixes, strings.Join(c.Path[:n+1], " "))
		}
	}
	some := rapid.SliceOfN(rapid.SampledFrom(prefixes), 0, 3)
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		p := &access.Principal{Name: "p", Accessor: "a", Scope: rapid.SampledFrom([]access.Scope{access.None, access.Read, access.Write, access.Admin}).Draw(t, "scope"),
			Allow: some.Draw(t, "allow"), Deny: some.Draw(t, "deny")}
		full, bare := newHouse(t, set, p, false), newHouse(t, set, p, true)
		same := func(what string, ask func(h *house) string) {
			if a, b := ask(full), ask(bare); a != b {
				n := 0
				for n < min(len(a), len(b)) && a[n] == b[n] {
					n++
				}
				excerpt := func(s string) string { return s[max(0, n-100):min(len(s), n+200)] }
				t.Fatalf("%s\nwith the forbidden:    …%s\nwithout the forbidden: …%s", what, excerpt(a), excerpt(b))
			}
		}
		same("tools/list", func(h *house) string { return h.askMCP("tools/list", "", "") })
		same("ze_reference", func(h *house) string { return h.callTool("ze_reference", `{}`) })
		same("REST reference", func(h *house) string { return h.ask(h.rest, "GET", "/api/v1/commands", nil, "") })

		c := rapid.SampledFrom(set.Commands()).Draw(t, "command")
		name := strings.Join(c.Path, " ")
		line := rapid.SampledFrom(append(slices.Clone(c.Examples), name, name+" x", strings.Join(c.Path[:len(c.Path)-1], " "), name[:len(name)-1])).Draw(t, "line")
		execute, err := json.Marshal(map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		same("ze_execute "+line, func(h *house) string { return h.callTool("ze_execute", string(execute)) })
		same("REST execute "+line, func(h *house) string { return h.ask(h.rest, "POST", "/api/v1/execute", nil, string(execute)) })
		same("REST "+name, func(h *house) string {
			return h.ask(h.rest, "POST", "/api/v1/commands/"+strings.Join(c.Path, "/"), nil, "{}")
		})
		same("command line "+line, func(h *house) string {
			res, err := h.dispatcher.Do(context.Background(), command.Call{Principal: h.p, Surface: "cli", Line: line})
			if err != nil {
				b, _ := json.Marshal(command.AsError(err))
				return string(b)
			}
			return string(res.JSON)
		})
		for _, help := range []string{"show command help " + name, "show command help " + line, "show command list", "show command list " + c.Path[0]} {
			same(help, func(h *house) string {
				b, _ := json.Marshal(map[string]string{"command": help})
				return h.callTool("ze_execute", string(b))
			})
		}
		tool := rapid.SampledFrom(full.dispatcher.Registry().Tools(&access.Principal{Scope: access.Admin})).Draw(t, "tool").Name
		for _, args := range []string{`{}`, `{"action":"` + c.Path[len(c.Path)-1] + `"}`} {
			same(tool+" "+args, func(h *house) string { return h.callTool(tool, args) })
		}
		own := command.ToolName(c.Path)
		for _, tool := range []string{own, own[:strings.LastIndexByte(own, '_')]} {
			args := `{"action":"` + c.Path[len(c.Path)-1] + `"}`
			same(tool+" "+args, func(h *house) string { return h.callTool(tool, args) })
		}
		if !p.May(name, command.New(c, nil).Scope()) {
			seen++
		}
	})
	if seen == 0 {
		t.Error("no forbidden command was tried")
	}
}
