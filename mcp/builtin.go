package mcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// builtinTool is a tool written by hand. Every other one is generated from the
// registry.
type builtinTool struct {
	definition
	run runTool
}

const (
	executeName   = "ze_execute"
	referenceName = "ze_reference"
)

// addBuiltinTools adds the hand-written tools, unless a command has taken the
// name of one.
func (s *Server) addBuiltinTools() error {
	s.builtin = map[string]*builtinTool{
		executeName: {run: s.execute, definition: definition{
			Name: executeName,
			Description: "Run any command of the daemon, written as on its command line: the path, then name value pairs. " +
				"Use a typed tool where there is one; call ze_reference for the commands there are.",
			InputSchema: jsontext.Value(`{"type":"object","properties":{"command":{"type":"string","minLength":1,` +
				`"description":"The command line, for example: show version","examples":["show version"]}},` +
				`"required":["command"],"additionalProperties":false}`),
			OutputSchema: jsontext.Value(`{"type":"object"}`),
			Annotations:  annotations{Destructive: true},
		}},
		referenceName: {run: s.reference, definition: definition{
			Name: referenceName,
			Description: "The machine-readable reference of this daemon, as far as you may use it: commands with their parameters and examples, " +
				"RPC endpoints, dispatch keys, plugins, address families, services, tools. Call it first. With a section it returns only that part.",
			InputSchema: jsontext.Value(`{"type":"object","properties":{"section":{"type":"string","enum":["` + strings.Join(command.Sections(), `","`) + `"],` +
				`"description":"Name of a member of the reference; all of it if not given."}},"additionalProperties":false}`),
			OutputSchema: jsontext.Value(`{"type":"object"}`),
			Annotations:  annotations{ReadOnly: true, Idempotent: true},
		}},
	}
	everything := &access.Principal{Scope: access.Admin}
	for name := range s.builtin {
		if s.dispatcher.Registry().Tool(everything, name) != nil {
			return fmt.Errorf("mcp server: a registered command generates the tool %s, which is hand-written; rename the command", name)
		}
	}
	return nil
}

// execute runs the command line given as the argument command. Without one it
// asks for it, if the caller can be asked.
func (s *Server) execute(ctx context.Context, r *request, x *round, args jsontext.Value) (reply, error) {
	line, err := stringArgument(args, "command", `a command line, for example "show version"`)
	if err == nil && strings.TrimSpace(line) == "" {
		line, err = x.askCommand(ctx)
	}
	if err != nil {
		return reply{}, s.record(ctx, r, executeName, command.AsError(err))
	}
	return s.do(ctx, r, x, &command.Call{Line: line})
}

func (x *round) askCommand(ctx context.Context) (string, error) {
	if !x.client.form {
		return "", &command.Error{
			Code: command.Invalid, Field: "command", Message: "missing: ze_execute needs a command line",
			Allowed: `a command line, for example "show version"`,
			Actions: []string{"call ze_reference for the commands there are"},
		}
	}
	return x.askText(ctx, keyCommand, "Which command should run?", "command", property{
		Type: "string", Title: "Command line", Description: "For example: show version", MinLength: 1,
	})
}

// reference returns the reference of what the caller may use, or one section
// of it under its name. No command stands behind it, so it is recorded here.
func (s *Server) reference(ctx context.Context, r *request, _ *round, args jsontext.Value) (reply, error) {
	value, err := s.referenceSection(r.principal, args)
	if err != nil {
		return reply{}, s.record(ctx, r, referenceName, command.AsError(err))
	}
	return reply{value: value}, s.record(ctx, r, referenceName, nil)
}

func (s *Server) referenceSection(p *access.Principal, args jsontext.Value) (jsontext.Value, error) {
	section, err := stringArgument(args, "section", strings.Join(command.Sections(), ", "))
	if err != nil {
		return nil, err
	}
	part, err := command.Section(s.dispatcher.Registry().Reference(p), section)
	return jsontext.Value(part), err
}

// stringArgument returns the only argument of a hand-written tool, "" if it is
// not given.
func stringArgument(args jsontext.Value, name, allowed string) (string, error) {
	if args == nil {
		return "", nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(args, &members, checked); err != nil {
		return "", fmt.Errorf("read the arguments: %w", err)
	}
	value, given := members[name]
	delete(members, name)
	if len(members) > 0 {
		other := slices.Sorted(maps.Keys(members))[0]
		return "", &command.Error{Code: command.Invalid, Field: other, Message: "unknown argument", Allowed: name}
	}
	if !given {
		return "", nil
	}
	s, ok := text(value)
	if !ok {
		return "", &command.Error{Code: command.Invalid, Field: name, Message: "must be a string", Allowed: allowed}
	}
	return s, nil
}
