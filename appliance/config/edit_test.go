package config_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

// TestEdit shows how edits keep the rest of a text: its layout, its comments,
// its line ends.
func TestEdit(t *testing.T) {
	tests := []struct{ name, text, edit, want string }{
		{"into nothing", "", "set environment log level debug",
			"environment {\n    log {\n        level debug;\n    }\n}\n"},
		{"behind a last line without an end", "# c", "set environment log level debug",
			"# c\nenvironment {\n    log {\n        level debug;\n    }\n}\n"},
		{"a value", "bgp { router-id 192.0.2.1 ; } # c\n", "set bgp router-id 192.0.2.2", "bgp { router-id 192.0.2.2 ; } # c\n"},
		{"a value in quotes", "bgp { peer a { description'x'} }", "set bgp peer a description y", "bgp { peer a { description\"y\"} }"},
		{"a value that needs quotes", "bgp { peer a { description x } }", "set bgp peer a description y|z", "bgp { peer a { description \"y z\" } }"},
		{"a block on one line", "bgp { local { as 1; } }", "set bgp router-id 192.0.2.1", "bgp { local { as 1; } router-id 192.0.2.1; }"},
		{"a block on one line without a semicolon", "bgp { local { as 1 } router-id 192.0.2.1 }", "set bgp peer a remote as 2",
			"bgp { local { as 1 } router-id 192.0.2.1; peer a { remote { as 2; } } }"},
		{"an empty block", "bgp {}", "set bgp local as 1", "bgp { local { as 1; } }"},
		{"an empty block with blanks", "bgp {  }", "set bgp local as 1", "bgp { local { as 1; }  }"},
		{"an empty block over lines", "bgp {\n}\n", "set bgp local as 1", "bgp {\n    local {\n        as 1;\n    }\n}\n"},
		{"an empty block with a comment", "\tbgp { # why\n\t}\n", "set bgp router-id 192.0.2.1", "\tbgp { # why\n\t    router-id 192.0.2.1;\n\t}\n"},
		{"as deep as the neighbours", "bgp {\n  router-id 192.0.2.1\n  # local follows\n}\n", "set bgp local as 1",
			"bgp {\n  router-id 192.0.2.1\n  # local follows\n  local {\n      as 1;\n  }\n}\n"},
		{"behind several on one line", "bgp {\n  router-id 192.0.2.1; local { as 1; } # c\n}\n", "set bgp peer a passive true",
			"bgp {\n  router-id 192.0.2.1; local { as 1; } # c\n  peer a {\n      passive true;\n  }\n}\n"},
		{"windows line ends", "bgp {\r\n    router-id 192.0.2.1;\r\n}\r\n", "set bgp local as 1",
			"bgp {\r\n    router-id 192.0.2.1;\r\n    local {\r\n        as 1;\r\n    }\r\n}\r\n"},
		{"a list entry", "bgp { peer a { } }", "set bgp peer a family ipv6/unicast", "bgp { peer a { family ipv6/unicast; } }"},
		{"into a list entry without a block", "bgp { peer a { family ipv6/unicast } }", "set bgp peer a family ipv6/unicast prefix-limit 7",
			"bgp { peer a { family ipv6/unicast { prefix-limit 7; } } }"},
		{"into a list entry on its line", "bgp { peer a {\n  family ipv6/unicast; # c\n} }", "set bgp peer a family ipv6/unicast prefix-limit 7",
			"bgp { peer a {\n  family ipv6/unicast {\n      prefix-limit 7;\n  } # c\n} }"},
		{"a list entry that is there", "bgp { peer a { } }", "set bgp peer a", "bgp { peer a { } }"},
		{"an empty block that means something", "bgp { local { as 1; } }", "set bgp listen", "bgp { local { as 1; } listen { } }"},
		{"a list of values", "environment { mcp { } }", "set environment mcp identity a allow show|bgp", "environment { mcp { identity a { allow \"show bgp\"; } } }"},
		{"several values", "environment { mcp { } }", "set environment mcp identity a allow show|bgp withdraw",
			"environment { mcp { identity a { allow [ \"show bgp\" withdraw ]; } } }"},
		{"values in the place of one", "environment { mcp { identity a { allow'show'; } } }", "set environment mcp identity a allow announce withdraw",
			"environment { mcp { identity a { allow[ announce withdraw ]; } } }"},
		{"one in the place of several", "environment { mcp { identity a { allow [ a b ]; } } }", "set environment mcp identity a allow c",
			"environment { mcp { identity a { allow [ c ]; } } }"},
		{"comments between values", "environment { mcp { identity a {\n  allow [ a # why a\n  # and b\n  b ];\n} } }", "set environment mcp identity a allow c d",
			"environment { mcp { identity a {\n  allow [\n      # why a\n      # and b\n      c d ];\n} } }"},

		{"delete a line", "bgp {\n  router-id 192.0.2.1; # c\n\n  # local\n  local { as 1; }\n}\n", "delete bgp router-id", "bgp {\n\n  # local\n  local { as 1; }\n}\n"},
		{"delete the last line", "environment { }\nbgp { }", "delete bgp", "environment { }\n"},
		{"delete all", "bgp { }", "delete bgp", ""},
		{"delete the first of a line", "bgp { router-id 192.0.2.1; local { as 1; } }", "delete bgp router-id", "bgp { local { as 1; } }"},
		{"delete the last of a line", "bgp { router-id 192.0.2.1; local { as 1; } }", "delete bgp local", "bgp { router-id 192.0.2.1; }"},
		{"delete without a semicolon", "bgp { router-id 192.0.2.1 }", "delete bgp router-id", "bgp { }"},
		{"delete before another on the line", "bgp {\n  router-id 192.0.2.1; local { as 1; } # both\n}", "delete bgp router-id", "bgp {\n  local { as 1; } # both\n}"},
		{"delete behind another on the line", "bgp {\n  router-id 192.0.2.1; local { as 1; } # both\n}", "delete bgp local", "bgp {\n  router-id 192.0.2.1; # both\n}"},
		{"delete a block over lines", "bgp {\n  local {\n    as 1;\n  } # end\n  router-id 192.0.2.1\n}", "delete bgp local", "bgp {\n  router-id 192.0.2.1\n}"},
		{"delete a list entry", "bgp { peer a { } peer b; peer c { } }", "delete bgp peer b", "bgp { peer a { } peer c { } }"},
		{"delete a list of values", "environment { mcp { identity a { allow [ a\n b ]; scope read; } } }", "delete environment mcp identity a allow",
			"environment { mcp { identity a { scope read; } } }"},
		{"delete with windows line ends", "bgp {\r\n  router-id 192.0.2.1;\r\n}\r\n", "delete bgp router-id", "bgp {\r\n}\r\n"},
	}
	root := model(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := edit(root, parse(t, test.text), words(test.edit))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := parse(t, string(got)).ValidateDraft(root); err != nil {
				t.Errorf("the text is wrong now: %v", err)
			}
		})
	}
}

