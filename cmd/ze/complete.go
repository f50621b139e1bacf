package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ze.internal/ze/appliance/schema"
)

// completeDaemon completes the words of the daemon's commands that begin with a
// word: its paths, then the names of parameters, then the values that a type
// names. It asks no daemon, which pressing a key might start.
func completeDaemon(set *schema.Set, word string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		words := withoutInline(set, append([]string{word}, args...))
		out := nextWords(set, words)
		files := cobra.ShellCompDirectiveNoFileComp
		if decl := declared(set, words); decl != nil {
			rest := words[len(decl.Path):]
			if len(rest) > 0 {
				if n := decl.Input.Param(rest[len(rest)-1]); n != nil && !isValue(decl, rest, len(rest)-1) {
					if out = n.Choices(); n.File || n.Path {
						files = cobra.ShellCompDirectiveDefault
					}
					return matching(out, begin), files
				}
			}
			for _, n := range decl.Input.Params {
				if !slices.Contains(rest, n.Name) {
					out = append(out, n.Name+"\t"+firstSentence(n.Description))
				}
				if n.Positional && (n.File || n.Path) {
					files = cobra.ShellCompDirectiveDefault
				}
			}
		}
		return matching(out, begin), files
	}
}

// nextWords returns the words that follow words in the paths of commands.
func nextWords(set *schema.Set, words []string) []string {
	var out []string
	for _, d := range set.Commands() {
		if n := len(words); !d.Hidden && len(d.Path) > n && slices.Equal(d.Path[:n], words) {
			next := d.Path[n]
			if len(d.Path) == n+1 {
				next += "\t" + firstSentence(d.Description)
			}
			if !slices.ContainsFunc(out, func(o string) bool { return strings.HasPrefix(o+"\t", d.Path[n]+"\t") }) {
				out = append(out, next)
			}
		}
	}
	return out
}

// withoutInline takes an argument out that stands inside a path, as the name of
// the peer in request peer north teardown.
func withoutInline(set *schema.Set, words []string) []string {
	for _, d := range set.Commands() {
		for _, p := range d.Input.Params {
			n := len(p.Selector)
			if n > 0 && len(words) > n && slices.Equal(words[:n], p.Selector) && len(nextWords(set, words[:n+1])) == 0 && declared(set, words[:n+1]) == nil {
				return slices.Delete(slices.Clone(words), n, n+1)
			}
		}
	}
	return words
}

// matching returns those of words that begin with begin.
func matching(words []string, begin string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, begin) })
}
