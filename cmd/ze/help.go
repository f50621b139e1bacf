package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/command"
)

// helpCommand explains commands to people, and everything to a model.
func (c *cli) helpCommand(root *cobra.Command) *cobra.Command {
	var isAI, isJSON bool
	help := &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command; help ai explains all of the daemon's to a model",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isAI {
				return c.explainAll(cmd.Context(), args, isJSON)
			}
			about, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && about.Annotations[onDaemon] == "" {
				return usagef("no command %q to explain; see: ze --help", strings.Join(args, " "))
			}
			if err != nil {
				return usagef("%w", err)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
	help.Flags().BoolVar(&isAI, "ai", false, "the earlier way to write help ai")
	help.Flags().BoolVar(&isJSON, "json", false, "with --ai: for programs")
	ai := &cobra.Command{
		Use:   "ai [SECTION]",
		Short: "Print the reference of every command, for a model",
		Long: `Prints every command of the daemon with its parameters and examples, from the daemon if one runs. With --json it is
what the MCP tool ze_reference answers. Sections: ` + strings.Join(command.Sections(), ", ") + `; api is rpc.`,
		Example: "  ze help ai --json > ze-commands.json\n  ze help ai api",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.explainAll(cmd.Context(), args, isJSON)
		},
	}
	ai.Flags().BoolVar(&isJSON, "json", false, "for programs")
	help.AddCommand(ai)
	return help
}

// explainAll prints the reference or one section of it.
func (c *cli) explainAll(ctx context.Context, sections []string, isJSON bool) error {
	if len(sections) > 1 {
		return usagef("one section at a time; what is %q for?", sections[1])
	}
	section := strings.Join(sections, "")
	if section == "api" {
		section = "rpc"
	}
	reference, err := newControlClient(c.controlSocket()).reference(ctx)
	if errors.Is(err, errNoDaemon) && c.socket == "" {
		reference, err = appliance.Reference()
	}
	if err != nil {
		return err
	}
	part, err := command.Section(reference, section)
	if err != nil {
		return err
	}
	if isJSON {
		_, err := fmt.Fprintf(c.out, "%s\n", bytes.TrimSpace(part))
		return err
	}
	var ref command.Reference
	if err := json.Unmarshal(reference, &ref); err != nil {
		return fmt.Errorf("read the reference: %w", err)
	}
	_, err = io.WriteString(c.out, inMarkdown(ref, section))
	return err
}

// inMarkdown writes a reference, or one section of it.
func inMarkdown(ref command.Reference, section string) string {
	w := &explanation{}
	if section == "" {
		w.line("# Commands of ze")
		w.line("")
		w.line("A command is written as its words and then its parameters as NAME VALUE; a bare one may be given without its name.")
		w.line("Several values stand in brackets, as [ a b ], an object in braces, as { name value }, a word with spaces in quotes.")
		w.line("As a tool of the Model Context Protocol (MCP) it takes the same parameters as JSON. ze help ai api lists HTTP endpoints,")
		w.line("ze help ai dispatch-keys the wire methods, and with --json all of this is for programs.")
		w.line("")
	}
	for _, part := range []struct {
		name, title string
		write       func(command.Reference)
		also        bool // of the whole, where the commands say the same
	}{
		{"commands", "Commands", w.commands, true},
		{"rpc", "API endpoints", w.endpoints, false},
		{"dispatch-keys", "Dispatch keys", w.dispatchKeys, false},
		{"plugins", "Plugins", w.plugins, true},
		{"families", "Address families", func(r command.Reference) { w.items(r.Families) }, true},
		{"services", "Services", w.services, true},
		{"tools", "Tools", w.tools, true},
	} {
		if part.name != section && (section != "" || !part.also) {
			continue
		}
		w.line("## " + part.title)
		w.line("")
		part.write(ref)
		w.line("")
	}
	return strings.TrimSuffix(w.String(), "\n")
}

// explanation is a text in the making.
type explanation struct{ strings.Builder }

func (w *explanation) line(text string) { w.WriteString(clean(text) + "\n") }

