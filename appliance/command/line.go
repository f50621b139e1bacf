package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// parseLine reads a whole command line: the words of a command, with inline
// arguments where the command has them, then NAME VALUE pairs and bare
// positional arguments. It returns the command p may run and its arguments.
func (s *snapshot) parseLine(p *access.Principal, line string) (*Command, map[string]any, error) {
	words, err := splitLine(line)
	if err != nil {
		return nil, nil, err
	}
	if len(words) == 0 {
		return nil, nil, &Error{Code: Invalid, Field: "command", Message: "no command given",
			Actions: []string{"show command list"}}
	}
	c, inline, rest, err := s.parsePath(p, words)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) > 0 && !c.takes(rest[0]) {
		// A command that goes on in other words: the word was probably meant as one.
		at, n := s.deepest(p, words)
		if names := at.next(p); len(names) > 0 {
			return nil, nil, s.unknown(p, words, at, n)
		}
	}
	lp := &lineParser{words: rest, end: len([]rune(line)) + 1}
	args, err := lp.object(c.Input.Params, c.path, false)
	if err != nil {
		return c, nil, err
	}
	for name, w := range inline {
		if _, twice := args[name]; twice {
			return c, nil, &Error{Code: Invalid, Field: name, Message: fmt.Sprintf("given twice: %q inside the command, and again by name", w.text)}
		}
		v, err := parseValue(c.Input.Param(name), name, w)
		if err != nil {
			return c, nil, err
		}
		args[name] = v
	}
	return c, args, nil
}

// lineParser reads arguments.
type lineParser struct {
	words []word
	end   int // column after the last character
}

func (lp *lineParser) peek() (word, bool) {
	if len(lp.words) == 0 {
		return word{}, false
	}
	return lp.words[0], true
}

func (lp *lineParser) next() word {
	w := lp.words[0]
	lp.words = lp.words[1:]
	return w
}

// object reads NAME VALUE pairs and positional values up to the end, or, when
// braced, up to the closing brace.
func (lp *lineParser) object(params []*schema.Node, where string, braced bool) (map[string]any, error) {
	args := map[string]any{}
	for {
		w, ok := lp.peek()
		if !ok {
			if braced {
				return nil, &Error{Code: Invalid, Field: where, Message: "the brace is not closed"}
			}
			return args, nil
		}
		if braced && w.is("}") {
			lp.next()
			return args, nil
		}
		n := named(params, w)
		if n != nil {
			lp.next()
		} else if n = nextPositional(params, args); n == nil || w.is("}") || w.is("]") || w.is("{") {
			return nil, unexpected(params, where, w)
		}
		if err := lp.value(n, params, args); err != nil {
			return nil, orName(err, w, params)
		}
	}
}

// value reads one parameter's value into args.
func (lp *lineParser) value(n *schema.Node, params []*schema.Node, args map[string]any) error {
	_, twice := args[n.Name]
	switch n.Kind {
	case schema.LeafList, schema.List:
		have, _ := args[n.Name].([]any)
		items, err := lp.items(n, params, have)
		if err != nil {
			return err
		}
		args[n.Name] = items
		return nil
	case schema.Container:
		if twice {
			break
		}
		v, err := lp.braces(n)
		if err != nil {
			return err
		}
		args[n.Name] = v
		return nil
	default:
		if twice {
			break
		}
		w, ok := lp.peek()
		if n.Type.Base == schema.Bool && (!ok || !w.is("true") && !w.is("false")) {
			args[n.Name] = true // a flag: its name alone switches it on
			return nil
		}
		if !ok {
			return &Error{Code: Invalid, Field: n.Name, Message: "needs a value", Allowed: n.Type.Allowed()}
		}
		v, err := parseValue(n, n.Name, lp.next())
		if err != nil {
			return err
		}
		args[n.Name] = v
		return nil
	}
	return &Error{Code: Invalid, Field: n.Name, Message: "given twice"}
}

