package command

import (
	"fmt"
	"slices"
	"strings"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// Resource is a command whose answer is read at a URI.
type Resource struct {
	*schema.Template
	Command *Command
}

// Resources returns what p may read, sorted by URI or template. A hidden command
// can be a resource: its declaration says so.
func (r *Registry) Resources(p *access.Principal) []Resource {
	return r.state.Load().view(p).resources
}

// Resource returns the resource that stands at uri, and the values of its
// variables; one without variables before one with. It is nil if there is none,
// or none for p.
func (r *Registry) Resource(p *access.Principal, uri string) (found *Resource, vars map[string]string) {
	all := r.Resources(p)
	for i := range all {
		if v, ok := all[i].Match(uri); ok && (found == nil || len(v) < len(vars)) {
			found, vars = &all[i], v
		}
	}
	return found, vars
}

// Prompts returns the commands that are prompts p may get, sorted by the name of
// the prompt, hidden or not.
func (r *Registry) Prompts(p *access.Principal) []*Command { return r.state.Load().view(p).prompts }

// Prompt returns the command of a prompt; nil if there is none, or none for p.
func (r *Registry) Prompt(p *access.Principal, name string) *Command {
	for _, c := range r.Prompts(p) {
		if c.Prompt == name {
			return c
		}
	}
	return nil
}

// collect finds the resources and prompts among the commands.
func (s *snapshot) collect() error {
	for _, c := range s.commands {
		if c.Prompt != "" {
			s.prompts = append(s.prompts, c)
		}
		if c.Resource == "" {
			continue
		}
		t, err := schema.ParseTemplate(c.Resource)
		if err != nil {
			return fmt.Errorf("command %q: resource: %w", c.path, err)
		}
		s.resources = append(s.resources, Resource{t, c})
	}
	slices.SortFunc(s.prompts, func(a, b *Command) int { return strings.Compare(a.Prompt, b.Prompt) })
	slices.SortFunc(s.resources, func(a, b Resource) int { return strings.Compare(a.Text, b.Text) })
	for i := range s.prompts {
		if i > 0 && s.prompts[i].Prompt == s.prompts[i-1].Prompt {
			return fmt.Errorf("%q and %q are both the prompt %s", s.prompts[i-1].path, s.prompts[i].path, s.prompts[i].Prompt)
		}
	}
	for i := range s.resources {
		if i > 0 && s.resources[i].Text == s.resources[i-1].Text {
			return fmt.Errorf("%q and %q are both the resource %s", s.resources[i-1].Command.path, s.resources[i].Command.path, s.resources[i].Text)
		}
	}
	return nil
}

// readable returns the resources and prompts p may use.
func (s *snapshot) readable(p *access.Principal) (resources []Resource, prompts []*Command) {
	for _, r := range s.resources {
		if r.Command.permitted(p) {
			resources = append(resources, r)
		}
	}
	for _, c := range s.prompts {
		if c.permitted(p) {
			prompts = append(prompts, c)
		}
	}
	return resources, prompts
}

// Values turns arguments that came as texts, those of a URI or of a prompt, into
// what the parameters of c take. Several values of a list are separated by commas
// or spaces. The error is an *Error.
func (c *Command) Values(texts map[string]string) (map[string]any, error) {
	args := make(map[string]any, len(texts))
	for _, name := range sortedKeys(texts) {
		text, n := texts[name], c.Input.Param(name)
		switch {
		case n == nil || n.Type == nil:
			args[name] = text // the input schema has the words for it
		case n.Kind == schema.LeafList:
			items := []any{}
			for _, item := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
				v, err := parseValue(n, name, word{text: item, quoted: true})
				if err != nil {
					return nil, err
				}
				items = append(items, v)
			}
			args[name] = items
		default:
			v, err := parseValue(n, name, word{text: text, quoted: true})
			if err != nil {
				return nil, err
			}
			args[name] = v
		}
	}
	return args, nil
}
