package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/schema"
)

const fixture = `module fixture {
  yang-version 1.1; namespace "urn:test"; prefix f;
  import ze-extensions { prefix ze; }
  import ze-types { prefix zt; }
  revision 2026-11-30 { description "Commands for tests."; }
  grouping out { description "Answer."; leaf ok { type boolean; description "Done."; } }
  rpc show-version { ze:command "show version"; ze:effect read; ze:example "show version"; description "Version."; output { uses out; } }
  rpc show-net { ze:command "show net"; ze:effect read; ze:example "show net"; description "Net."; output { uses out; } }
  rpc show-net-peer { ze:command "show net peer"; ze:effect read; ze:example "show net peer a"; description "Peer.";
    input { leaf peer { type zt:name; ze:positional; description "Peer."; } } output { uses out; } }
  rpc show-net-rib-sent { ze:command "show net rib sent"; ze:effect read; ze:example "show net rib sent peer a"; description "Sent.";
    input { leaf peer { type zt:name; mandatory true; description "Peer."; } leaf limit { type uint32 { range "1..100"; } default 10; description "Limit."; } } output { uses out; } }
  rpc show-net-rib-best { ze:command "show net rib best"; ze:effect read; ze:example "show net rib best"; description "Best.";
    input { leaf limit { type uint32 { range "1..100"; } default 10; description "Limit."; } } output { uses out; } }
  rpc say { ze:command "say"; ze:effect change; ze:example "say hello"; description "Say.";
    input {
      leaf-list words { type string; min-elements 1; ze:positional; description "Words."; }
      leaf loud { type boolean; default false; description "Loud."; }
      container tag { presence "The call is tagged."; description "Tag."; leaf key { type string; mandatory true; description "Key."; } leaf value { type string; description "Value."; } }
      leaf secret { type string; ze:sensitive; description "Secret."; }
      leaf times { type uint8; description "Times."; }
    } output { uses out; } }
  rpc say-twice { ze:command "say twice"; ze:effect change; ze:example "say twice"; description "Twice."; output { uses out; } }
  rpc request-peer-reset { ze:command "request peer reset"; ze:effect change; ze:example "request peer a reset"; description "Reset.";
    input { leaf peer { type zt:name; mandatory true; ze:selector "request peer"; description "Peer."; } } output { uses out; } }
  rpc wipe { ze:command "wipe"; ze:effect destroy; ze:example "wipe"; description "Wipe."; output { uses out; } }
  rpc keep { ze:command "keep"; ze:effect change; ze:scope admin; ze:offline; ze:example "keep"; description "Keep.";
    input { leaf how { type string; ze:positional; description "How it goes."; }
      list who { key name; description "Who."; leaf name { type string; description "Name."; } leaf key { type string; ze:sensitive; description "Key."; } } } output { uses out; } }
  rpc spread { ze:command "spread"; ze:effect change; ze:store-first; ze:example "spread"; description "Spread.";
    input { leaf how { type string; ze:positional; description "How it goes."; } } output { uses out; } }
  rpc secret-door { ze:command "secret door"; ze:effect read; ze:hidden; ze:example "secret door"; description "Door."; output { uses out; } }
  rpc show-crash { ze:command "show crash"; ze:effect read; ze:example "show crash"; description "Crash."; output { uses out; } }
}`

// auditLog stands for the audit log: it keeps what the dispatcher leaves and
// can be told to fail.
type auditLog struct {
	records []audit.Record
	pending [][]audit.Record
	refused []audit.Record
	fail    error
}

func (l *auditLog) Begin(_ context.Context, r audit.Record) (uint64, error) {
	if l.fail != nil {
		return 0, l.fail
	}
	r.Phase = audit.Begin
	l.records = append(l.records, r)
	return uint64(len(l.records)), nil
}

func (l *auditLog) End(_ context.Context, begin uint64, r audit.Record) error {
	r.Phase, r.Begin = audit.End, begin
	l.records = append(l.records, r)
	return l.fail
}

func (l *auditLog) Note(r audit.Record) error {
	r.Phase = audit.Call
	l.records = append(l.records, r)
	return l.fail
}

