package command

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// Tool is a group of commands under one name with one flat argument object, as
// hosts of the Model Context Protocol want it. Its commands share a path prefix.
type Tool struct {
	Name         string // ze_ and the prefix, spaces and dashes as underscores
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // union of the actions' outputs, nothing required
	ReadOnly     bool            // every command only reads
	Destructive  bool            // some command may replace or remove what is there
	Idempotent   bool            // every command is read-only or idempotent
	Headers      []Header        // arguments mirrored into Mcp-Param-* headers, by name
	UIResource   string          // ui:// address of what presents the result: that of the command without action, or of every action; "" for none

	prefix  []string
	bare    *Command            // runs when no action is given; nil if an action is required
	actions map[string]*Command // by action; empty for a tool that is one command
	names   []string            // actions, sorted
}

// ActionParam is the argument that picks a command of a tool.
const ActionParam = "action"

// ToolName returns the name of the tool at a path prefix.
func ToolName(prefix []string) string {
	return "ze_" + strings.ReplaceAll(strings.Join(prefix, "_"), "-", "_")
}

// toolName returns the name of c's tool, whose path prefix toolOf returns.
func (c *Command) toolName(prefix []string) string {
	if c.tool != "" {
		return c.tool
	}
	return ToolName(prefix)
}

// groupTools assigns every command that is not hidden to one tool:
//
//   - a node of two or more words with executable children is a tool, each
//     child without executable children of its own is an action of it, and the
//     node's own command, if any, is what runs without an action;
//   - a one-word command is a tool, and commands directly below it are tools of
//     their own;
//   - commands directly below a word that is no command share that word's tool.
func groupTools(root *node, commands []*Command) ([]*Tool, error) {
	byName := make(map[string]*Tool)
	tool := func(c *Command, prefix []string) (*Tool, error) {
		name := c.toolName(prefix)
		t := byName[name]
		if t == nil {
			t = &Tool{Name: name, prefix: prefix, actions: make(map[string]*Command)}
			byName[name] = t
		} else if !slices.Equal(t.prefix, prefix) {
			return nil, fmt.Errorf("%q and %q would both be the tool %s", strings.Join(t.prefix, " "), strings.Join(prefix, " "), name)
		}
		return t, nil
	}
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		prefix, action := toolOf(root, c)
		t, err := tool(c, prefix)
		if err != nil {
			return nil, err
		}
		if action == "" {
			t.bare = c
		} else {
			t.actions[action] = c
			t.names = append(t.names, action)
		}
	}
	tools := make([]*Tool, 0, len(byName))
	for _, t := range byName {
		if err := t.describe(); err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b *Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools, nil
}

// toolOf returns the path prefix of c's tool and c's action in it, "" for none.
func toolOf(root *node, c *Command) (prefix []string, action string) {
	n := len(c.Path)
	if c.tool != "" || n == 1 || hasVisibleChild(root.at(c.Path)) {
		return c.Path, ""
	}
	parent := c.Path[:n-1]
	if pn := root.at(parent); n == 2 && pn.command != nil && !pn.command.Hidden {
		return c.Path, ""
	}
	return parent, c.Path[n-1]
}

func hasVisibleChild(n *node) bool {
	for _, c := range n.children {
		if c.command != nil && !c.command.Hidden && c.command.tool == "" {
			return true
		}
	}
	return false
}

// commands returns the tool's commands: the one without action first, then by action.
func (t *Tool) commands() []*Command {
	var out []*Command
	if t.bare != nil {
		out = append(out, t.bare)
	}
	for _, a := range t.names {
		out = append(out, t.actions[a])
	}
	return out
}

