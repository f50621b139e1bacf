package schema_test

import (
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance/schema"
)

const twoCommands = `module m {
  namespace "urn:m";
  prefix m;
  import ze-extensions { prefix ze; }
  description "Two
     commands.";
  revision 2026-01-01 { description "Old."; }
  revision 2026-02-01 { description "New."; }

  // Looks.
  rpc look { ze:command "show look"; ze:effect read; ze:example "show look"; description "Look {}."; output { } }

  rpc act {
    ze:command "act";
    ze:effect change;
    ze:example "act";
    description "Act.";
    output { }
  }
  grouping between { description "Stays."; }
  rpc end { ze:command "end"; ze:effect change; ze:example "end"; description "End."; output { } } rpc last { ze:command "last"; ze:effect read; ze:example "last"; description "Last."; output { } }
}
`

// TestModuleText: a module is shown as it is written, or without some of its
// commands and nothing else; what is left is a module still.
func TestModuleText(t *testing.T) {
	modules, err := schema.Modules([]schema.Source{{Name: "m.yang", Text: []byte(twoCommands)}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	if want := []string{"m", "ze-extensions", "ze-types"}; !slices.Equal(names, want) {
		t.Fatalf("modules %v, want %v", names, want)
	}
	m := modules[0]
	if m.Revision != "2026-02-01" || m.Description != "Two commands." {
		t.Errorf("revision %q, description %q", m.Revision, m.Description)
	}
	if got := m.Text(func([]string) bool { return true }); got != twoCommands {
		t.Errorf("the whole module is\n%s", got)
	}
	var all []string
	for _, c := range m.Commands {
		all = append(all, strings.Join(c, " "))
	}
	if want := []string{"show look", "act", "end", "last"}; !slices.Equal(all, want) {
		t.Fatalf("commands %q, want %q", all, want)
	}
	for kept := range 1 << len(all) {
		keep := func(path []string) bool { return kept&(1<<slices.Index(all, strings.Join(path, " "))) != 0 }
		text := m.Text(keep)
		set, err := schema.Load([]schema.Source{{Name: "m.yang", Text: []byte(text)}})
		if err != nil {
			t.Fatalf("with %04b: %v\n%s", kept, err, text)
		}
		if !strings.Contains(text, "Stays.") {
			t.Errorf("with %04b the grouping is gone", kept)
		}
		var got, want []string
		for _, c := range set.Commands() {
			got = append(got, strings.Join(c.Path, " "))
		}
		for i, c := range all {
			if kept&(1<<i) != 0 {
				want = append(want, c)
			}
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("with %04b it declares %q, want %q", kept, got, want)
		}
	}
}

func TestModulesRefusesBadSyntax(t *testing.T) {
	if _, err := schema.Modules([]schema.Source{{Name: "m.yang", Text: []byte("module m {")}}); err == nil || !strings.Contains(err.Error(), "m.yang") {
		t.Errorf("error %v", err)
	}
	if _, err := schema.Modules([]schema.Source{{Name: "m.yang"}}); err == nil || !strings.Contains(err.Error(), "m.yang") {
		t.Errorf("error of an empty file %v", err)
	}
}

// TestJSONType: a leaf of type json takes every value, as text and as JSON.
func TestJSONType(t *testing.T) {
	set, err := schema.Load([]schema.Source{{Name: "m.yang", Text: []byte(`module m { namespace "urn:m"; prefix m;
  import ze-extensions { prefix ze; } import ze-types { prefix zt; }
  rpc r { ze:command r; ze:effect read; ze:example "r 1"; description D; input { leaf v { type zt:json; ze:positional; } } output { } } }`)}})
	if err != nil {
		t.Fatal(err)
	}
	in := set.Commands()[0].Input
	for _, v := range []any{nil, true, "x", []any{"a"}, map[string]any{"b": nil}} {
		if p := in.Check(map[string]any{"v": v}); p != nil {
			t.Errorf("%v: %v", v, p)
		}
	}
	if got := string(in.JSONSchema()); got != `{"type":"object","properties":{"v":{"description":"Allowed: any JSON value."}},"additionalProperties":false}` {
		t.Errorf("published as %s", got)
	}
}
