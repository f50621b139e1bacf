package command

import (
	"encoding/json"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// Reference is everything a program or a model needs to drive this daemon, as
// one principal may see it. Lists are in a fixed order.
type Reference struct {
	Commands     []CommandReference `json:"commands"`
	DispatchKeys map[string]string  `json:"dispatch-keys"` // wire method → command path
	Tools        []ToolReference    `json:"tools"`
}

// CommandReference describes one command.
type CommandReference struct {
	Name        string               `json:"name"`
	Method      string               `json:"method"`
	Description string               `json:"description"`
	Effect      Effect               `json:"effect"`
	Parameters  []ParameterReference `json:"parameters"`
	Results     []ParameterReference `json:"-"` // the fields of its answer; tools carry them in their output schema
	Examples    []string             `json:"examples"`
	Tool        string               `json:"tool"`
	Action      string               `json:"action,omitempty"`
}

// ParameterReference describes one parameter of a command.
type ParameterReference struct {
	Name        string               `json:"name"`
	Type        string               `json:"type"` // the name of its YANG type; container or list
	Description string               `json:"description"`
	Allowed     string               `json:"allowed,omitempty"` // the allowed form, for people
	List        bool                 `json:"list,omitzero"`
	Mandatory   bool                 `json:"mandatory,omitzero"`
	Positional  bool                 `json:"positional,omitzero"` // may be given bare on a command line
	Inline      []string             `json:"inline-after,omitempty"`
	Units       string               `json:"units,omitempty"`
	Default     []string             `json:"default,omitempty"`
	Examples    []string             `json:"examples,omitempty"`
	Parameters  []ParameterReference `json:"parameters,omitempty"` // of a container or list
}

// ToolReference names one generated tool.
type ToolReference struct {
	Name    string   `json:"name"`
	Actions []string `json:"actions,omitempty"`
}

// Describe returns the reference as p may see it.
func (r *Registry) Describe(p *access.Principal) Reference {
	s := r.state.Load()
	return s.describe(p, s.view(p))
}

// Reference returns Describe as JSON, which must not be modified.
func (r *Registry) Reference(p *access.Principal) json.RawMessage {
	return r.state.Load().view(p).reference()
}

func (s *snapshot) describe(p *access.Principal, v *view) Reference {
	ref := Reference{DispatchKeys: make(map[string]string, len(v.commands))}
	for _, c := range v.commands {
		ref.Commands = append(ref.Commands, s.describeCommand(p, c))
		ref.DispatchKeys[c.Method()] = c.path
	}
	for _, t := range v.tools {
		ref.Tools = append(ref.Tools, ToolReference{Name: t.Name, Actions: t.names})
	}
	return ref
}

func encodeReference(ref Reference) json.RawMessage {
	b, err := jsonv2.Marshal(ref, jsonv2.Deterministic(true))
	if err != nil {
		panic("command: encode the reference: " + err.Error()) // plain strings and booleans
	}
	return b
}

func (s *snapshot) describeCommand(p *access.Principal, c *Command) CommandReference {
	prefix, action := toolOf(s.root, c)
	return CommandReference{
		Name:        c.path,
		Method:      c.Method(),
		Description: oneLine(c.Description),
		Effect:      c.Effect,
		Parameters:  DescribeParameters(c.Input.Params),
		Results:     DescribeParameters(c.Output.Params),
		Examples:    s.examples(p, c),
		Tool:        ToolName(prefix),
		Action:      action,
	}
}

// commandWord is the type of parameters that name a command.
const commandWord = "command-word"

// examples returns the examples of c that name no command p may not run.
func (s *snapshot) examples(p *access.Principal, c *Command) []string {
	out := make([]string, 0, len(c.Examples))
	for _, e := range c.Examples {
		if _, args, err := s.parseLine(p, e); err == nil && !slices.ContainsFunc(c.Input.Params, func(n *schema.Node) bool {
			return n.Kind == schema.LeafList && n.Type.Name == commandWord && !s.permits(p, args[n.Name])
		}) {
			out = append(out, e)
		}
	}
	return out
}

// permits reports whether words, a list of strings, are those of a command that
// p may run, or that such a command begins with.
func (s *snapshot) permits(p *access.Principal, words any) bool {
	list, _ := words.([]any)
	at := s.root
	for _, w := range list {
		text, _ := w.(string)
		if at = at.at(strings.Fields(text)); at == nil {
			return false
		}
	}
	return at.permitted(p) && (at.command == nil || at.command.permitted(p))
}

// DescribeParameters describes nodes in their order.
func DescribeParameters(nodes []*schema.Node) []ParameterReference {
	out := make([]ParameterReference, 0, len(nodes))
	for _, n := range nodes {
		p := ParameterReference{
			Name: n.Name, Description: oneLine(n.Description), Mandatory: n.Mandatory, Positional: n.Positional,
			Inline: n.Selector, Units: n.Units, Default: n.Default, Examples: n.Examples,
			List: n.Kind == schema.List || n.Kind == schema.LeafList,
		}
		switch n.Kind {
		case schema.Leaf, schema.LeafList:
			p.Type, p.Allowed = n.Type.Name, n.Type.Allowed()
		case schema.List:
			p.Type = "list"
		case schema.Container:
			p.Type = "container"
		}
		if len(n.Children) > 0 {
			p.Parameters = DescribeParameters(n.Children)
		}
		out = append(out, p)
	}
	return out
}