// narrow returns the tool with only the commands p may run; nil if none is left.
func (t *Tool) narrow(p *access.Principal) *Tool {
	n := &Tool{Name: t.Name, prefix: t.prefix, actions: make(map[string]*Command)}
	if t.bare != nil && t.bare.permitted(p) {
		n.bare = t.bare
	}
	for _, a := range t.names {
		if c := t.actions[a]; c.permitted(p) {
			n.actions[a] = c
			n.names = append(n.names, a)
		}
	}
	switch whole := len(n.names) == len(t.names) && n.bare == t.bare; {
	case whole:
		return t
	case n.bare == nil && len(n.names) == 0:
		return nil
	}
	if err := n.describe(); err != nil {
		panic("command: a part of a tool that was sound is not: " + err.Error()) // the whole was checked at registration
	}
	return n
}

// describe computes the fields a surface shows from the tool's commands.
func (t *Tool) describe() error {
	slices.Sort(t.names)
	t.ReadOnly, t.Idempotent = true, true
	for _, c := range t.commands() {
		t.ReadOnly = t.ReadOnly && c.Effect == EffectRead
		t.Idempotent = t.Idempotent && (c.Effect == EffectRead || c.Idempotent)
	}
	t.Destructive = !t.ReadOnly // only what adds and never replaces would be harmless (page server/tools)
	t.UIResource = t.commands()[0].UIResource
	for _, c := range t.commands() {
		if t.bare == nil && c.UIResource != t.UIResource {
			t.UIResource = "" // a panel of some actions would present the others, too
		}
	}
	t.Description = t.describeText()
	if t.bare != nil && t.bare.tool != "" {
		t.describeRuntime()
	} else {
		if err := t.describeInput(); err != nil {
			return err
		}
		if err := t.describeOutput(); err != nil {
			return err
		}
	}
	var err error
	if t.Headers, err = headersOf(t.InputSchema); err != nil {
		return fmt.Errorf("tool %s: %w", t.Name, err)
	}
	return nil
}

