package config

import (
	"errors"
	"fmt"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// Validate holds a tree against a model: names, types, keys, duplicates, and
// what must not be missing. The error is Problems: all of them, in the order of
// the text, up to a thousand.
func Validate(t *Tree, root *schema.Node) error { return t.validate(root, true) }

// validate is Validate; what is not complete may lack what is required.
func (t *Tree) validate(root *schema.Node, complete bool) error {
	v := validator{file: t.file, draft: !complete}
	v.block(t.root, root, "", position{line: 1, col: 1})
	if len(v.problems) > 0 {
		secret := secretLines(t.root, root)
		for i, p := range v.problems {
			v.problems[i].secret = p.secret || secret[p.Line]
		}
	}
	return v.problems.sorted()
}

// Problem places what another room has found wrong at path, or at the nearest
// ancestor of path that is written.
func (t *Tree) Problem(root *schema.Node, path, message, allowed string) Problem {
	p := Problem{File: t.file, Path: path, Message: message, Allowed: allowed}
	p.Line, p.Col, _ = t.Pos(path)
	p.secret = secretLines(t.root, root)[p.Line]
	return p
}

// secretLines returns the lines that hold a value of a sensitive leaf.
func secretLines(b *block, n *schema.Node) map[int]bool {
	lines := map[int]bool{}
	var visit func(b *block, n *schema.Node)
	visit = func(b *block, n *schema.Node) {
		for _, it := range b.items {
			if it.statement == nil {
				continue
			}
			c := n.Child(it.statement.name.text)
			if c == nil {
				continue
			}
			if c.Sensitive {
				for _, value := range it.statement.values {
					lines[value.at.line] = true
				}
			}
			if it.statement.body != nil {
				visit(it.statement.body, c)
			}
		}
	}
	visit(b, n)
	return lines
}

const maxProblems = 1000

type validator struct {
	file     string
	draft    bool // what is missing is no problem yet
	problems Problems
}

func (v *validator) add(at position, path string, p Problem) {
	if len(v.problems) == maxProblems || v.draft && p.missing {
		return
	}
	p.File, p.Line, p.Col, p.Path = v.file, at.line, at.col, path
	v.problems = append(v.problems, p)
}

// block checks the items of one block against the node n. start is where the
// block is written, for what is missing in it.
func (v *validator) block(b *block, n *schema.Node, path string, start position) {
	first := map[string]position{} // where each name, or list entry, is written
	there := map[string]int{}      // how often
	for _, it := range b.items {
		s := it.statement
		if s == nil {
			continue
		}
		c := n.Child(s.name.text)
		here := join(path, shorten(s.name.text))
		if c == nil {
			v.unknown(s, n, here)
			continue
		}
		there[c.Name]++
		step := c.Name
		if c.Kind == schema.List {
			if !v.key(s, c, here) {
				continue
			}
			step += "[" + s.values[0].text + "]"
			here = join(path, s.step())
		}
		if at, twice := first[step]; twice {
			v.add(s.name.at, here, Problem{Message: "is written twice; the first one is at " + at.String()})
			continue
		}
		first[step] = s.name.at
		v.statement(s, c, n, here)
	}
	for _, c := range n.Children {
		if there[c.Name] == 0 && c.Name != n.Key && c.Mandatory {
			v.add(start, join(path, c.Name), Problem{Message: "is required", Allowed: form(c), missing: true})
		}
		if c.Kind == schema.List && (there[c.Name] < c.Min && there[c.Name] > 0 || c.Max > 0 && there[c.Name] > c.Max) {
			v.add(start, join(path, c.Name), Problem{Message: fmt.Sprintf("has %d entries", there[c.Name]), Allowed: bounds(c, "entries"), missing: there[c.Name] < c.Min})
		}
	}
}

func (v *validator) unknown(s *statement, n *schema.Node, path string) {
	names := n.ChildNames()
	p := Problem{
		Message: fmt.Sprintf("unknown name %s", schema.Quote(s.name.text)),
		Allowed: strings.Join(names, ", "),
		Suggest: schema.Nearest(s.name.text, names),
	}
	// A misspelt name may stand before a secret.
	meant := n.Child(p.Suggest)
	p.secret = meant != nil && meant.Sensitive
	v.add(s.name.at, path, p)
}

// key checks the key of a list entry and reports whether the entry is usable.
func (v *validator) key(s *statement, list *schema.Node, path string) bool {
	k := list.Child(list.Key)
	if len(s.values) != 1 || s.bracketed {
		v.add(s.name.at, path, Problem{Message: "has no " + k.Name + " behind it", Allowed: form(list)})
		return false
	}
	v.value(s.values[0], k, path)
	return true
}

func (v *validator) statement(s *statement, c, parent *schema.Node, path string) {
	switch c.Kind {
	case schema.Container:
		switch {
		case len(s.values) > 0 || s.bracketed:
			v.add(s.name.at, path, Problem{Message: "takes no value", Allowed: form(c)})
		case s.body == nil:
			v.add(s.name.at, path, Problem{Message: "needs a block", Allowed: form(c)})
		default:
			v.block(s.body, c, path, s.name.at)
		}
	case schema.List:
		body := s.body
		if body == nil {
			body = &block{}
		}
		v.block(body, c, path, s.name.at)
	case schema.Leaf:
		v.leaf(s, c, parent, path)
	case schema.LeafList:
		v.leafList(s, c, path)
	}
}

func (v *validator) leaf(s *statement, c, parent *schema.Node, path string) {
	empty := c.Type.Base == schema.Empty
	switch {
	case parent.Kind == schema.List && c.Name == parent.Key:
		v.add(s.name.at, path, Problem{Message: "is the key and stands before the block", Allowed: form(parent)})
	case s.body != nil:
		v.add(s.name.at, path, Problem{Message: "takes a value, not a block", Allowed: form(c)})
	case s.bracketed:
		v.add(s.name.at, path, Problem{Message: "takes one value, not a list", Allowed: form(c)})
	case len(s.values) == 0 && !empty:
		v.add(s.name.at, path, Problem{Message: "has no value", Allowed: form(c)})
	case len(s.values) == 1 && empty:
		v.add(s.values[0].at, path, Problem{Message: "takes no value", Allowed: form(c)})
	case len(s.values) == 1:
		v.value(s.values[0], c, path)
	}
}

func (v *validator) leafList(s *statement, c *schema.Node, path string) {
	switch {
	case s.body != nil:
		v.add(s.name.at, path, Problem{Message: "takes values, not a block", Allowed: form(c)})
		return
	case len(s.values) == 0 && !s.bracketed:
		v.add(s.name.at, path, Problem{Message: "has no value", Allowed: form(c)})
		return
	case len(s.values) < c.Min || c.Max > 0 && len(s.values) > c.Max:
		v.add(s.name.at, path, Problem{Message: fmt.Sprintf("has %d values", len(s.values)), Allowed: bounds(c, "values")})
	}
	seen := map[string]position{}
	for _, value := range s.values {
		if at, twice := seen[value.text]; twice {
			v.add(value.at, path, Problem{Message: "holds a value twice; the first one is at " + at.String()})
			continue
		}
		seen[value.text] = value.at
		v.value(value, c, path)
	}
}

// value checks one value. That of a sensitive leaf is not repeated.
func (v *validator) value(t token, n *schema.Node, path string) {
	_, err := n.Type.Parse(t.text)
	if err == nil {
		return
	}
	p := Problem{Message: "the value is not allowed", Allowed: n.Type.Allowed()}
	var wrong *schema.ValueError
	if errors.As(err, &wrong) && !n.Sensitive {
		p.Message, p.Suggest = wrong.Message, wrong.Suggest
	}
	v.add(t.at, path, p)
}

// form shows how n is written.
func form(n *schema.Node) string {
	switch n.Kind {
	case schema.List:
		return n.Name + " " + strings.ToUpper(n.Key) + " { … }"
	case schema.LeafList:
		return n.Name + " [ … ]; each value " + n.Type.Allowed()
	case schema.Leaf:
		if n.Type.Base == schema.Empty {
			return n.Name + ";"
		}
		return n.Type.Allowed()
	}
	var required []string
	for _, c := range n.Children {
		switch {
		case !c.Mandatory:
		case c.Kind == schema.Container:
			required = append(required, c.Name+" { … }")
		default:
			required = append(required, c.Name+" …;")
		}
	}
	if required == nil {
		required = []string{"…"}
	}
	return n.Name + " { " + strings.Join(required, " ") + " }"
}

func bounds(n *schema.Node, what string) string {
	switch {
	case n.Max == 0:
		return fmt.Sprintf("at least %d %s", n.Min, what)
	case n.Min == 0:
		return fmt.Sprintf("at most %d %s", n.Max, what)
	}
	return fmt.Sprintf("%d..%d %s", n.Min, n.Max, what)
}
