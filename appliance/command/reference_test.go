package command_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// TestReferenceSurroundings: what is beside the commands is told as it is at the
// moment, and to each caller what is for it.
func TestReferenceSurroundings(t *testing.T) {
	registry := command.NewRegistry()
	admin, reader := &access.Principal{Scope: access.Admin}, &access.Principal{Scope: access.Read}
	if got, want := string(registry.Reference(admin)), `{"commands":[],"rpc":[],"dispatch-keys":{},"plugins":[],"families":[],"services":[],"tools":[]}`; got != want {
		t.Fatalf("the reference of nothing is %s, want %s", got, want)
	}
	service := command.ServiceReference{Name: "a", Address: "127.0.0.1:1", Protocol: "http"}
	registry.Surround(func(p *access.Principal) command.Surroundings {
		s := command.Surroundings{Families: []string{"f"}}
		if p.Scope == access.Admin {
			s.Services = []command.ServiceReference{service}
		}
		return s
	})
	services := func(p *access.Principal) string {
		part, err := command.Section(registry.Reference(p), "services")
		if err != nil {
			t.Fatal(err)
		}
		return string(part)
	}
	if got, want := services(admin), `{"services":[{"name":"a","address":"127.0.0.1:1","protocol":"http"}]}`; got != want {
		t.Errorf("services %s, want %s", got, want)
	}
	if got, want := services(reader), `{"services":[]}`; got != want {
		t.Errorf("services %s, want %s", got, want)
	}
	first := registry.Reference(admin)
	if again := registry.Reference(admin); &first[0] != &again[0] {
		t.Error("the same reference is made twice")
	}
	service.Address = "127.0.0.1:2"
	if got, want := services(admin), `{"services":[{"name":"a","address":"127.0.0.1:2","protocol":"http"}]}`; got != want {
		t.Errorf("services that have moved are %s, want %s", got, want)
	}
}

// TestSections: sections are the members of the reference in their order.
func TestSections(t *testing.T) {
	reference := command.NewRegistry().Reference(&access.Principal{})
	dec := json.NewDecoder(strings.NewReader(string(reference)))
	var names []string
	for depth := 0; dec.More() || depth > 0; {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case json.Delim:
			if strings.ContainsRune("[{", rune(tok)) {
				depth++
			} else {
				depth--
			}
		case string:
			names = append(names, tok)
		}
	}
	if !slices.Equal(names, command.Sections()) {
		t.Errorf("sections %v, members %v", command.Sections(), names)
	}
	if whole, err := command.Section(reference, ""); err != nil || string(whole) != string(reference) {
		t.Errorf("no section gives %s, %v", whole, err)
	}
	_, err := command.Section(reference, "comands")
	if e := command.AsError(err); e.Code != command.Invalid || e.Field != "section" || !strings.Contains(e.Allowed, "dispatch-keys") || !slices.Contains(e.Actions, "did you mean commands?") {
		t.Errorf("an unknown section: %+v", e)
	}
}
