package command

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// Reference is everything a program or a model needs to drive this daemon, as
// one principal may see it. Lists are in a fixed order. Its JSON is what every
// surface shows.
type Reference struct {
	Commands     []CommandReference  `json:"commands"`
	RPC          []EndpointReference `json:"rpc"`
	DispatchKeys map[string]string   `json:"dispatch-keys"` // wire method → command path
	Surroundings `json:",inline"`
	Tools        []ToolReference `json:"tools"`
}

// Surroundings are what a reference tells of the daemon beside its commands.
type Surroundings struct {
	Plugins  []PluginReference  `json:"plugins"`
	Families []string           `json:"families"` // address families, as in configuration and commands
	Services []ServiceReference `json:"services"`
}

// PluginReference names a program that adds commands.
type PluginReference struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ServiceReference is one place where the daemon answers.
type ServiceReference struct {
	Name     string `json:"name"`     // what answers there: mcp, metrics, control, bgp
	Address  string `json:"address"`  // host and port, or the path of a socket
	Protocol string `json:"protocol"` // http, https, http+unix or bgp
}

// EndpointReference is a command as programs call it over HTTP: POST to
// /api/v1/commands and its path, words separated by slashes.
type EndpointReference struct {
	Method      string `json:"method"`
	Path        string `json:"path"`
	Description string `json:"description"`
	ReadOnly    bool   `json:"read-only"`
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

// Reference returns the whole reference as p may see it, as JSON which must not
// be modified.
func (r *Registry) Reference(p *access.Principal) json.RawMessage {
	s := r.state.Load()
	v := s.view(p)
	var around Surroundings
	if f := r.around.Load(); f != nil {
		around = (*f)(p)
	}
	if e := v.reference.Load(); e != nil && reflect.DeepEqual(e.around, around) {
		return e.json
	}
	ref := s.describe(p, v)
	ref.Surroundings = around
	e := &encodedReference{around, encodeReference(ref)}
	v.reference.Store(e)
	return e.json
}

// Surround makes around say what is beside the commands, as far as a principal
// may know it. Until then references say that there is nothing.
func (r *Registry) Surround(around func(*access.Principal) Surroundings) { r.around.Store(&around) }

// encodedReference is a reference and what was around when it was made.
type encodedReference struct {
	around Surroundings
	json   json.RawMessage
}

func (s *snapshot) describe(p *access.Principal, v *view) Reference {
	ref := Reference{DispatchKeys: make(map[string]string, len(v.commands))}
	for _, c := range v.commands {
		d := s.describeCommand(p, c)
		ref.Commands = append(ref.Commands, d)
		ref.RPC = append(ref.RPC, EndpointReference{Method: d.Method, Path: strings.Join(c.Path, "/"), Description: d.Description, ReadOnly: c.Effect == EffectRead})
		ref.DispatchKeys[d.Method] = c.path
	}
	slices.SortFunc(ref.RPC, func(a, b EndpointReference) int { return strings.Compare(a.Method, b.Method) })
	for _, t := range v.tools {
		ref.Tools = append(ref.Tools, ToolReference{Name: t.Name, Actions: t.names})
	}
	return ref
}

// Sections returns the names of a reference's members, in their order.
func Sections() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Reference]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Section returns an object with one member of a reference, or all of it if name
// is empty. The error is an *Error.
func Section(reference json.RawMessage, name string) (json.RawMessage, error) {
	if name == "" {
		return reference, nil
	}
	var sections map[string]jsontext.Value
	if err := jsonv2.Unmarshal(reference, &sections); err != nil {
		return nil, AsError(fmt.Errorf("read the reference: %w", err))
	}
	part, ok := sections[name]
	if !ok {
		e := &Error{Code: Invalid, Field: "section", Message: fmt.Sprintf("no section %q", shorten(name)), Allowed: strings.Join(Sections(), ", "),
			Actions: []string{"leave section out for the whole reference"}}
		if near := schema.Nearest(name, Sections()); near != "" {
			e.Actions = append([]string{"did you mean " + near + "?"}, e.Actions...)
		}
		return nil, e
	}
	return jsonv2.Marshal(map[string]jsontext.Value{name: part})
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
		Tool:        c.toolName(prefix),
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

// Schemas returns the JSON Schemas of what c takes and answers; output is nil if
// that is not declared.
func (c *Command) Schemas() (input, output json.RawMessage) {
	if !c.undeclared {
		output = c.Output.JSONSchema()
	}
	return c.Input.JSONSchema(), output
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
