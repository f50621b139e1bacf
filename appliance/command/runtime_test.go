package command

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

const shelfInput = `{"type":"object","properties":{"shelf":{"type":"string","x-mcp-header":"Shelf"},"depth":{"type":"integer"}},"required":["shelf"]}`

func runtimeDecl(t *testing.T, path ...string) *schema.Command {
	t.Helper()
	input, err := schema.FromJSON(json.RawMessage(shelfInput))
	if err != nil {
		t.Fatal(err)
	}
	return &schema.Command{Path: path, Effect: "read", Description: "Looks at a shelf.", Input: input}
}

func look(_ context.Context, r *Request) (any, error) {
	return &Answer{Content: json.RawMessage(`[{"type":"text","text":"three books"}]`), Structured: r.Args}, nil
}

// TestRuntimeCommand: a command declared at run time is a tool with its schema
// as given, runs from a call and from a command line, and can go again.
func TestRuntimeCommand(t *testing.T) {
	c, err := NewRuntime(runtimeDecl(t, "library", "look"), "look_at_shelf", look)
	if err != nil {
		t.Fatal(err)
	}
	registry := NewRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	reader := &access.Principal{Name: "reader", Scope: access.Read}
	tool := registry.Tool(reader, "look_at_shelf")
	if tool == nil {
		t.Fatal("there is no tool look_at_shelf")
	}
	if string(tool.InputSchema) != shelfInput || tool.OutputSchema != nil {
		t.Errorf("schemas are %s and %s, want the input as given and no output", tool.InputSchema, tool.OutputSchema)
	}
	if len(tool.Headers) != 1 || tool.Headers[0].Name != "Shelf" || !slices.Equal(tool.Headers[0].Path, []string{"shelf"}) {
		t.Errorf("mirrored parameters are %v, want shelf", tool.Headers)
	}
	d := NewDispatcher(Options{Registry: registry, Audit: &auditLog{}, Clock: time.Now, Logger: zerolog.Nop()})
	for _, call := range []Call{
		{Path: []string{"library", "look"}, Args: json.RawMessage(`{"shelf":"B4","depth":2}`)},
		{Line: "library look shelf B4 depth 2"},
	} {
		call.Principal = reader
		result, err := d.Do(t.Context(), call)
		if err != nil {
			t.Fatalf("%+v: %v", call, err)
		}
		if got := string(result.JSON); result.Answer == nil || got != `{"depth":2,"shelf":"B4"}` {
			t.Errorf("%+v: answer %+v, structured %s", call, result.Answer, got)
		}
	}
	_, err = d.Do(t.Context(), Call{Principal: reader, Path: c.Path, Args: json.RawMessage(`{"depth":"deep"}`)})
	if e := AsError(err); e == nil || e.Code != Invalid || e.Field != "shelf" || !slices.ContainsFunc(e.Actions, func(a string) bool { return strings.Contains(a, "depth") }) {
		t.Errorf("wrong arguments: %+v", e)
	}

	generation := registry.Generation()
	if err := registry.Unregister("library look", "never there"); err != nil {
		t.Fatal(err)
	}
	if registry.Tool(reader, "look_at_shelf") != nil || registry.Generation() == generation {
		t.Error("the command is still there, or its going was not noticed")
	}
}

// TestRuntimeRefused: what would be no sound command is refused.
func TestRuntimeRefused(t *testing.T) {
	decl := func(change func(*schema.Command)) *schema.Command {
		d := runtimeDecl(t, "look")
		change(d)
		return d
	}
	for _, c := range []struct {
		decl *schema.Command
		tool string
		want string
	}{
		{decl(func(d *schema.Command) { d.Path = nil }), "look", "no path"},
		{decl(func(d *schema.Command) { d.Path = []string{"two words"} }), "look", "cannot be typed"},
		{decl(func(d *schema.Command) { d.Path = []string{"a[b"} }), "look", "cannot be typed"},
		{decl(func(d *schema.Command) { d.Input = nil }), "look", "no input schema"},
		{decl(func(d *schema.Command) { d.Effect = "write" }), "look", "allowed: read, change, destroy"},
		{decl(func(d *schema.Command) { d.Hidden = true }), "look", "hidden, or it has a tool"},
		{decl(func(*schema.Command) {}), "", "hidden, or it has a tool"},
	} {
		if _, err := NewRuntime(c.decl, c.tool, look); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	a, err := NewRuntime(runtimeDecl(t, "look"), "look", look)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewRuntime(runtimeDecl(t, "see"), "look", look)
	if err != nil {
		t.Fatal(err)
	}
	registry := NewRegistry()
	if err := registry.Register(a, b); err == nil || !strings.Contains(err.Error(), "would both be the tool look") {
		t.Errorf("two commands with one tool: %v", err)
	}
}
