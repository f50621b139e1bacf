package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance/schema"
)

// onDaemon marks the commands whose words go to the daemon; its value are the
// words that the daemon's command begins with.
const onDaemon = "daemon"

// forDaemon is the mark for words.
func forDaemon(words ...string) map[string]string {
	return map[string]string{onDaemon: strings.Join(words, " ")}
}

// plainWords arranges the arguments of the daemon's commands so that what is no
// flag of this program reaches the daemon as it is: -1 is a number there. The
// parameters of a command may be written like flags, too: ze token create ci
// --scope read is ze token create ci scope read. What follows -- is left alone.
func plainWords(root *cobra.Command, set *schema.Set, args []string) []string {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Annotations[onDaemon] == "" {
		return args
	}
	var flags, words, asIs []string
	for len(rest) > 0 {
		word := rest[0]
		if word == "--" {
			asIs = rest[1:]
			break
		}
		switch n := flagWords(cmd, word); {
		case n > len(rest):
			return args // the flag has no value, which cobra explains
		case n > 0:
			flags, rest = append(flags, rest[:n]...), rest[n:]
		default:
			words, rest = append(words, word), rest[1:]
		}
	}
	return slices.Concat(strings.Fields(cmd.CommandPath())[1:], flags, []string{"--"}, plainParameters(cmd, set, words), asIs)
}

// plainParameters takes the dashes off the parameters among words.
func plainParameters(cmd *cobra.Command, set *schema.Set, words []string) []string {
	decl := declared(set, append(strings.Fields(cmd.Annotations[onDaemon]), words...))
	if decl == nil {
		return words
	}
	out := make([]string, 0, len(words))
	for _, word := range words {
		name, dashed := strings.CutPrefix(word, "--")
		name, value, hasValue := strings.Cut(name, "=")
		switch {
		case !dashed || decl.Input.Param(name) == nil:
			out = append(out, word)
		case hasValue:
			out = append(out, name, value)
		default:
			out = append(out, name)
		}
	}
	return out
}

// declared returns the declaration of the command that words begin with, nil if
// there is none.
func declared(set *schema.Set, words []string) *schema.Command {
	var decl *schema.Command
	for _, d := range set.Commands() {
		if n := len(d.Path); n <= len(words) && slices.Equal(words[:n], d.Path) && (decl == nil || n > len(decl.Path)) {
			decl = d
		}
	}
	return decl
}

// flagWords returns how many words a flag of cmd takes that begins with word: 0
// if that is none.
func flagWords(cmd *cobra.Command, word string) int {
	name, isFlag := strings.CutPrefix(word, "--")
	name, _, hasValue := strings.Cut(name, "=")
	if word == "-h" || isFlag && name == "help" {
		return 1
	}
	if !isFlag {
		return 0 // the daemon's commands have no other short flags
	}
	switch f := cmd.Flag(name); {
	case f == nil:
		return 0
	case hasValue || f.NoOptDefVal != "":
		return 1
	}
	return 2
}
