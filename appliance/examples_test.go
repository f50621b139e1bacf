package appliance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

// TestExamplesAreOfWhatOneMayDo: the reference shows no example that names a
// command its reader may not run, as the command or as an argument of another.
func TestExamplesAreOfWhatOneMayDo(t *testing.T) {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	registry := command.NewRegistry()
	model, err := schema.Load([]schema.Source{config.Model()})
	if err != nil {
		t.Fatal(err)
	}
	commands, err := builtin.Commands(set, builtin.Deps{Registry: registry, Clock: time.Now,
		Config: config.NewManager(config.Options{Model: model.Data()})})
	if err != nil {
		t.Fatal(err)
	}
	if err := registry.Register(commands...); err != nil {
		t.Fatal(err)
	}
	const announce, rib, list = "show command help announce", "show command help show bgp rib sent", "show command list show bgp"
	for name, c := range map[string]struct {
		p          access.Principal
		shows, not []string
	}{
		"read":   {access.Principal{Scope: access.Read}, []string{rib, list}, []string{announce}},
		"write":  {access.Principal{Scope: access.Write}, []string{announce, rib, list}, nil},
		"denied": {access.Principal{Scope: access.Admin, Deny: []string{"show bgp"}}, []string{announce}, []string{rib, list}},
		"narrow": {access.Principal{Allow: []string{"show command"}}, []string{"show command list"}, []string{announce, rib, list}},
	} {
		t.Run(name, func(t *testing.T) {
			var all []string
			for _, c := range registry.Describe(&c.p).Commands {
				if c.Examples == nil {
					t.Errorf("the examples of %q are no list", c.Name)
				}
				all = append(all, c.Examples...)
			}
			for _, e := range c.shows {
				if !slices.Contains(all, e) {
					t.Errorf("%q is not shown", e)
				}
			}
			reference := string(registry.Reference(&c.p))
			for _, e := range c.not {
				if slices.Contains(all, e) || strings.Contains(reference, `"`+e+`"`) {
					t.Errorf("%q is shown", e)
				}
			}
		})
	}
}