// words cuts an edit into words; | stands for a blank within one.
func words(line string) []string {
	w := strings.Fields(line)
	for i := range w {
		w[i] = strings.ReplaceAll(w[i], "|", " ")
	}
	return w
}

func edit(root *schema.Node, tree *config.Tree, words []string) ([]byte, error) {
	if words[0] == "set" {
		return tree.Set(root, words[1:])
	}
	return tree.Delete(root, words[1:])
}

// TestEditRefuses: a wrong path or value is answered with what is allowed there
// and what was probably meant, and never with a secret.
func TestEditRefuses(t *testing.T) {
	const text = "bgp { router-id 192.0.2.1; peer north { remote { as 64999; } } }"
	root := model(t)
	for line, want := range map[string]string{
		"set":                                      "no path is given; allowed: environment, bgp",
		"set bpg local as 1":                       "bpg: unknown name \"bpg\"; allowed: environment, bgp; did you mean bgp?",
		"set bgp peer north remote sa 1":           "bgp/peer[north]/remote/sa: unknown name \"sa\"; allowed: ip, port, as",
		"set bgp local as":                         "bgp/local/as: has no value; allowed: an integer 1..4294967295",
		"set bgp local as one":                     "bgp/local/as: \"one\" is not a whole number in plain digits; allowed: an integer 1..4294967295",
		"set bgp local as 1 2":                     "bgp/local/as: takes one value, not a list; allowed: an integer 1..4294967295",
		"set bgp local":                            "bgp/local: is a block; the path goes on; allowed: as",
		"set bgp peer":                             "bgp/peer: has no name behind it; allowed: peer NAME { … }",
		"set bgp peer a/b passive true":            "bgp/peer[a/b]: \"a/b\" does not have the allowed form; allowed: ",
		"set bgp peer a name b":                    "bgp/peer[a]/name: is the key and stands before the block; allowed: peer NAME { … }",
		"set bgp peer a password":                  "bgp/peer[a]/password: has no value; allowed: text of 1..80 characters",
		"set bgp peer a password ***":              "bgp/peer[a]/password: is given as ***, which is how a secret is shown; allowed: the value itself",
		"set bgp peer a password secret two":       "bgp/peer[a]/password: takes one value, not a list; allowed: text of 1..80 characters",
		"set environment mcp token secret!":        "environment/mcp/token: the value is not allowed; allowed: at least 16 letters",
		"set environment mcp identity a allow":     "environment/mcp/identity[a]/allow: has no value; allowed: allow [ … ]",
		"set environment mcp identity a allow x x": "environment/mcp/identity[a]/allow: holds a value twice",
		"set bgp peer a description \xe1":          "bgp/peer[a]/description: holds a character that cannot be written",
		"set bgp peer a description \x01":          "bgp/peer[a]/description: holds a character that cannot be written",
		"delete":                                   "no path is given; allowed: environment, bgp",
		"delete environment":                       "environment: is not in the configuration; allowed: bgp",
		"delete bgp peer nroth":                    "bgp/peer[nroth]: is not in the configuration; allowed: router-id, peer north; did you mean peer north?",
		"delete bgp peer north timer hold":         "bgp/peer[north]/timer: is not in the configuration; allowed: remote",
		"delete bgp peer":                          "bgp/peer: has no name behind it; allowed: peer NAME { … }",
		"delete bgp router-id 192.0.2.1":           "bgp/router-id: is deleted as a whole, without naming a value",
	} {
		_, err := edit(root, parse(t, text), words(line))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret!") || strings.Contains(err.Error(), "two") {
			t.Errorf("%s:\ngot  %v\nwant %s", line, err, want)
		}
	}
	empty := parse(t, "bgp { peer a; }")
	if _, err := empty.Delete(root, words("bgp peer a remote")); err == nil || !strings.Contains(err.Error(), "the block is empty") {
		t.Errorf("in an entry without a block: %v", err)
	}
}

