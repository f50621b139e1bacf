// Package command is the heart of the daemon: the registry of commands, the
// grammar of a command line, and the one dispatcher that every surface calls.
// It owns the path from a request to an answer (look up, permission, arguments,
// audit, run, metrics). It must not know any surface, any particular command,
// or the database.
package command

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// Effect says what running a command does to the world.
type Effect string

// Effects, and the scope each needs: read, write, admin.
const (
	EffectRead    Effect = "read"
	EffectChange  Effect = "change"
	EffectDestroy Effect = "destroy"
)

// Scope returns the scope a command of this effect needs.
func (e Effect) Scope() access.Scope {
	switch e {
	case EffectRead:
		return access.Read
	case EffectChange:
		return access.Write
	}
	return access.Admin
}

// Run carries out a command. The result is encoded as JSON and must be an
// object that the command's output schema accepts, or is an *Answer.
type Run func(ctx context.Context, r *Request) (any, error)

// Command is a registered command: its declaration and its implementation.
type Command struct {
	schema.Command
	Effect Effect
	Run    Run
	// Conceal returns arguments as the audit log may keep them, where the schema
	// alone does not say which values are secret; nil: it does.
	Conceal func(args map[string]any) map[string]any

	// TaskOnly says that nobody can wait for the command: a caller that cannot be
	// given a task is refused. Of commands declared at run time.
	TaskOnly bool

	path       string // Path joined by single spaces
	tool       string // of a command declared at run time: its tool's name
	undeclared bool   // of such a command: Output says nothing
}

// Scope returns the scope a caller needs for the command.
func (c *Command) Scope() access.Scope {
	if s, ok := access.ParseScope(c.Command.Scope); ok {
		return s
	}
	return c.Effect.Scope()
}

// Name returns the command's path as typed: words joined by single spaces.
func (c *Command) Name() string { return c.path }

// Method returns the wire method name, ze-VERB:rest-of-path.
func (c *Command) Method() string {
	rest := c.Path[1:]
	if len(rest) == 0 {
		rest = c.Path
	}
	return "ze-" + c.Path[0] + ":" + strings.Join(rest, "-")
}

// Missing returns the mandatory parameters that args lacks, in the order of
// declaration, unless something else is wrong with args too: then it returns nil.
func (c *Command) Missing(args map[string]any) []*schema.Node {
	var missing []*schema.Node
	for _, n := range c.Input.Params {
		if _, given := args[n.Name]; n.Mandatory && !given {
			missing = append(missing, n)
		}
	}
	if missing == nil {
		return nil
	}
	for _, p := range c.Input.Check(args) {
		if !slices.ContainsFunc(missing, func(n *schema.Node) bool { return n.Name == p.Field }) {
			return nil
		}
	}
	return missing
}

// Masked returns args as a person or a log may see them: sensitive values are
// replaced.
func (c *Command) Masked(args map[string]any) map[string]any {
	masked, hit := c.mask(args)
	if !hit {
		return args
	}
	return masked
}

// mask returns args with sensitive values replaced, and whether there can be any.
func (c *Command) mask(args map[string]any) (map[string]any, bool) {
	masked, hit := mask(c.Input.Params, args)
	if c.Conceal != nil {
		return c.Conceal(masked), true
	}
	return masked, hit
}

// Request is what a command's Run is given: arguments that its input schema
// has accepted, and who asks.
type Request struct {
	Command   *Command
	Principal *access.Principal
	Surface   string
	Args      json.RawMessage // an object, defaults filled in
}

// Bind decodes the arguments into v, a pointer to a struct whose json tags are
// the parameter names.
func (r *Request) Bind(v any) error {
	if err := json.Unmarshal(r.Args, v); err != nil {
		return &Error{Code: Invalid, Message: "arguments: " + err.Error(), Err: err}
	}
	return nil
}

// Call is one request to run a command, from any surface. Exactly one of Path
// and Line is set.
type Call struct {
	Principal *access.Principal
	Surface   string // "mcp", "cli", "rest", "web"
	Remote    string // address of the caller, "" if none

	Path   []string        // words of the command's path
	Args   json.RawMessage // with Path: an object of arguments; nil counts as {}
	Values map[string]any  // with Path, instead of Args: the same, strictly decoded; the call takes it over
	Line   string          // a whole command line, as typed
}

// Result is a command's answer.
type Result struct {
	Command *Command
	JSON    json.RawMessage // an object; of a command that returns an Answer its Structured, nil for none
	Answer  *Answer         // what the command returned, if that is an Answer
}
