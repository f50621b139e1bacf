package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// parsePath finds the longest command that words begin with.
func (s *snapshot) parsePath(p *access.Principal, words []word) (*Command, map[string]word, []word, error) {
	var (
		found  *Command
		rest   []word
		taken  map[string]word // inline arguments inside found's words
		inline = map[string]word{}
		at     = s.root
		i      int
	)
	for i < len(words) {
		w := words[i]
		next := at.children[w.text]
		if w.quoted || next == nil || !next.permitted(p) {
			if at.selector == "" || inline[at.selector].col != 0 || !at.permitted(p) {
				break
			}
			inline[at.selector] = w
			i++
			continue
		}
		at, i = next, i+1
		if at.command != nil && at.command.permitted(p) {
			found, rest, taken = at.command, words[i:], maps.Clone(inline)
		}
	}
	if found == nil || !hasAll(found, taken) {
		return nil, nil, nil, s.unknown(p, words, at, i)
	}
	return found, taken, rest, nil
}

// takes reports whether w can begin the command's arguments.
func (c *Command) takes(w word) bool {
	return named(c.Input.Params, w) != nil || nextPositional(c.Input.Params, nil) != nil
}

// deepest returns the last node that words lead to, and how many words that are.
func (s *snapshot) deepest(p *access.Principal, words []word) (*node, int) {
	at := s.root
	for n, w := range words {
		next := at.children[w.text]
		if w.quoted || next == nil || !next.permitted(p) {
			return at, n
		}
		at = next
	}
	return at, len(words)
}

// next returns the words that may follow n, sorted.
func (n *node) next(p *access.Principal) []string {
	var names []string
	for name, child := range n.children {
		if slices.ContainsFunc(child.all, func(c *Command) bool { return !c.Hidden && c.permitted(p) }) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func hasAll(c *Command, inline map[string]word) bool {
	for name := range inline {
		if c.Input.Param(name) == nil {
			return false
		}
	}
	return true
}

// unknown explains that no command begins so. at is the deepest node reached
// by the first n words.
func (s *snapshot) unknown(p *access.Principal, words []word, at *node, n int) error {
	var typed []string
	for _, w := range words {
		typed = append(typed, w.text)
	}
	shown := typed
	if len(shown) > n+1 {
		shown = shown[:n+1]
	}
	e := &Error{Code: Unknown, Message: fmt.Sprintf("unknown command %q", shorten(strings.Join(shown, " ")))}
	next := at.next(p)
	if len(next) > 0 {
		where := "at the start"
		if n > 0 {
			where = "after " + strings.Join(typed[:n], " ")
		}
		e.Allowed = where + ": " + strings.Join(next, ", ")
	}
	if n < len(typed) {
		if near := schema.Nearest(typed[n], next); near != "" {
			e.Actions = append(e.Actions, strings.Join(append(slices.Clone(typed[:n]), near), " "))
		}
	}
	e.Actions = append(e.Actions, "show command list")
	return e
}

// unknownPath is unknown for a path that a surface names.
func (s *snapshot) unknownPath(p *access.Principal, path []string) error {
	words := make([]word, len(path))
	for i, w := range path {
		words[i] = word{text: w}
	}
	at, n := s.deepest(p, words)
	return s.unknown(p, words, at, n)
}
