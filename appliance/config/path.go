package config

import (
	"slices"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// step is one step of a path in the model: a node, and the key of a list entry.
type step struct {
	node *schema.Node
	key  string
}

// matches reports whether s is what st stands for.
func (st step) matches(s *statement) bool {
	return s.name.text == st.node.Name && (st.node.Kind != schema.List || len(s.values) == 1 && s.values[0].text == st.key)
}

// write returns the name, and the key of a list entry.
func (st step) write() string {
	if st.node.Kind == schema.List {
		return st.node.Name + " " + quote(st.key)
	}
	return st.node.Name
}

// resolve reads words as a path in the model: names, each list's name with the
// key of an entry behind it. It returns the words behind a leaf. The error is
// Problems in the validator's words, without a place.
func resolve(root *schema.Node, words []string) (steps []step, rest []string, err error) {
	v := validator{}
	n, path := root, ""
	for len(words) > 0 {
		s := &statement{name: token{text: words[0]}}
		c := n.Child(words[0])
		if words = words[1:]; c == nil {
			v.unknown(s, n, join(path, shorten(s.name.text)))
			return nil, nil, v.problems
		}
		st := step{node: c}
		if c.Kind == schema.List {
			if len(words) > 0 {
				st.key, words = words[0], words[1:]
				s.values = []token{{text: st.key}}
			}
			if v.key(s, c, join(path, s.step())); len(v.problems) > 0 {
				return nil, nil, v.problems
			}
		}
		if n.Kind == schema.List && c.Name == n.Key {
			v.leaf(s, c, n, join(path, c.Name))
			return nil, nil, v.problems
		}
		steps, path = append(steps, st), join(path, s.step())
		if c.Kind == schema.Leaf || c.Kind == schema.LeafList {
			return steps, words, nil
		}
		n = c
	}
	if len(steps) == 0 {
		return nil, nil, Problems{{Message: "no path is given", Allowed: strings.Join(root.ChildNames(), ", ")}}
	}
	return steps, nil, nil
}

// pathOf writes steps as they stand in messages.
func pathOf(steps []step) string {
	path := ""
	for _, st := range steps {
		if st.node.Kind == schema.List {
			path = join(path, shorten(st.node.Name)+"["+shorten(st.key)+"]")
		} else {
			path = join(path, shorten(st.node.Name))
		}
	}
	return path
}

// values holds what is to be written against the model, as the validator does.
func checkValues(steps []step, values []string) error {
	last := steps[len(steps)-1].node
	path := pathOf(steps)
	s := &statement{name: token{text: last.Name}, bracketed: len(values) > 1}
	for _, value := range values {
		s.values = append(s.values, token{text: value})
	}
	v := validator{}
	switch last.Kind {
	case schema.Leaf:
		v.leaf(s, last, &schema.Node{}, path)
	case schema.LeafList:
		v.leafList(s, last, path)
	}
	if last.Sensitive && slices.Contains(values, Masked) {
		v.add(position{}, path, Problem{Message: "is given as " + Masked + ", which is how a secret is shown", Allowed: "the value itself"})
	}
	return v.problems.sorted()
}