// TestMasking: secrets are masked byte for byte in place, tokens become digests.
func TestMasking(t *testing.T) {
	root := model(t)
	tree := parse(t, "environment { mcp { token a-secret-long-enough; identity x { token'another-secret-too' } } } # c\r\n"+
		"bgp { peer a { password hunter2 } peer b { description \"password\"; } }")
	want := "environment { mcp { token \"***\"; identity x { token\"***\" } } } # c\r\nbgp { peer a { password \"***\" } peer b { description \"password\"; } }"
	if got := string(tree.Mask(root)); got != want {
		t.Errorf("masked:\n%s\nwant:\n%s", got, want)
	}
	hashed := string(tree.Hash(root))
	want = fmt.Sprintf("environment { mcp { token sha256:%x; identity x { token\"sha256:%x\" } } } # c\r\nbgp { peer a { password hunter2 } peer b { description \"password\"; } }",
		sha256.Sum256([]byte("a-secret-long-enough")), sha256.Sum256([]byte("another-secret-too")))
	if hashed != want {
		t.Errorf("hashed:\n%s\nwant:\n%s", hashed, want)
	}
	again := string(parse(t, hashed).Hash(root))
	if again != hashed {
		t.Errorf("a digest is hashed again: %s", again)
	}
}

// FuzzEdit: a text that keeps to the model does so after any edit that is not
// refused; the edited path holds the value and no other leaf has changed.
func FuzzEdit(f *testing.F) {
	root := model(f)
	for _, text := range []string{
		"", example, "bgp {}", "bgp{router-id'192.0.2.1'}", "# c", "bgp {\r\n# c\r\n}\r\n",
		"environment { mcp { identity a { token sha256:" + strings.Repeat("0", 64) + "; allow [ # c\n a\n b ] } } } # end",
		"bgp { peer a; peer b { family ipv4/unicast; family ipv6/unicast { prefix-limit 1 } } }",
	} {
		for _, line := range []string{
			"set bgp router-id 192.0.2.9", "set bgp peer a family ipv4/unicast prefix-limit 5", "set bgp peer a description x|\"'#{;",
			"set environment mcp identity a allow a b c", "set bgp listen", "delete bgp peer a", "delete bgp router-id",
			"delete environment mcp identity a allow", "set bgp peer b", "delete bgp peer b family ipv6/unicast prefix-limit",
		} {
			f.Add([]byte(text), line)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, line string) {
		tree, err := config.Parse("f", text)
		if err != nil || tree.ValidateDraft(root) != nil {
			return
		}
		w := words(line)
		if len(w) == 0 || w[0] != "set" && w[0] != "delete" {
			return
		}
		before := tree.Leaves(root)
		edited, err := edit(root, tree, w)
		if err != nil {
			if problems, ok := err.(config.Problems); !ok || len(problems) == 0 {
				t.Fatalf("error is %#v", err)
			}
			return
		}
		after, err := config.Parse("edited", edited)
		if err != nil {
			t.Fatalf("%s: the text is refused: %v\n%q\n%q", line, err, text, edited)
		}
		if err := after.ValidateDraft(root); err != nil {
			t.Fatalf("%s: the text is wrong: %v\n%q\n%q", line, err, text, edited)
		}
		path, value := config.EditedPath(root, w[1:])
		got := after.Leaves(root)
		if v, ok := got[path]; w[0] == "set" && (!ok || v != value) || w[0] == "delete" && ok {
			t.Errorf("%s: %s is %q (%v), want %q\n%q\n%q", line, path, v, ok, value, text, edited)
		}
		// What is below a deleted path goes; what is above one that is set may come.
		for _, p := range slices.Collect(maps.Keys(before)) {
			if w[0] == "delete" && (p == path || strings.HasPrefix(p, path+"/")) {
				delete(before, p)
			}
		}
		for p, v := range got {
			if _, ok := before[p]; w[0] == "set" && !ok && v == "" && strings.HasPrefix(path, p) {
				delete(got, p)
			}
		}
		delete(before, path)
		delete(got, path)
		if diff := cmp.Diff(before, got); diff != "" {
			t.Errorf("%s: other leaves changed (-before +after):\n%s\n%q\n%q", line, diff, text, edited)
		}
		// Comments stay, but for those of what is deleted.
		if w[0] == "set" && comments(tree) != comments(after) {
			t.Errorf("%s: comments are lost\n%q\n%q", line, text, edited)
		}
	})
}

// comments returns the comments of a tree, in order.
func comments(tree *config.Tree) string {
	var out []string
	for line := range strings.SplitSeq(string(tree.Print()), "\n") {
		if _, c, ok := strings.Cut(line, "#"); ok && !strings.ContainsAny(line[:len(line)-len(c)], `"`) {
			out = append(out, c)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
