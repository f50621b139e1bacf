package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

type moduleEntry struct {
	Name        string   `json:"name"`
	Revision    string   `json:"revision,omitempty"`
	Description string   `json:"description"`
	Commands    []string `json:"commands"`
}

func (d Deps) reference(r runs) {
	modules := sync.OnceValues(func() ([]*schema.Module, error) { return schema.Modules(append(Models(), config.Model())) })
	r["show-reference"] = func(_ context.Context, r *command.Request) (any, error) {
		return d.Registry.Reference(r.Principal), nil
	}
	r["show-schema-list"] = func(_ context.Context, r *command.Request) (any, error) {
		all, err := modules()
		if err != nil {
			return nil, err
		}
		var out struct {
			Modules []moduleEntry `json:"modules"`
		}
		for _, m := range all {
			if e, ok := d.moduleEntry(r.Principal, m); ok {
				out.Modules = append(out.Modules, e)
			}
		}
		return out, nil
	}
	r["show-schema-module"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			Module string `json:"module"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		all, err := modules()
		if err != nil {
			return nil, err
		}
		var names []string
		for _, m := range all {
			if _, ok := d.moduleEntry(r.Principal, m); !ok {
				continue
			}
			if m.Name == in.Module {
				return struct {
					Module string `json:"module"`
					Text   string `json:"text"`
				}{m.Name, m.Text(func(path []string) bool { return d.shows(r.Principal, path) })}, nil
			}
			names = append(names, m.Name)
		}
		return nil, notFound("module", "module", in.Module, names, "show schema module ", "show schema list")
	}
	r["show-schema-command"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			Name []string `json:"name"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		var out struct {
			Name   string          `json:"name"`
			Input  json.RawMessage `json:"input"`
			Output json.RawMessage `json:"output,omitempty"`
		}
		out.Name = joinWords(in.Name)
		if path := strings.Fields(out.Name); d.shows(r.Principal, path) {
			out.Input, out.Output = d.Registry.Find(r.Principal, path).Schemas()
			return out, nil
		}
		var names []string
		for _, c := range d.Registry.Visible(r.Principal) {
			names = append(names, c.Name())
		}
		return nil, notFound("name", "command", out.Name, names, "show schema command ", "show command list")
	}
}

// shows reports whether p may know of the command at path.
func (d Deps) shows(p *access.Principal, path []string) bool {
	c := d.Registry.Find(p, path)
	return c != nil && !c.Hidden
}

// moduleEntry describes a module to p; ok is false if all it declares are commands
// that p may not know of.
func (d Deps) moduleEntry(p *access.Principal, m *schema.Module) (e moduleEntry, ok bool) {
	e = moduleEntry{Name: m.Name, Revision: m.Revision, Description: m.Description}
	for _, path := range m.Commands {
		if d.shows(p, path) {
			e.Commands = append(e.Commands, strings.Join(path, " "))
		}
	}
	slices.Sort(e.Commands)
	return e, len(m.Commands) == 0 || len(e.Commands) > 0
}

// joinWords returns the words of a command, which may stand in one string or several.
func joinWords(words []string) string {
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// notFound says that there is no such thing, and which of names was meant: what
// shows it is the command again with that name. list is the command that lists them.
func notFound(field, what, name string, names []string, again, list string) error {
	e := &command.Error{Code: command.NotFound, Field: field, Message: fmt.Sprintf("no %s %q", what, name)}
	if near := schema.Nearest(name, names); near != "" {
		e.Actions = append(e.Actions, again+near)
	}
	e.Actions = append(e.Actions, list)
	return e
}
