package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// shelf has things to read: what an rpc says besides is in its argument.
func shelf(t *testing.T, rpcs ...string) ([]*command.Command, error) {
	t.Helper()
	text := "module shelf { yang-version 1.1; namespace \"urn:shelf\"; prefix s; import ze-extensions { prefix ze; }\n"
	for i, rpc := range rpcs {
		if !strings.Contains(rpc, "ze:effect") {
			rpc = "ze:effect read; " + rpc
		}
		text += fmt.Sprintf("rpc r%d { ze:example x; description D; %s }\n", i, rpc)
	}
	set, err := schema.Load([]schema.Source{{Name: "shelf.yang", Text: []byte(text + "}")}})
	if err != nil {
		return nil, err
	}
	var out []*command.Command
	for _, decl := range set.Commands() {
		out = append(out, command.New(decl, func(_ context.Context, r *command.Request) (any, error) {
			switch r.Command.Name() {
			case "show broken":
				return nil, errors.New("a defect")
			case "show away":
				return nil, &command.Error{Code: command.Unavailable, Message: "not now"}
			}
			var args struct{ Shelf string }
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			return map[string]any{"book": []any{
				map[string]any{"title": args.Shelf + "b", "tag": []string{"x", "y"}}, map[string]any{"title": "a"}, map[string]any{"title": "a"}}}, nil
		}))
	}
	return out, nil
}

