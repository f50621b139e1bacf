// Package manual writes the manual pages of a program from the tree of its
// commands, so that they say what the program does. It owns their layout and the
// language they are written in. It must not know any program.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Section is a part of a page beside what the tree of commands has.
type Section struct {
	Title string // in capitals; DESCRIPTION takes the place of the command's own
	Text  string // paragraphs; lines that begin with two spaces stay as they are
	Items []Item
	Parts []Section // below it; their parts are not written
}

// Item explains a term.
type Item struct {
	Term, Text string
	Items      []Item // below it
}

// Command returns a hidden command that writes the pages of root into a
// directory: one for root, and one for each of its commands that is not hidden.
// version is the program's. more returns what a page has beside what the tree
// says of its command; it may be nil.
func Command(root *cobra.Command, version string, more func(*cobra.Command) ([]Section, error)) *cobra.Command {
	return &cobra.Command{
		Use: "manual DIRECTORY", Hidden: true,
		Short: "Write the manual pages",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			for _, cmd := range append([]*cobra.Command{root}, visible(root)...) {
				var sections []Section
				if more != nil {
					var err error
					if sections, err = more(cmd); err != nil {
						return fmt.Errorf("write the manual of %s: %w", cmd.CommandPath(), err)
					}
				}
				if err := os.WriteFile(filepath.Join(args[0], pageName(cmd)+".1"), []byte(page(cmd, version, sections)), 0o644); err != nil {
					return fmt.Errorf("write the manual: %w", err)
				}
			}
			return nil
		},
	}
}

// visible returns the commands directly below cmd that are meant to be seen. The
// help that every program has is not worth a page.
func visible(cmd *cobra.Command) []*cobra.Command {
	return slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool {
		return !c.IsAvailableCommand() && !(c.Name() == "help" && c.HasSubCommands())
	})
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the page of a command.
func page(cmd *cobra.Command, version string, more []Section) string {
	w := &writer{}
	name, program := pageName(cmd), cmd.Root().Name()
	w.macro("TH", strings.ToUpper(name), "1", "", program+" "+version, program)
	w.macro("SH", "NAME")
	w.line(escape(name) + ` \- ` + escape(strings.TrimSuffix(cmd.Short, ".")))
	w.macro("SH", "SYNOPSIS")
	w.macro("B", cmd.UseLine())
	own := func(s Section) bool { return s.Title == "DESCRIPTION" }
	if !slices.ContainsFunc(more, own) {
		w.section(Section{Title: "DESCRIPTION", Text: describe(cmd)}, "SH")
	}
	for _, s := range more {
		if own(s) {
			w.section(s, "SH")
		}
	}
	below, commands := visible(cmd), Section{Title: "COMMANDS"}
	var pages []string
	switch {
	case cmd.HasParent():
		pages = []string{pageName(cmd.Parent())}
		commands.Parts = parts(cmd)
	default:
		for _, c := range below {
			commands.Items = append(commands.Items, Item{Term: c.Name(), Text: strings.TrimSuffix(c.Short, ".") + "."})
			pages = append(pages, pageName(c))
		}
	}
	if len(below) > 0 {
		w.section(commands, "SH")
	}
	for _, s := range more {
		if !own(s) {
			w.section(s, "SH")
		}
	}
	if flags := options(cmd.NonInheritedFlags()); len(flags) > 0 {
		w.section(Section{Title: "OPTIONS", Items: flags}, "SH")
	}
	if flags := options(cmd.InheritedFlags()); len(flags) > 0 {
		w.section(Section{Title: "OPTIONS OF EVERY COMMAND", Items: flags}, "SH")
	}
	if len(pages) > 0 {
		w.section(Section{Title: "SEE ALSO", Text: strings.Join(pages, "(1), ") + "(1)"}, "SH")
	}
	return w.String()
}

// parts describes the commands below cmd, however deep, one after the other.
func parts(cmd *cobra.Command) []Section {
	var out []Section
	for _, c := range visible(cmd) {
		out = append(out, Section{Title: c.UseLine(), Text: describe(c), Items: options(c.NonInheritedFlags())})
		out = append(out, parts(c)...)
	}
	return out
}

// describe returns the description of a command with its examples.
func describe(cmd *cobra.Command) string {
	text := cmd.Long
	if text == "" {
		text = strings.TrimSuffix(cmd.Short, ".") + "."
	}
	if cmd.Example != "" {
		text += "\n\n" + cmd.Example
	}
	return text
}

func options(flags *pflag.FlagSet) []Item {
	var items []Item
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := strings.TrimSpace("--" + f.Name + " " + value)
		if f.Shorthand != "" {
			term = "-" + f.Shorthand + ", " + term
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" {
			usage += " (default " + d + ")"
		}
		items = append(items, Item{Term: term, Text: usage})
	})
	return items
}