func (l *auditLog) Pending(records ...audit.Record) *audit.Pending {
	l.pending = append(l.pending, records)
	return audit.NewPending(records...)
}

func (l *auditLog) Refused(r audit.Record) { l.refused = append(l.refused, r) }

type rig struct {
	*Dispatcher
	audit *auditLog
	ran   []string                               // command and arguments of each run
	act   func(ctx context.Context) (any, error) // what the next runs do; nil: nothing, and well
}

func newRig(t *testing.T) *rig {
	t.Helper()
	set, err := schema.Load([]schema.Source{{Name: "fixture.yang", Text: []byte(fixture)}})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{audit: &auditLog{}}
	var all []*Command
	for _, decl := range set.Commands() {
		all = append(all, New(decl, func(ctx context.Context, r *Request) (any, error) {
			if r.Command.Name() == "show crash" {
				panic("boom")
			}
			g.ran = append(g.ran, r.Command.Name()+" "+string(r.Args))
			if g.act != nil {
				return g.act(ctx)
			}
			return map[string]bool{"ok": true}, nil
		}))
	}
	reg := NewRegistry()
	if err := reg.Register(all...); err != nil {
		t.Fatal(err)
	}
	g.Dispatcher = NewDispatcher(Options{Registry: reg, Audit: g.audit, Clock: time.Now, Logger: zerolog.Nop()})
	return g
}

var (
	admin  = &access.Principal{Name: "admin", Scope: access.Admin}
	reader = &access.Principal{Name: "reader", Scope: access.Read}
	narrow = &access.Principal{Name: "narrow", Scope: access.Read, Deny: []string{"show net"}, Allow: []string{"say"}}
)

func TestLines(t *testing.T) {
	for line, want := range map[string]string{
		"show version":                     `show version {}`,
		"  show\tversion ":                 `show version {}`,
		"show net peer north":              `show net peer {"peer":"north"}`,
		"show net peer peer peer":          `show net peer {"peer":"peer"}`,
		"show net rib sent peer a":         `show net rib sent {"limit":10,"peer":"a"}`,
		"show net rib sent limit 5 peer a": `show net rib sent {"limit":5,"peer":"a"}`,
		"say hello":                        `say {"loud":false,"words":["hello"]}`,
		"say a b c loud":                   `say {"loud":true,"words":["a","b","c"]}`,
		"say loud true words [ a 'b c' ]":  `say {"loud":true,"words":["a","b c"]}`,
		"say [a,b] loud false":             `say {"loud":false,"words":["a","b"]}`,
		"say words a words b":              `say {"loud":false,"words":["a","b"]}`,
		`say "a \"q\" b" x\ y ''`:          `say {"loud":false,"words":["a \"q\" b","x y",""]}`,
		"say 'loud'":                       `say {"loud":false,"words":["loud"]}`,
		"say hi tag { key k value 'v v' }": `say {"loud":false,"tag":{"key":"k","value":"v v"},"words":["hi"]}`,
		"say hi tag {key k}":               `say {"loud":false,"tag":{"key":"k"},"words":["hi"]}`,
		"say twice":                        `say twice {}`,
		"say words twice":                  `say {"loud":false,"words":["twice"]}`,
		"request peer north reset":         `request peer reset {"peer":"north"}`,
		"request peer reset peer north":    `request peer reset {"peer":"north"}`,
		"request peer 'reset' reset":       `request peer reset {"peer":"reset"}`,
		"secret door":                      `secret door {}`,
		"say ten times 10":                 `say {"loud":false,"times":10,"words":["ten"]}`,
	} {
		t.Run(line, func(t *testing.T) {
			g := newRig(t)
			if _, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: line}); err != nil {
				t.Fatal(err)
			}
			if len(g.ran) != 1 || g.ran[0] != want {
				t.Errorf("ran %q, want %q", g.ran, want)
			}
		})
	}
}