func TestResourcesAndPromptsAreUnique(t *testing.T) {
	for _, test := range []struct{ a, b, want string }{
		{`ze:command "show a"; ze:resource "s://x"; output { }`, `ze:command "show b"; ze:resource "s://x"; output { }`, "are both the resource s://x"},
		{`ze:command "show a"; ze:prompt "p"; output { }`, `ze:command "show b"; ze:prompt "p"; output { }`, "are both the prompt p"},
	} {
		commands, err := shelf(t, test.a, test.b)
		if err != nil {
			t.Fatal(err)
		}
		r := command.NewRegistry()
		if err := r.Register(commands...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
		if err := r.Register(commands[0]); err != nil {
			t.Error("a refused registration left something: ", err)
		}
	}
}

func TestResourceLookUp(t *testing.T) {
	commands, err := shelf(t,
		`ze:command "show all"; ze:resource "s://book/all"; output { }`,
		`ze:command "show one"; ze:resource "s://book/{title}"; input { leaf title { type string; } } output { }`)
	if err != nil {
		t.Fatal(err)
	}
	r := command.NewRegistry()
	if err := r.Register(commands...); err != nil {
		t.Fatal(err)
	}
	admin := &access.Principal{Scope: access.Admin}
	for uri, want := range map[string]string{
		"s://book/all": "show all map[]", "s://book/a%20b": "show one map[title:a b]", "s://book/": "", "s://book/a/b": "", "s://book/%zz": "", "xs://book/all": "", "s://book/all/": "",
	} {
		got := ""
		if found, vars := r.Resource(admin, uri); found != nil {
			got = fmt.Sprint(found.Command.Name(), " ", vars)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	if found, _ := r.Resource(&access.Principal{Allow: []string{"show one"}}, "s://book/all"); found == nil || found.Command.Name() != "show one" {
		t.Errorf("what is forbidden hides what is allowed: %v", found)
	}
}

// quiet keeps no records.
type quiet struct{ command.Auditor }

func (quiet) Note(audit.Record) error { return nil }

func TestComplete(t *testing.T) {
	input := func(origin string) string {
		return ` input { leaf shelf { type string; } leaf book { type string; ze:complete "` + origin + `"; } } output { }`
	}
	books := ` output { list book { key title; leaf title { type string; } leaf-list tag { type string; } } }`
	commands, err := shelf(t,
		`ze:command "show books"; input { leaf shelf { type string; } }`+books,
		`ze:command "show broken";`+books, `ze:command "show away";`+books,
		`ze:command "take title";`+input("show books: book/title"), `ze:command "take tag";`+input("show books: book/tag"),
		`ze:command "take broken";`+input("show broken: book/title"), `ze:command "take away";`+input("show away: book/title"),
		`ze:command "burn books"; ze:effect change;`+books, `ze:command "take ash";`+input("burn books: book/title"),
		`ze:command "take none";`+input("show nothing: book/title"))
	if err != nil {
		t.Fatal(err)
	}
	registry := command.NewRegistry()
	if err := registry.Register(commands...); err != nil {
		t.Fatal(err)
	}
	d := command.NewDispatcher(command.Options{Registry: registry, Audit: quiet{}, Clock: time.Now, Logger: zerolog.Nop()})
	admin, narrow := &access.Principal{Scope: access.Admin}, &access.Principal{Allow: []string{"take"}}
	for _, test := range []struct {
		who         *access.Principal
		path, begin string
		chosen      map[string]string
		want        string
	}{
		{admin, "take title", "", nil, "[a b] <nil>"},
		{admin, "take title", "b", nil, "[b] <nil>"},
		{admin, "take title", "", map[string]string{"shelf": "z", "book": "q", "other": "1"}, "[a zb] <nil>"},
		{admin, "take tag", "", nil, "[x y] <nil>"},
		{admin, "take away", "", nil, "[] <nil>"},
		{admin, "take none", "", nil, "[] <nil>"},
		{admin, "take ash", "", nil, "[] <nil>"},
		{narrow, "take title", "", nil, "[] <nil>"},
		{admin, "take broken", "", nil, "[] internal error; the daemon's log has the cause"},
	} {
		c := registry.Find(test.who, strings.Fields(test.path))
		got, err := d.Complete(t.Context(), command.Call{Principal: test.who, Surface: "test"}, c, "book", test.begin, test.chosen)
		if s := fmt.Sprint(got, " ", err); s != test.want {
			t.Errorf("%s: %s, want %s", test.path, s, test.want)
		}
	}
}

func TestValues(t *testing.T) {
	commands, err := shelf(t, `ze:command "show a"; input { leaf n { type uint8; } leaf-list l { type uint8; } leaf b { type boolean; } } output { }`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		texts map[string]string
		want  string
	}{
		{nil, "map[] <nil>"},
		{map[string]string{"n": "7", "l": "1, 2 3", "b": "true", "x": "y"}, "map[b:true l:[1 2 3] n:7 x:y] <nil>"},
		{map[string]string{"n": "["}, `map[] n: "[" is not a whole number in plain digits; allowed: an integer 0..255`},
		{map[string]string{"l": "1,x"}, `map[] l: "x" is not a whole number in plain digits; allowed: an integer 0..255`},
	} {
		got, err := commands[0].Values(test.texts)
		if s := fmt.Sprint(got, " ", err); s != test.want {
			t.Errorf("%v: %s, want %s", test.texts, s, test.want)
		}
	}
}

// TestPanelOfTool: a tool has the panel of its command without action, or one that
// all its actions have.
func TestPanelOfTool(t *testing.T) {
	const mine, other, none = `ze:ui-resource "ui://a/b.html";`, `ze:ui-resource "ui://c/d.html";`, ""
	rpc := func(path, ui string) string { return `ze:command "` + path + `"; ` + ui + ` output { }` }
	for _, test := range []struct{ bare, a, b, want string }{
		{"-", mine, mine, "ui://a/b.html"},
		{"-", mine, none, ""},
		{"-", none, mine, ""},
		{"-", mine, other, ""},
		{mine, none, other, "ui://a/b.html"},
		{none, mine, mine, ""},
	} {
		rpcs := []string{rpc("show book a", test.a), rpc("show book b", test.b)}
		if test.bare != "-" {
			rpcs = append(rpcs, rpc("show book", test.bare))
		}
		commands, err := shelf(t, rpcs...)
		if err != nil {
			t.Fatal(err)
		}
		r := command.NewRegistry()
		if err := r.Register(commands...); err != nil {
			t.Fatal(err)
		}
		if got := r.Tool(&access.Principal{Scope: access.Admin}, "ze_show_book").UIResource; got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
