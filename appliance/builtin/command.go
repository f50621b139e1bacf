package builtin

import (
	"context"
	"strings"

	"ze.internal/ze/appliance/command"
)

type commandEntry struct {
	Name        string `json:"name"`
	Effect      string `json:"effect"`
	Description string `json:"description"`
}

type commandHelp struct {
	Name        string          `json:"name"`
	Method      string          `json:"method"`
	Effect      string          `json:"effect"`
	Description string          `json:"description"`
	Usage       string          `json:"usage"`
	Parameters  []parameterHelp `json:"parameter"`
	Examples    []string        `json:"example"`
	Results     []resultHelp    `json:"result"`
	Tool        string          `json:"tool"`
	Action      string          `json:"action,omitempty"`
}

type resultHelp struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	List        bool   `json:"list"`
	Description string `json:"description"`
}

type parameterHelp struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description"`
	Allowed     string `json:"allowed,omitempty"`
	Mandatory   bool   `json:"mandatory"`
	List        bool   `json:"list"`
	Default     string `json:"default,omitempty"`
}

func (d Deps) command(r runs) {
	r["show-command-list"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			BeginsWith []string `json:"begins-with"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		prefix := strings.Join(in.BeginsWith, " ")
		var out struct {
			Commands []commandEntry `json:"command"`
		}
		for _, c := range d.Registry.Describe(r.Principal).Commands {
			if c.Name == prefix || prefix == "" || strings.HasPrefix(c.Name, prefix+" ") {
				out.Commands = append(out.Commands, commandEntry{c.Name, string(c.Effect), c.Description})
			}
		}
		return out, nil
	}
	r["show-command-help"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			Name []string `json:"name"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		name := joinWords(in.Name)
		var names []string
		for _, c := range d.Registry.Describe(r.Principal).Commands {
			if c.Name == name {
				return help(c), nil
			}
			names = append(names, c.Name)
		}
		return nil, notFound("name", "command", name, names, "show command help ", "show command list")
	}
}

func help(c command.CommandReference) commandHelp {
	h := commandHelp{Name: c.Name, Method: c.Method, Effect: string(c.Effect), Description: c.Description,
		Usage: usage(c), Examples: c.Examples, Tool: c.Tool, Action: c.Action}
	flatten("", c.Parameters, func(name string, p command.ParameterReference) {
		h.Parameters = append(h.Parameters, parameterHelp{Name: name, Type: p.Type, Description: p.Description,
			Allowed: p.Allowed, Mandatory: p.Mandatory, List: p.List, Default: strings.Join(p.Default, " ")})
	})
	flatten("", c.Results, func(name string, p command.ParameterReference) {
		h.Results = append(h.Results, resultHelp{Name: name, Type: p.Type, List: p.List, Description: p.Description})
	})
	return h
}

// flatten calls each for every parameter and the parts of those in braces.
func flatten(prefix string, params []command.ParameterReference, each func(name string, p command.ParameterReference)) {
	for _, p := range params {
		each(prefix+p.Name, p)
		flatten(prefix+p.Name+".", p.Parameters, each)
	}
}

// usage writes the command as one line: inline arguments in their place, then
// positional ones, then the others by name.
func usage(c command.CommandReference) string {
	words := strings.Fields(c.Name)
	var bare, named []string
	for _, p := range c.Parameters {
		value := "<" + p.Name + ">"
		if p.List {
			value += "…"
		}
		form := p.Name + " " + value
		if p.Type == "boolean" {
			form = p.Name
		}
		switch {
		case len(p.Inline) > 0:
			at := len(p.Inline)
			words = append(words[:at:at], append([]string{value}, words[at:]...)...)
			continue
		case p.Positional:
			form = value
		}
		if !p.Mandatory {
			form = "(" + form + ")"
		}
		if p.Positional {
			bare = append(bare, form)
		} else {
			named = append(named, form)
		}
	}
	return strings.Join(append(append(words, bare...), named...), " ")
}