func TestLineErrors(t *testing.T) {
	for _, row := range []struct {
		line, code, field, has string
	}{
		{"", "invalid", "command", "no command"},
		{"shwo version", "unknown", "", `unknown command "shwo"`},
		{"show vresion", "unknown", "", "show version"},
		{"show", "unknown", "", "after show"},
		{"show net rib", "unknown", "", "after show net rib: best, sent"},
		{"show net pere", "unknown", "", "show net peer"},
		{"request peer north", "unknown", "", "reset"},
		{"show version now", "invalid", "now", "takes no arguments"},
		{"show net rib sent", "invalid", "peer", ""},
		{"show net rib sent peer", "invalid", "peer", "needs a value"},
		{"show net rib sent peer a peer b", "invalid", "peer", "twice"},
		{"show net rib sent peer a limit 0", "invalid", "limit", "1..100"},
		{"show net rib sent peer a limt 3", "invalid", "limt", "did you mean limit"},
		{"show net rib sent peer a --limt 3", "invalid", "--limt", "did you mean limit"},
		{"show net rib sent peer a limit -1", "invalid", "limit", "1..100"},
		{"show net peer --peerr", "invalid", "peer", "did you mean the parameter peer"},
		{"request peer north reset peer south", "invalid", "peer", "twice"},
		{"say [ a b", "invalid", "words", "not closed"},
		{"say hi tag { key k", "invalid", "tag", "not closed"},
		{"say hi tag key", "invalid", "tag", "braces"},
		{"say hi tag { value v }", "invalid", "tag.key", ""},
		{"say 'hi", "invalid", "", "not closed"},
		{`say hi\`, "invalid", "", "backslash"},
		{"say hi\nwipe", "invalid", "", "line break"},
		{"say hi\x00", "invalid", "", "control character"},
		{"say hi \xff", "invalid", "", "UTF-8"},
		{"say ]", "invalid", "", "unexpected"}, // say takes a secret: nothing typed is repeated
		{"show net peer a ]", "invalid", "]", "unexpected"},
		{"say hi times 256", "invalid", "times", "0..255"},
		{"show crash", "internal", "", "internal error"},
	} {
		t.Run(row.line, func(t *testing.T) {
			g := newRig(t)
			_, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: row.line})
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			all := e.Error() + " | " + strings.Join(e.Actions, " | ")
			if string(e.Code) != row.code || e.Field != row.field || !strings.Contains(all, row.has) {
				t.Errorf("got code %s, field %q: %s\nwant code %s, field %q, containing %q", e.Code, e.Field, all, row.code, row.field, row.has)
			}
			if len(g.ran) != 0 {
				t.Errorf("ran %q", g.ran)
			}
			if len(g.audit.records) != 1 || g.audit.records[0].Outcome != row.code {
				t.Errorf("audit: %+v", g.audit.records)
			}
		})
	}
}

func TestForbiddenLooksLikeUnknown(t *testing.T) {
	g := newRig(t)
	ask := func(p *access.Principal, line string) string {
		_, err := g.Do(t.Context(), Call{Principal: p, Surface: "test", Line: line})
		if err == nil {
			return "ok"
		}
		b, _ := json.Marshal(AsError(err))
		return string(b)
	}
	same := func(p *access.Principal, forbidden, unknown string) {
		t.Helper()
		f, u := ask(p, forbidden), ask(p, unknown)
		if strings.ReplaceAll(f, forbidden, "X") != strings.ReplaceAll(u, unknown, "X") {
			t.Errorf("forbidden: %s\nunknown:   %s", f, u)
		}
	}
	same(reader, "wipe", "wpie")
	same(reader, "say", "sya")
	if got := ask(narrow, "say hi"); got != "ok" {
		t.Errorf("allowed prefix: %s", got)
	}
	if got := ask(narrow, "show net rib sent peer a"); !strings.Contains(got, `"unknown"`) {
		t.Errorf("denied prefix: %s", got)
	}
	if got := ask(narrow, "wipe"); !strings.Contains(got, `"unknown"`) {
		t.Errorf("scope: %s", got)
	}
	for _, path := range [][]string{{"wipe"}, {"wpie"}} {
		_, err := g.Do(t.Context(), Call{Principal: reader, Surface: "test", Path: path})
		if AsError(err).Code != Unknown {
			t.Errorf("path %v: %v", path, err)
		}
	}
}

func TestTools(t *testing.T) {
	g := newRig(t)
	list := func(p *access.Principal) []string {
		var out []string
		for _, tool := range g.Registry().Tools(p) {
			bare := ""
			if tool.bare != nil {
				bare = tool.bare.Name()
			}
			out = append(out, fmt.Sprintf("%s [%s] %s", tool.Name, bare, strings.Join(tool.names, ",")))
		}
		return out
	}
	if diff := cmp.Diff([]string{
		"ze_keep [keep] ",
		"ze_request_peer [] reset",
		"ze_say [say] ",
		"ze_say_twice [say twice] ",
		"ze_show [] crash,version",
		"ze_show_net [show net] peer",
		"ze_show_net_rib [] best,sent",
		"ze_spread [spread] ",
		"ze_wipe [wipe] ",
	}, list(admin)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"ze_show [] crash,version",
		"ze_show_net [show net] peer",
		"ze_show_net_rib [] best,sent",
	}, list(reader)); diff != "" {
		t.Error(diff)
	}
	rib := g.Registry().Tool(admin, "ze_show_net_rib")
	want := `{"type":"object","properties":{"action":{"type":"string","enum":["best","sent"],"description":"What to do."},` +
		`"limit":{"type":"integer","description":"Limit.","minimum":1,"maximum":100,"default":10},` +
		`"peer":{"type":"string","description":"Peer. For: sent. Required by: sent.","minLength":1`
	if got := string(rib.InputSchema); !strings.Contains(got, `"required":["action"],"additionalProperties":false`) || !strings.Contains(got, `"enum":["best","sent"]`) ||
		!strings.Contains(got, "Peer. For: sent. Required by: sent.") {
		t.Errorf("input schema\n got %s\nwant like %s", got, want)
	}
	path, rest, err := rib.Resolve(admin, json.RawMessage(`{"peer":"a","action":"sent"}`))
	if err != nil || strings.Join(path, " ") != "show net rib sent" || fmt.Sprint(rest) != "map[peer:a]" {
		t.Errorf("resolve: %v %v %v", path, rest, err)
	}
	for _, args := range []string{``, `{}`, `{"action":"snet"}`, `{"action":7}`, `{"action":""}`, `[]`, `{"action":"sent","action":"best"}`} {
		if _, _, err := rib.Resolve(admin, json.RawMessage(args)); AsError(err).Code != Invalid {
			t.Errorf("resolve %s: %v", args, err)
		}
	}
	if path, _, err := g.Registry().Tool(admin, "ze_show_net").Resolve(admin, nil); err != nil || strings.Join(path, " ") != "show net" {
		t.Errorf("no action: %v %v", path, err)
	}
}

func TestRegisterIsAllOrNothing(t *testing.T) {
	g := newRig(t)
	before := g.Registry().Generation()
	decl := *g.Registry().Find(admin, []string{"wipe"})
	again := decl.Command
	if err := g.Registry().Register(New(&again, decl.Run)); err == nil || g.Registry().Generation() != before {
		t.Errorf("a path twice: %v", err)
	}
	again.Path = []string{"show", "more"}
	if err := g.Registry().Register(New(&again, decl.Run)); err != nil {
		t.Error(err)
	}
	if g.Registry().Generation() == before {
		t.Error("generation did not move")
	}
	c := decl.Command
	c.Path = []string{"show", "net-rib", "deep"}
	if err := g.Registry().Register(New(&c, decl.Run)); err == nil || !strings.Contains(err.Error(), "ze_show_net_rib") {
		t.Errorf("two prefixes for one tool: %v", err)
	}
}

func TestAuditOfCalls(t *testing.T) {
	g := newRig(t)
	do := func(c Call) error {
		c.Surface, c.Remote = "test", "127.0.0.1:9"
		_, err := g.Do(t.Context(), c)
		return err
	}
	if err := do(Call{Principal: admin, Line: "say hi secret hunter2"}); err != nil {
		t.Fatal(err)
	}
	r := g.audit.records
	if len(r) != 2 || r[0].Phase != audit.Begin || r[1].Phase != audit.End || r[1].Begin != 1 || r[1].Outcome != "ok" {
		t.Errorf("change: %+v", r)
	}
	if strings.Contains(fmt.Sprint(r), "hunter2") || !strings.Contains(r[0].Args, `"secret":"***"`) {
		t.Errorf("sensitive value: %+v", r)
	}
	g.audit.records = nil
	if err := do(Call{Principal: reader, Path: []string{"show", "net", "peer"}, Args: json.RawMessage(`{"peer":"a"}`)}); err != nil {
		t.Fatal(err)
	}
	if r := g.audit.records; len(r) != 1 || r[0].Phase != audit.Call || r[0].Args != "" || r[0].Digest == "" || r[0].Command != "show net peer" {
		t.Errorf("read: %+v", r)
	}
	g.audit.fail = errors.New("disk gone")
	g.ran = nil
	if err := do(Call{Principal: admin, Line: "say hi"}); AsError(err).Code != Unavailable || len(g.ran) != 0 {
		t.Errorf("no audit: %v, ran %q", err, g.ran)
	}
	if err := do(Call{Principal: admin, Line: "show version"}); AsError(err).Code != Unavailable {
		t.Errorf("no audit for a read: %v", err)
	}
}

func TestStrictJSON(t *testing.T) {
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for _, ok := range []string{`{}`, `{"a":{"a":1}}`, ` [1,2] `, deep, `"[[[["`, `{"n":12345678901234567890}`} {
		if err := CheckJSON([]byte(ok)); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{``, ` `, `{"a":1,"a":2}`, `{"x":{"a":1,"a":1}}`, `{} {}`, `{}x`, "\"\xff\"", `"\ud800"`, "[" + deep + "]", `{"a":NaN}`, `{"a":01}`, `{a:1}`, `{"a":1,}`,
		strings.Repeat("[", 1<<20)} {
		if err := CheckJSON([]byte(bad)); err == nil {
			t.Errorf("%.40s: accepted", bad)
		}
		if _, err := decodeArgs([]byte(bad)); err == nil && bad != "" {
			t.Errorf("%.40s: decoded", bad)
		}
	}
	v, err := decodeArgs([]byte(`{"b":[1,true,null,"x",{"c":9007199254740993}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(v); got != "map[b:[1 true <nil> x map[c:9007199254740993]]]" {
		t.Error(got)
	}
}

func FuzzLine(f *testing.F) {
	for _, s := range []string{"show version", "say [ a b ] tag { key k }", "request peer x reset", `say "a\"`, "say '", "say { } ]", "\\"} {
		f.Add(s)
	}
	set, err := schema.Load([]schema.Source{{Name: "fixture.yang", Text: []byte(fixture)}})
	if err != nil {
		f.Fatal(err)
	}
	reg := NewRegistry()
	for _, decl := range set.Commands() {
		if err := reg.Register(New(decl, nil)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, args, err := reg.state.Load().parseLine(admin, line)
		if err != nil {
			AsError(err) // every failure explains itself
			if AsError(err).Code == Internal {
				t.Fatal(err)
			}
			return
		}
		if _, err := checkArgs(c, args); err != nil && AsError(err).Code != Invalid {
			t.Fatal(err)
		}
	})
}

// A line cannot ask for memory without bound: words and values are counted.
func TestLongLines(t *testing.T) {
	g := newRig(t)
	for _, line := range []string{"say" + strings.Repeat(" a", maxWords+1), "say" + strings.Repeat(" a", 1001), "say [" + strings.Repeat(" a", 1001) + " ]"} {
		_, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: line})
		if e := AsError(err); e.Code != Invalid || len(e.Error()) > 300 {
			t.Errorf("%d characters: %.400v", len(line), err)
		}
	}
	if _, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: strings.Repeat("x", 1<<20)}); len(err.Error()) > 300 {
		t.Errorf("a long word is repeated in full")
	}
}
