package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/packaging/manual"
)

// manualCommand writes the manual pages of this program for the packages.
func manualCommand(root *cobra.Command) *cobra.Command {
	return manual.Command(root, builtinVersion().Version, func(cmd *cobra.Command) ([]manual.Section, error) {
		switch word := cmd.Annotations[onDaemon]; {
		case cmd == root:
			return everywhere(), nil
		case word != "" && !strings.Contains(word, " "):
			return onDaemonManual(word)
		}
		return nil, nil
	})
}

// everywhere is what holds for every command.
func everywhere() []manual.Section {
	var exits, variables []manual.Item
	for code, meaning := range exitMeanings {
		exits = append(exits, manual.Item{Term: fmt.Sprint(code), Text: meaning})
	}
	for _, s := range settings() {
		variables = append(variables, manual.Item{Term: s.variable(), Text: fmt.Sprintf("%s: %s", s.about, s.form)})
	}
	return []manual.Section{
		{Title: "ENVIRONMENT", Text: "The command line wins over these, and these over the configuration.", Items: variables},
		{Title: "EXIT STATUS", Items: exits},
		{Title: "FILES", Items: []manual.Item{
			{Term: "/var/lib/ze/ze.db", Text: "the database: configuration, tokens, announcements, the audit log and everything else"},
			{Term: "/var/lib/ze/admin.token", Text: "the token that the first start of the service has made, until ze token remove-file"},
			{Term: "/run/ze/ze.sock", Text: "the control socket: root and the members of group ze are operators"},
			{Term: "/etc/ze/ze.env", Text: "variables of ENVIRONMENT for the service"},
			{Term: "/usr/share/doc/ze", Text: "README.md, recovery.md for when something is damaged, alerts.md for when an alert fires"},
		}},
	}
}

// onDaemonManual is the page of the daemon's commands that begin with a word.
func onDaemonManual(word string) ([]manual.Section, error) {
	encoded, err := appliance.Reference()
	if err != nil {
		return nil, err
	}
	var ref command.Reference
	if err := json.Unmarshal(encoded, &ref); err != nil {
		return nil, fmt.Errorf("read the reference: %w", err)
	}
	about := manual.Section{Title: "DESCRIPTION", Text: `These commands run on the daemon, in the same words from everywhere. Parameters are written as NAME VALUE, or as --NAME VALUE; bare ones may be given without their name. Several values stand in brackets, as [ a b ], an object in braces, as { name value }.`}
	all := manual.Section{Title: "COMMANDS OF THE DAEMON"}
	for _, c := range ref.Commands {
		if first, _, _ := strings.Cut(c.Name, " "); first != word {
			continue
		}
		text := fmt.Sprintf("%s Effect: %s.\n\n", c.Description, c.Effect)
		for _, e := range c.Examples {
			text += "  ze " + e + "\n"
		}
		all.Parts = append(all.Parts, manual.Section{Title: "ze " + c.Name, Text: text, Items: parameterItems(c.Parameters)})
	}
	return []manual.Section{about, all}, nil
}

func parameterItems(list []command.ParameterReference) []manual.Item {
	var items []manual.Item
	for _, p := range list {
		items = append(items, manual.Item{
			Term: fmt.Sprintf("%s (%s)", p.Name, parameterTraits(p)), Text: parameterText(p), Items: parameterItems(p.Parameters),
		})
	}
	return items
}
