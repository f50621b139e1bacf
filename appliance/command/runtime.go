package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// NewRuntime returns a command that is declared at run time and not in YANG. Its
// input, and its output unless that is nil, come from schema.FromJSON: an output
// that is nil is not declared, and the answer may be anything. The command is
// shown as a tool of its own, called tool, whatever its path; a hidden one has
// none. Two words of a path are separated by a space on a command line, so none
// has one.
func NewRuntime(decl *schema.Command, tool string, run Run) (*Command, error) {
	name := strings.Join(decl.Path, " ")
	switch {
	case len(decl.Path) == 0:
		return nil, errors.New("command: no path")
	case !slices.Equal(strings.Fields(name), decl.Path) || strings.ContainsAny(name, "\"'\\[]{}"):
		return nil, fmt.Errorf("command %q: a word of its path is empty or cannot be typed as it is", name)
	case decl.Input == nil:
		return nil, fmt.Errorf("command %q: no input schema", name)
	case Effect(decl.Effect) != EffectRead && Effect(decl.Effect) != EffectChange && Effect(decl.Effect) != EffectDestroy:
		return nil, fmt.Errorf("command %q: effect %q; allowed: read, change, destroy", name, decl.Effect)
	case (tool == "") != decl.Hidden:
		return nil, fmt.Errorf("command %q: a command is hidden, or it has a tool", name)
	}
	c := New(decl, run)
	c.tool = tool
	if c.undeclared = decl.Output == nil; c.undeclared {
		c.Output = &schema.Object{}
	}
	return c, nil
}

// describeRuntime fills in what a surface shows of a tool that is one command
// declared at run time: its schemas are published as they were given.
func (t *Tool) describeRuntime() {
	c := t.bare
	t.InputSchema = c.Input.JSONSchema()
	if !c.undeclared {
		t.OutputSchema = c.Output.JSONSchema()
	}
}