func (t *Tool) describeText() string {
	if len(t.names) == 0 {
		return oneLine(t.bare.Description)
	}
	var b strings.Builder
	if t.bare != nil {
		fmt.Fprintf(&b, "Without action: %s\n", oneLine(t.bare.Description))
	}
	for _, a := range t.names {
		fmt.Fprintf(&b, "%s: %s\n", a, oneLine(t.actions[a].Description))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// property is one member of a tool's flat argument object.
type property struct {
	node     *schema.Node
	actions  []string // actions that take it; "" for the command without action
	required []string // actions that need it
}

func (t *Tool) describeInput() error {
	props, order, err := t.merge(func(c *Command) *schema.Object { return c.Input }, "parameter")
	if err != nil {
		return err
	}
	w := newObjectWriter()
	var required []string
	if len(t.names) > 0 {
		if _, taken := props[ActionParam]; taken {
			return fmt.Errorf("tool %s: a command takes a parameter called %s, which names the tool's actions", t.Name, ActionParam)
		}
		if t.bare == nil {
			required = append(required, ActionParam)
		}
		enum, _ := json.Marshal(t.names)
		text := "What to do."
		if t.bare != nil {
			text = "What to do; leave it out for " + t.bare.path + "."
		}
		w.property(ActionParam, json.RawMessage(fmt.Sprintf(`{"type":"string","enum":%s,"description":%s}`, enum, quote(text))))
	}
	for _, name := range order {
		p := props[name]
		shown := *p.node
		if note := t.note(p); note != "" {
			shown.Description = strings.TrimSpace(oneLine(shown.Description) + " " + note)
		}
		w.property(name, shown.JSONSchema())
		if len(t.names) == 0 && p.node.Mandatory {
			required = append(required, name)
		}
	}
	t.InputSchema = w.close(required, true)
	return nil
}

// note says which actions a property belongs to, where that is not all of them.
func (t *Tool) note(p *property) string {
	if len(t.names) == 0 {
		return ""
	}
	label := func(actions []string) string {
		names := make([]string, len(actions))
		for i, a := range actions {
			if names[i] = a; a == "" {
				names[i] = "no action"
			}
		}
		return strings.Join(names, ", ")
	}
	var parts []string
	if len(p.actions) < len(t.commands()) {
		parts = append(parts, "For: "+label(p.actions)+".")
	}
	if len(p.required) > 0 {
		parts = append(parts, "Required by: "+label(p.required)+".")
	}
	return strings.Join(parts, " ")
}

func (t *Tool) describeOutput() error {
	props, order, err := t.merge(func(c *Command) *schema.Object { return c.Output }, "result field")
	if err != nil {
		return err
	}
	w := newObjectWriter()
	for _, name := range order {
		w.property(name, props[name].node.JSONSchema())
	}
	t.OutputSchema = w.close(nil, false)
	return nil
}

// merge unites the fields of the tool's commands. A field means one thing in a
// whole tool: two schemas for one name are an error of whoever declared them.
func (t *Tool) merge(of func(*Command) *schema.Object, what string) (map[string]*property, []string, error) {
	props := make(map[string]*property)
	var order []string
	for _, c := range t.commands() {
		action := ""
		if c != t.bare {
			action = c.Path[len(c.Path)-1]
		}
		for _, n := range of(c).Params {
			p := props[n.Name]
			if p == nil {
				p = &property{node: n}
				props[n.Name] = p
				order = append(order, n.Name)
			} else if !sameShape(p.node, n) {
				return nil, nil, fmt.Errorf("tool %s: %s %s has two different schemas; the later is of %q", t.Name, what, n.Name, c.path)
			}
			p.actions = append(p.actions, action)
			if n.Mandatory {
				p.required = append(p.required, action)
			}
		}
	}
	return props, order, nil
}

// sameShape reports whether two nodes accept the same values, whatever their texts say.
func sameShape(a, b *schema.Node) bool { return reflect.DeepEqual(shape(a), shape(b)) }

func shape(n *schema.Node) any {
	var v any
	if err := json.Unmarshal(n.JSONSchema(), &v); err != nil {
		panic("command: schema of " + n.Name + " is not JSON: " + err.Error()) // it is made by our own encoder
	}
	return stripTexts(v)
}

func stripTexts(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range []string{"description", "examples"} {
			if _, isText := v[k].(map[string]any); !isText { // a property of that name stays
				delete(v, k)
			}
		}
		for k := range v {
			v[k] = stripTexts(v[k])
		}
	case []any:
		for i := range v {
			v[i] = stripTexts(v[i])
		}
	}
	return v
}

// Resolve picks the command of a tool call: it returns the command's path and
// its arguments, strictly decoded, without the action. p is the caller, whose
// view the tool was taken from. The error is an *Error.
func (t *Tool) Resolve(p *access.Principal, raw json.RawMessage) (path []string, args map[string]any, err error) {
	object, err := argsObject(raw)
	if err != nil {
		return nil, nil, err
	}
	args = map[string]any{}
	var action string
	given, isString := false, true
	Members(object, func(name []byte, value jsontext.Value) {
		v, _ := readChecked(value, 0)
		if len(t.names) > 0 && string(name) == ActionParam {
			given = true
			action, isString = v.(string)
			return
		}
		args[string(name)] = v
	})
	if !isString {
		return nil, nil, &Error{Code: Invalid, Field: ActionParam, Message: "must be a string", Allowed: strings.Join(t.names, ", ")}
	}
	c := t.bare
	if given {
		c = t.actions[action]
	}
	if c == nil || !c.permitted(p) {
		e := &Error{Code: Invalid, Field: ActionParam, Allowed: strings.Join(t.names, ", ")}
		if e.Message = fmt.Sprintf("unknown action %q", action); !given {
			e.Message = "missing: " + t.Name + " needs an action"
		}
		if near := schema.Nearest(action, t.names); near != "" {
			e.Actions = []string{"use action " + near}
		}
		return nil, nil, e
	}
	return c.Path, args, nil
}

// Actions returns the actions of the tool, sorted, and whether a call has to
// name one.
func (t *Tool) Actions() (names []string, required bool) { return t.names, t.bare == nil }
