package schema_test

import (
	"strings"
	"testing"

	"ze.internal/ze/appliance/schema"
)

// module wraps statements as lines 2 and following of a module.
func module(name, body string) schema.Source {
	return schema.Source{Name: name + ".yang", Text: []byte(`module ` + name + ` { yang-version 1.1; namespace "urn:` + name + `"; prefix m; import ze-extensions { prefix ze; } import ze-types { prefix zt; }
` + body + `
}`)}
}

// command wraps input statements as lines 3 and following of a module.
func command(input string) string {
	return "rpc r { ze:command r; ze:effect read; ze:example r; description D; output { leaf o { type string; } } input {\n" + input + "\n} }"
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string // each must be part of the error
	}{
		{"syntax", "container c {", []string{"m.yang:"}},
		{"unknown statement", "contaner c { }", []string{"m.yang:2:1:", "contaner"}},
		{"unknown type", "container c { leaf l { type wrong; } }", []string{"m.yang:2:24:", "unknown type: m:wrong"}},
		{"unknown grouping", "container c {\nuses g; }", []string{"m.yang:3:1:", "unknown group: g"}},
		{"duplicate name through a grouping", "grouping g { leaf l { type string; } } container c { leaf l { type string; } uses g; }", []string{"m.yang:2:", "l"}},
		{"import of a module that is not loaded", "import other { prefix o; }", []string{"m.yang:2:1: module other is not among the modules loaded"}},
		{"submodule", "include sub;", []string{"m.yang:2:1: submodules are not supported"}},
		{"choice", "container c {\n  choice x { leaf a { type string; } } }", []string{"m.yang:3:3: statement choice is not supported"}},
		{"must", "container c { leaf l { type string; must \"1\"; } }", []string{"m.yang:2:37: statement must is not supported"}},
		{"leafref", "container c { leaf l { type leafref { path ../x; } } }", []string{"m.yang:2:24: type leafref is not supported"}},
		{"bits", "container c { leaf l { type bits { bit b; } } }", []string{"statement bit is not supported"}},
		{"leaf at the top", "leaf l { type string; }", []string{"m.yang:2:1: statement leaf is not supported at the top"}},
		{"list without key", "container c { list l { leaf a { type string; } } }", []string{"m.yang:2:15: list l has no key"}},
		{"list with two keys", `container c { list l { key "a b"; leaf a { type string; } leaf b { type string; } } }`, []string{`m.yang:2:24: key "a b" is not one leaf of list l`}},
		{"bad default", "container c { leaf l { type uint8; default 256; } }", []string{"m.yang:2:15: default of l: 256 is out of range; allowed: an integer 0..255"}},
		{"mandatory with default", "container c { leaf l { type uint8; default 1; mandatory true; } }", []string{"leaf l is mandatory and has a default"}},
		{"min above max", "container c { leaf-list l { type uint8; min-elements 3; max-elements 2; } }", []string{"min-elements is above max-elements"}},
		{"leaf-list of type empty", "container c { leaf-list l { type empty; } }", []string{"leaf-list l cannot be of type empty"}},
		{"empty in a union", "container c { leaf l { type union { type empty; type string; } } }", []string{"type empty in a union is not supported"}},
		{"range wider than the typedef", "typedef t { type uint8 { range 1..10; } } container c { leaf l { type t { range 1..11; } } }", []string{"m.yang:2:", "bad range"}},
		{"pattern RE2 cannot", `container c { leaf l { type string { pattern '\c+'; } } }`, []string{`m.yang:2:38: pattern \c+:`}},
		{"pattern with anchors", `container c { leaf l { type string { pattern '^a$'; } } }`, []string{"the pattern is anchored already"}},
		{"pattern with subtraction", `container c { leaf l { type string { pattern '[a-z-[aeiou]]'; } } }`, []string{"character class subtraction is not supported"}},
		{"pattern that is not XSD", `container c { leaf l { type string { pattern '(?i)a'; } } }`, []string{"(? is not a YANG construct"}},
		{"error-message on a range", `container c { leaf l { type uint8 { range 1..2 { error-message "x"; } } } }`, []string{"use ze:allowed"}},

		{"rpc without anything", "\nrpc r { ze:command r; }", []string{
			"m.yang:3:1: rpc r has no ze:effect", "m.yang:3:1: rpc r has no description", "m.yang:3:1: rpc r has no ze:example", "m.yang:3:1: rpc r has no output"}},
		{"hidden rpc without anything", "rpc r { ze:command r; ze:hidden; }", []string{"rpc r has no ze:effect"}},
		{"rpc without command", "rpc r { description D; }", []string{"m.yang:2:1: rpc r has no ze:command"}},
		{"unknown effect", `rpc r { ze:command r; ze:effect reed; ze:example r; description D; output { } }`, []string{`m.yang:2:23: unknown ze:effect "reed"; allowed: read, change or destroy`}},
		{"unknown task", `rpc r { ze:command r; ze:effect read; ze:task maybe; ze:example r; description D; output { } }`, []string{`unknown ze:task "maybe"`}},
		{"ui-resource", `rpc r { ze:command r; ze:effect read; ze:ui-resource http://x; ze:example r; description D; output { } }`, []string{"is not a ui:// address"}},
		{"resource that changes", `rpc r { ze:command r; ze:effect change; ze:resource ze://r; ze:example r; description D; output { } }`, []string{"m.yang:2:41: ze:resource is for commands that read"}},
		{"resource that is no URI", `rpc r { ze:command r; ze:effect read; ze:resource r; ze:example r; description D; output { } }`, []string{`"r" is no URI`}},
		{"half a segment", `rpc r { ze:command r; ze:effect read; ze:resource "ze://r/a{b}"; ze:example r; description D; output { } }`, []string{"variable b is no whole segment"}},
		{"variable twice", `rpc r { ze:command r; ze:effect read; ze:resource "ze://r/{b}/{b}"; ze:example r; description D; output { } }`, []string{"variable b stands there twice"}},
		{"variable that is no word", `rpc r { ze:command r; ze:effect read; ze:resource "ze://r/{b*}"; ze:example r; description D; output { } }`, []string{`variable "b*" is not lower-case`}},
		{"variable without parameter", `rpc r { ze:command r; ze:effect read; ze:resource "ze://r/{b}"; ze:example r; description D; output { } }`, []string{"variable b is no single parameter"}},
		{"parameter without variable", `rpc r { ze:command r; ze:effect read; ze:resource "ze://r"; ze:example r; description D; input { leaf b { type string; mandatory true; } } output { } }`, []string{"requires b, which is no variable"}},
		{"updated-on alone", `rpc r { ze:command r; ze:effect read; ze:updated-on x; ze:example r; description D; output { } }`, []string{"ze:updated-on is for commands with ze:resource"}},
		{"name of a prompt", `rpc r { ze:command r; ze:effect read; ze:prompt "A b"; ze:example r; description D; output { } }`, []string{`ze:prompt "A b" is not lower-case`}},
		{"complete without field", command("leaf l { type string; ze:complete \"show r\"; }"), []string{`ze:complete "show r" is not of the form`}},
		{"complete in an output", "rpc r { ze:command r; ze:effect read; ze:example r; description D; output { leaf o { type string; ze:complete \"r: o\"; } } }", []string{"o is no parameter"}},
		{"words of a command", `rpc r { ze:command "Show it"; ze:effect read; ze:example r; description D; output { } }`, []string{`word "Show" of ze:command`}},
		{"same command twice", `rpc r { ze:command "a b"; ze:effect read; ze:example r; description D; output { } }
rpc s { ze:command "a  b"; ze:effect read; ze:example r; description D; output { } }`, []string{`m.yang:3:9: command "a b" is declared at m.yang:2:9, too`}},
		{"effect twice", `rpc r { ze:command r; ze:effect read; ze:effect change; ze:example r; description D; output { } }`, []string{"m.yang:2:39: ze:effect is given more than once"}},
		{"unknown extension", "container c { ze:sensible; }", []string{"m.yang:2:15: unknown extension ze:sensible"}},
		{"unknown prefix", "container c { xx:sensitive; }", []string{"unknown extension xx:sensitive; import ze-extensions"}},
		{"positional on a container", command("container c { ze:positional; }"), []string{"m.yang:3:15: ze:positional is not allowed in container; allowed in leaf or leaf-list"}},
		{"flag with argument", command("leaf l { type string; ze:sensitive true; }"), []string{"ze:sensitive takes no argument"}},
		{"argument missing", command("leaf l { type string; ze:header; }"), []string{"ze:header needs an argument"}},
		{"header not a token", command(`leaf l { type string; ze:header "a b"; }`), []string{`m.yang:3:23: ze:header "a b" is not an HTTP token`}},
		{"header on a decimal", command("leaf l { type decimal64 { fraction-digits 1; } ze:header A; }"), []string{"needs a string, integer or boolean leaf"}},
		{"header on a leaf-list", command("leaf-list l { type string; ze:header A; }"), []string{"ze:header is not allowed in leaf-list"}},
		{"header in a list", command("list l { leaf a { type string; ze:header A; } }"), []string{"m.yang:3:10: a is inside a list and cannot have ze:header"}},
		{"same header twice", command("leaf a { type string; ze:header A; } leaf b { type string; ze:header a; }"), []string{"a and b have the same ze:header a"}},
		{"positional below the top", command("container c { leaf l { type string; ze:positional; } }"), []string{"cannot be ze:positional or ze:selector"}},
		{"positional behind a leaf-list", command("leaf-list a { type string; ze:positional; } leaf b { type string; ze:positional; }"), []string{"b after it cannot be ze:positional"}},
		{"positional in data", "container c { leaf l { type string; ze:positional; } }", []string{"m.yang:2:15: l is no parameter"}},
		{"header in an output", "rpc r { ze:command r; ze:effect read; ze:example r; description D; output { leaf o { type string; ze:header A; } } }", []string{"o is no parameter"}},
		{"bad example", command("leaf l { type uint8; ze:example 300; }"), []string{"m.yang:3:22: example of l: 300 is out of range"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := schema.Load([]schema.Source{module("m", test.body)})
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}

func TestLoadTogether(t *testing.T) {
	a := module("a", "typedef t { type uint8; } container one { leaf l { type t; } }")
	b := module("b", "import a { prefix a; } container two { leaf l { type a:t; } }")
	set, err := schema.Load([]schema.Source{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(set.Data().ChildNames(), " "); got != "two one" {
		t.Errorf("data: %s, want the order of the sources", got)
	}
	if _, err := schema.Load([]schema.Source{a, module("b", "container one { }")}); err == nil || !strings.Contains(err.Error(), "b.yang:2:1: container one is declared by another module") {
		t.Errorf("same container twice: %v", err)
	}
	if _, err := schema.Load([]schema.Source{a, a}); err == nil || !strings.Contains(err.Error(), "duplicate module a") {
		t.Errorf("same module twice: %v", err)
	}
	if _, err := schema.Load([]schema.Source{{Name: "x.yang", Text: []byte("submodule x { }")}}); err == nil || !strings.Contains(err.Error(), "x.yang:1:1: a file must hold one module") {
		t.Errorf("submodule: %v", err)
	}
	if set, err := schema.Load(nil); err != nil || len(set.Commands()) != 0 || len(set.Data().Children) != 0 {
		t.Errorf("nothing: %v", err)
	}
}
