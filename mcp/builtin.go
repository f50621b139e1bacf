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
				"wire methods, tools. Call it first. With a section it returns only that part.",
			InputSchema: jsontext.Value(`{"type":"object","properties":{"section":{"type":"string","minLength":1,` +
				`"description":"Name of a member of the reference, for example: commands","examples":["commands"]}},` +
				`"additionalProperties":false}`),
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

// execute runs the command line given as the argument command.
func (s *Server) execute(ctx context.Context, r *request, args jsontext.Value) (jsontext.Value, error) {
	start := s.clock()
	line, err := stringArgument(args, "command", `a command line, for example "show version"`)
	if err == nil && strings.TrimSpace(line) == "" {
		err = &command.Error{
			Code: command.Invalid, Field: "command", Message: "missing: ze_execute needs a command line",
			Allowed: `a command line, for example "show version"`,
			Actions: []string{"call ze_reference for the commands there are"},
		}
	}
	if err != nil {
		return nil, s.record(ctx, r, executeName, start, command.AsError(err))
	}
	return s.do(ctx, r, command.Call{Line: line})
}

// reference returns the reference of what the caller may use, or one section
// of it under its name. No command stands behind it, so it is recorded here.
func (s *Server) reference(ctx context.Context, r *request, args jsontext.Value) (jsontext.Value, error) {
	start := s.clock()
	value, err := s.referenceSection(r.principal, args)
	if err != nil {
		return nil, s.record(ctx, r, referenceName, start, command.AsError(err))
	}
	return value, s.record(ctx, r, referenceName, start, nil)
}

func (s *Server) referenceSection(p *access.Principal, args jsontext.Value) (jsontext.Value, error) {
	section, err := stringArgument(args, "section", `a section's name, for example "commands"`)
	if err != nil {
		return nil, err
	}
	whole := jsontext.Value(s.dispatcher.Registry().Reference(p))
	if section == "" {
		return whole, nil
	}
	var sections map[string]jsontext.Value
	if err := json.Unmarshal(whole, &sections, checked); err != nil {
		return nil, fmt.Errorf("read the reference: %w", err)
	}
	part, ok := sections[section]
	if !ok {
		return nil, &command.Error{
			Code: command.Invalid, Field: "section", Message: "no section " + quoted(section),
			Allowed: strings.Join(slices.Sorted(maps.Keys(sections)), ", "),
			Actions: []string{"leave section out for the whole reference"},
		}
	}
	return json.Marshal(map[string]jsontext.Value{section: part})
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