// items reads [ a b c ], or one value, or, for a positional list, bare values
// and bracketed ones up to the next parameter's name. What it reads is added to
// items.
func (lp *lineParser) items(n *schema.Node, params []*schema.Node, items []any) ([]any, error) {
	add := func() (err error) {
		var v any
		if n.Kind == schema.List {
			v, err = lp.braces(n)
		} else {
			v, err = parseValue(n, fmt.Sprintf("%s[%d]", n.Name, len(items)), lp.next())
		}
		if items = append(items, v); err == nil && n.Max > 0 && len(items) > n.Max {
			err = &Error{Code: Invalid, Field: n.Name, Message: fmt.Sprintf("more than %d values", n.Max), Allowed: fmt.Sprintf("at most %d", n.Max)}
		}
		return err
	}
	w, ok := lp.peek()
	if !ok {
		allowed := "[ { … } { … } ]"
		if n.Kind == schema.LeafList {
			allowed = n.Type.Allowed() + ", or several as [ a b ]"
		}
		return nil, &Error{Code: Invalid, Field: n.Name, Message: "needs a value", Allowed: allowed}
	}
	for !w.is("[") {
		if err := add(); err != nil {
			return nil, err
		}
		if w, ok = lp.peek(); !ok || !n.Positional || named(params, w) != nil || w.is("}") {
			return items, nil
		}
	}
	if items == nil {
		items = []any{} // [ ] is an empty list, not a missing one
	}
	lp.next()
	for {
		w, ok := lp.peek()
		if !ok {
			return nil, &Error{Code: Invalid, Field: n.Name, Message: fmt.Sprintf("the list opened with [ is not closed at column %d", lp.end), Allowed: "[ a b ]"}
		}
		if w.is("]") {
			lp.next()
			return items, nil
		}
		if err := add(); err != nil {
			return nil, err
		}
	}
}

// braces reads { k v … } of a container or list entry.
func (lp *lineParser) braces(n *schema.Node) (any, error) {
	w, ok := lp.peek()
	if !ok || !w.is("{") {
		return nil, &Error{Code: Invalid, Field: n.Name, Message: "needs a value in braces", Allowed: "{ " + strings.Join(names(n.Children), " … ") + " … }"}
	}
	lp.next()
	return lp.object(n.Children, n.Name, true)
}

// orName adds to why a bare value was refused that it may be a mistyped name.
func orName(err error, bare word, params []*schema.Node) error {
	e := AsError(err)
	value, ok := e.Err.(*schema.ValueError)
	if !ok || named(params, bare) != nil {
		return err
	}
	for _, word := range strings.Fields(value.Message) {
		typed := strings.Trim(word, `"`)
		if typed == word {
			continue // what was typed is quoted, the rest is prose
		}
		if near := schema.Nearest(strings.TrimLeft(typed, "-"), names(params)); near != "" {
			e.Actions = append(e.Actions, "did you mean the parameter "+near+"?")
			break
		}
	}
	return err
}

func named(params []*schema.Node, w word) *schema.Node {
	if w.quoted {
		return nil
	}
	for _, n := range params {
		if n.Name == w.text {
			return n
		}
	}
	return nil
}

func nextPositional(params []*schema.Node, args map[string]any) *schema.Node {
	for _, n := range params {
		if _, set := args[n.Name]; n.Positional && !set {
			return n
		}
	}
	return nil
}

func unexpected(params []*schema.Node, where string, w word) error {
	e := &Error{Code: Invalid, Field: shorten(w.text), Message: fmt.Sprintf("unexpected word at column %d", w.col),
		Allowed: where + " takes no arguments"}
	if slices.ContainsFunc(params, func(n *schema.Node) bool { return n.Sensitive }) {
		e.Field = "" // it could be a part of the secret
	}
	if len(params) > 0 {
		e.Allowed = where + " takes " + strings.Join(names(params), ", ")
	}
	if near := schema.Nearest(strings.TrimLeft(w.text, "-"), names(params)); near != "" {
		e.Actions = []string{"did you mean " + near + "?"}
	}
	return e
}

// shorten keeps what a caller sent from filling an answer or the log.
func shorten(s string) string {
	const most = 60
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func names(params []*schema.Node) []string {
	out := make([]string, len(params))
	for i, n := range params {
		out[i] = n.Name
	}
	return out
}

// parseValue reads a word as a value of n; field names the place in errors.
func parseValue(n *schema.Node, field string, w word) (any, error) {
	if !w.quoted && len(w.text) == 1 && strings.Contains("[]{}", w.text) {
		return nil, &Error{Code: Invalid, Field: field, Message: fmt.Sprintf("found %s where a value belongs at column %d", w.text, w.col), Allowed: n.Type.Allowed()}
	}
	v, err := n.Type.Parse(w.text)
	if err != nil {
		e := &Error{Code: Invalid, Field: field, Message: err.Error(), Allowed: n.Type.Allowed(), Err: err}
		var value *schema.ValueError
		if errors.As(err, &value) && value.Suggest != "" {
			e.Actions = []string{"did you mean " + value.Suggest + "?"}
		}
		return nil, e
	}
	return v, nil
}