// items writes a list, or that it is empty.
func (w *explanation) items(list []string) {
	for _, text := range list {
		w.line("- " + text)
	}
	if len(list) == 0 {
		w.line("None.")
	}
}

func (w *explanation) commands(ref command.Reference) {
	for i, c := range ref.Commands {
		if i > 0 {
			w.line("")
		}
		tool := c.Tool
		if c.Action != "" {
			tool += " with action " + c.Action
		}
		w.line("### " + c.Name)
		w.line("")
		w.line(fmt.Sprintf("%s Effect: %s. Tool: %s.", c.Description, c.Effect, tool))
		w.line("")
		if w.parameters(c.Parameters, ""); len(c.Parameters) > 0 {
			w.line("")
		}
		for _, e := range c.Examples {
			w.line("    " + e)
		}
	}
}

func (w *explanation) parameters(list []command.ParameterReference, indent string) {
	for _, p := range list {
		w.line(fmt.Sprintf("%s- %s (%s): %s", indent, p.Name, parameterTraits(p), parameterText(p)))
		w.parameters(p.Parameters, indent+"  ")
	}
}

// parameterTraits says in some words what kind of parameter p is.
func parameterTraits(p command.ParameterReference) string {
	traits := []string{p.Type}
	for _, t := range []struct {
		name string
		has  bool
	}{{"several", p.List}, {"required", p.Mandatory}, {"bare", p.Positional}} {
		if t.has {
			traits = append(traits, t.name)
		}
	}
	if len(p.Inline) > 0 {
		traits = append(traits, "may stand after "+strings.Join(p.Inline, " "))
	}
	return strings.Join(traits, ", ")
}

// parameterText explains p.
func parameterText(p command.ParameterReference) string {
	text := p.Description
	if p.Allowed != "" {
		text += " Allowed: " + p.Allowed + "."
	}
	if p.Units != "" {
		text += " Unit: " + p.Units + "."
	}
	if len(p.Default) > 0 {
		text += " Default: " + strings.Join(p.Default, " ") + "."
	}
	return text
}

func (w *explanation) endpoints(ref command.Reference) {
	w.line("On the control socket, POST with the parameters as a JSON object; the answer is JSON, a refusal is {\"error\": …}:")
	w.line("")
	w.line("    curl --unix-socket SOCKET -d '{}' http://localhost/api/v1/commands/PATH")
	w.line("")
	parameters := make(map[string][]command.ParameterReference, len(ref.Commands))
	for _, c := range ref.Commands {
		parameters[c.Method] = c.Parameters
	}
	for i, e := range ref.RPC {
		if i > 0 {
			w.line("")
		}
		effect := "changes"
		if e.ReadOnly {
			effect = "read-only"
		}
		w.line(fmt.Sprintf("### %s (%s)", e.Method, effect))
		w.line("")
		w.line("POST /api/v1/commands/" + e.Path)
		w.line("")
		w.line(e.Description)
		if list := parameters[e.Method]; len(list) > 0 {
			w.line("")
			w.parameters(list, "")
		}
	}
}

func (w *explanation) dispatchKeys(ref command.Reference) {
	var list []string
	for _, e := range ref.RPC { // in order, which a map has not
		list = append(list, e.Method+": "+ref.DispatchKeys[e.Method])
	}
	w.items(list)
}

func (w *explanation) plugins(ref command.Reference) {
	var list []string
	for _, p := range ref.Plugins {
		list = append(list, p.Name+": "+p.Description)
	}
	w.items(list)
}

func (w *explanation) services(ref command.Reference) {
	var list []string
	for _, s := range ref.Services {
		list = append(list, fmt.Sprintf("%s: %s (%s)", s.Name, s.Address, s.Protocol))
	}
	w.items(list)
}

func (w *explanation) tools(ref command.Reference) {
	var list []string
	for _, t := range ref.Tools {
		text := t.Name
		if len(t.Actions) > 0 {
			text += ", action " + strings.Join(t.Actions, ", ")
		}
		list = append(list, text)
	}
	w.items(list)
}
