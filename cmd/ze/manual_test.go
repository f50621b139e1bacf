package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// plainManual takes the marks of man(7) off the words that a test looks for.
var plainManual = strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(dq`, `"`, `\(rs`, `\`, `\(ti`, "~", `\[u2026]`, "…")

// TestManual: the pages have every command of this program and of the daemon,
// every flag, parameter and example, every setting and exit code.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	if code := run(t.Context(), stdio{strings.NewReader(""), &out, &out}, []string{"manual", dir}); code != exitOK {
		t.Fatal(out.String())
	}
	pages := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		pages[strings.TrimSuffix(filepath.Base(f), ".1")] = plainManual.Replace(string(text))
	}
	has := func(page, text string) {
		t.Helper()
		if !strings.Contains(pages[page], text) {
			t.Errorf("the page %s (%d bytes) has no %q", page, len(pages[page]), text)
		}
	}

	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	root := (&cli{}).root(set)
	var walk func(page string, cmd *cobra.Command)
	walk = func(page string, cmd *cobra.Command) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				has(page, "--"+f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			switch {
			case sub.Hidden:
				if _, ok := pages["ze-"+sub.Name()]; ok && cmd == root {
					t.Errorf("%s is hidden and has a page", sub.Name())
				}
			case cmd == root:
				has("ze", ".B \""+sub.Name()+"\"\n")
				walk("ze-"+sub.Name(), sub)
			default:
				has(page, ".SS \""+sub.CommandPath())
				walk(page, sub)
			}
		}
	}
	walk("ze", root)
	for _, s := range settings() {
		has("ze", ".B \""+s.variable()+"\"\n")
	}
	for code, meaning := range exitMeanings {
		has("ze", fmt.Sprintf(".B \"%d\"\n%s\n", code, meaning))
	}

	encoded, err := appliance.Reference()
	if err != nil {
		t.Fatal(err)
	}
	var ref command.Reference
	if err := json.Unmarshal(encoded, &ref); err != nil {
		t.Fatal(err)
	}
	if len(ref.Commands) < 40 {
		t.Fatalf("the reference has only %d commands", len(ref.Commands))
	}
	for _, c := range ref.Commands {
		page := "ze-" + strings.Fields(c.Name)[0]
		has(page, ".SS \"ze "+c.Name+"\"\n")
		for _, p := range c.Parameters {
			has(page, ".B \""+p.Name+" (")
		}
		for _, e := range c.Examples {
			has(page, "\nze "+e+"\n")
		}
	}
}

// TestCompletion: the shell is offered paths, parameters and values.
func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		line string // with what is completed at its end
		want string // the words offered, a dash for files
	}{
		{"withd", "withdraw"},
		{"show bgp rib ", "best received sent"},
		{"show bgp rib s", "sent"},
		{"announce 10.0.0.0/24 or", "origin"},
		{"announce 10.0.0.0/24 origin ", "igp egp incomplete"},
		{"announce 10.0.0.0/24 origin igp or", ""},
		{"request peer north ", "teardown"},
		{"token create ci scope r", "read"},
		{"config import c", "comment -"},
		{"store backup ", "file force -"},
	} {
		words := strings.Split(tt.line, " ")
		var out, errs strings.Builder
		if code := run(t.Context(), stdio{strings.NewReader(""), &out, &errs}, append([]string{"__complete"}, words...)); code != exitOK {
			t.Errorf("%q: %s", tt.line, errs.String())
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			switch directive, ok := strings.CutPrefix(word, ":"); {
			case !ok:
				got = append(got, word)
			case directive == fmt.Sprint(int(cobra.ShellCompDirectiveDefault)):
				got = append(got, "-")
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%q: offered %q, want %q", tt.line, text, tt.want)
		}
	}
}
