package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestPrint(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"only empty lines", "\n\n \t\r\n", ""},
		{"one line", "a { b 1; c { d x }  e [ 1 2 ] }", "a {\n    b 1;\n    c {\n        d x;\n    }\n    e [ 1 2 ];\n}\n"},
		{"statement ends", "a 1\nb;\nc { }\nl x;l 'y' {}\ne [\n1\n\n2\n]", "a 1;\nb;\nc {\n}\nl x;\nl y {\n}\ne [ 1 2 ];\n"},
		{"empty list", "a [ ];", "a [ ];\n"},
		{"quotes", `a "x"; b 'y z'; c ""; d "\n\t\\\"'"; e '"'; f a\b; g "a\\b c"; h "{"; i "a#b"; j ab=c:d/e`,
			"a x;\nb \"y z\";\nc \"\";\nd \"\\n\\t\\\\\\\"'\";\ne \"\\\"\";\nf a\\b;\ng \"a\\\\b c\";\nh \"{\";\ni \"a#b\";\nj ab=c:d/e;\n"},
		{"comments", "#top \n\n\n# second\na 1; # behind\nb { # opening\n# own line\nc 2 # behind c\n# last\n} # closing\n#end",
			"#top\n\n# second\na 1; # behind\nb { # opening\n    # own line\n    c 2; # behind c\n    # last\n} # closing\n#end\n"},
		{"comment behind a block on one line", "a { b 1; } # c", "a {\n    b 1;\n} # c\n"},
		{"comments inside brackets move up", "\na 1;\n\nb [ x # one\n# two\ny ]; # behind", "a 1;\n\n# one\n# two\nb [ x y ]; # behind\n"},
		{"empty lines", "\n\na;\n\n\n\nb;\nc {\n\n\nd;\n\n}\n\n", "a;\n\nb;\nc {\n    d;\n}\n"},
		{"windows line ends", "a 1\r\n# c\r\nb {\r\n}\r\n", "a 1;\n# c\nb {\n}\n"},
		{"tabs in strings and comments", "a 'x\ty'; #\tc", "a \"x\\ty\"; #\tc\n"},
		{"odd spaces in quotes", "a '\u00a0';", "a \"\u00a0\";\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tree, err := Parse("f", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(tree.Print())); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
			roundTrip(t, tree)
		})
	}
}

// sameTree compares what trees say; where it is written and in which quotes
// does not matter.
var sameTree = cmp.Options{
	cmp.AllowUnexported(block{}, item{}, statement{}),
	cmpopts.IgnoreTypes(span{}),
	cmp.Comparer(func(a, b token) bool { return a.text == b.text }),
}

// roundTrip checks that the canonical text means the same and is canonical.
func roundTrip(t *testing.T, tree *Tree) {
	t.Helper()
	printed := tree.Print()
	again, err := Parse("printed", printed)
	if err != nil {
		t.Fatalf("the canonical text is refused: %v\n%s", err, printed)
	}
	if diff := cmp.Diff(tree.root, again.root, sameTree); diff != "" {
		t.Errorf("the canonical text means something else (-want +got):\n%s\n%s", diff, printed)
	}
	if diff := cmp.Diff(string(printed), string(again.Print())); diff != "" {
		t.Errorf("printing again changes the text (-want +got):\n%s", diff)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "a;", "a b;", "a b { c d; }", "a [ b c ];", "a {\n# c\n}\n", "a \"\\n\\t\\\\\\\"\\'\";", "a 'b c' # d\n", "a { # open\n} # close",
		"a [ # x\n b ] # y\n\n\n# z", "a { b { c { } } }", "a\r\nb\r\n", "a \"", "{", "}", "[", "]", ";", "\x00", "\xff", "a \u00a0 b", "é 'ü';",
		"inactive: a;", "a'b'", "a['b'c]", "set a b", "# only", "a b c", "a [ b [ c ] ]", "a [ b { c } ]", "\"a\";",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := Parse("f", text)
		if err != nil {
			problems, ok := err.(Problems)
			if !ok || len(problems) != 1 || problems[0].Line < 1 || problems[0].Col < 1 {
				t.Fatalf("error without a place: %#v", err)
			}
			problems.Render(text)
			return
		}
		roundTrip(t, tree)
	})
}
