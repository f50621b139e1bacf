package schema

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// members indexes the data definitions of a YANG node by their statements.
// goyang keeps them by kind; the statements keep the order they are written in.
type members struct {
	nodes map[*yang.Statement]yang.Node
}

func index[T yang.Node](m members, nodes []T) {
	for _, n := range nodes {
		m.nodes[n.Statement()] = n
	}
}

func membersOf(n yang.Node) members {
	m := members{map[*yang.Statement]yang.Node{}}
	add := func(leaves []*yang.Leaf, leafLists []*yang.LeafList, containers []*yang.Container, lists []*yang.List, uses []*yang.Uses) {
		index(m, leaves)
		index(m, leafLists)
		index(m, containers)
		index(m, lists)
		index(m, uses)
	}
	switch n := n.(type) {
	case *yang.Container:
		add(n.Leaf, n.LeafList, n.Container, n.List, n.Uses)
	case *yang.List:
		add(n.Leaf, n.LeafList, n.Container, n.List, n.Uses)
	case *yang.Grouping:
		add(n.Leaf, n.LeafList, n.Container, n.List, n.Uses)
	case *yang.Input:
		add(n.Leaf, n.LeafList, n.Container, n.List, n.Uses)
	case *yang.Output:
		add(n.Leaf, n.LeafList, n.Container, n.List, n.Uses)
	}
	return m
}

// children builds what is declared in parent, in order, groupings expanded in
// place. goyang has refused unknown groupings and duplicate names.
func (l *loader) children(parent yang.Node, inRPC bool) []*Node {
	var nodes []*Node
	m := membersOf(parent)
	for _, s := range parent.Statement().SubStatements() {
		switch n := m.nodes[s].(type) {
		case *yang.Leaf:
			nodes = append(nodes, l.leaf(n))
		case *yang.LeafList:
			nodes = append(nodes, l.leafList(n))
		case *yang.Container:
			nodes = append(nodes, l.container(n, inRPC))
		case *yang.List:
			nodes = append(nodes, l.list(n, inRPC))
		case *yang.Uses:
			nodes = append(nodes, l.children(yang.FindGrouping(n, n.Name, map[string]bool{}), inRPC)...)
		}
	}
	return nodes
}

func (l *loader) container(c *yang.Container, inRPC bool) *Node {
	n := &Node{
		Name:        c.Name,
		Kind:        Container,
		Description: text(c.Description),
		Presence:    c.Presence != nil,
		Children:    l.children(c, inRPC),
	}
	n.Mandatory = !n.Presence && slices.ContainsFunc(n.Children, func(c *Node) bool { return c.Mandatory })
	return n
}

func (l *loader) list(s *yang.List, inRPC bool) *Node {
	n := &Node{
		Name:        s.Name,
		Kind:        List,
		Description: text(s.Description),
		Children:    l.children(s, inRPC),
	}
	l.bounds(n, s.MinElements, s.MaxElements)
	switch {
	case s.Key == nil && !inRPC:
		l.errorf(s.Source, "list %s has no key", s.Name)
	case s.Key != nil:
		n.Key = s.Key.Name
		if k := n.Child(n.Key); k == nil || k.Kind != Leaf {
			l.errorf(s.Key.Source, "key %q is not one leaf of list %s", n.Key, s.Name)
		} else {
			k.Default = nil // of no effect in a key (RFC 7950 section 7.8.2)
		}
	}
	return n
}

func (l *loader) leaf(s *yang.Leaf) *Node {
	n := &Node{Name: s.Name, Kind: Leaf, Description: text(s.Description), Type: l.typ(s.Type)}
	if s.Default != nil {
		n.Default = []string{s.Default.Name}
	}
	if s.Mandatory != nil {
		n.Mandatory = s.Mandatory.Name == "true"
	}
	if n.Mandatory && n.Default != nil {
		l.errorf(s.Source, "leaf %s is mandatory and has a default", s.Name)
	}
	l.value(n, s.Source, s.Type, s.Units)
	return n
}

func (l *loader) leafList(s *yang.LeafList) *Node {
	n := &Node{Name: s.Name, Kind: LeafList, Description: text(s.Description), Type: l.typ(s.Type)}
	for _, d := range s.Default {
		n.Default = append(n.Default, d.Name)
	}
	l.bounds(n, s.MinElements, s.MaxElements)
	if n.Type.Base == Empty {
		l.errorf(s.Source, "leaf-list %s cannot be of type empty", s.Name)
	}
	l.value(n, s.Source, s.Type, s.Units)
	return n
}

// value fills in what a leaf and a leaf-list have in common.
func (l *loader) value(n *Node, s *yang.Statement, t *yang.Type, units *yang.Value) {
	l.at[n] = s
	ext := extensions(s)
	n.Positional = len(ext["positional"]) > 0
	if len(ext["selector"]) > 0 {
		n.Selector = strings.Fields(argument(ext["selector"]))
	}
	n.Sensitive = len(ext["sensitive"]) > 0
	n.Hashed = len(ext["hashed"]) > 0
	n.Path = len(ext["path"]) > 0
	n.File = len(ext["file"]) > 0
	n.Header = argument(ext["header"])
	n.Examples = arguments(ext["example"])
	n.Complete = l.origin(ext["complete"])
	if len(ext["allowed"]) > 0 {
		own := *n.Type
		own.Expect = oneLine(argument(ext["allowed"]))
		n.Type = &own
	}
	if n.Units = text(units); n.Units == "" && t.YangType != nil {
		n.Units = t.YangType.Units
	}
	if n.Default == nil && !n.Mandatory && t.YangType != nil && t.YangType.HasDefault {
		n.Default = []string{t.YangType.Default}
	}
	if h := ext["header"]; len(h) > 0 {
		switch n.Type.Base {
		case String, Enum, Bool, Int, Uint:
		default:
			l.errorf(h[0], "%s needs a string, integer or boolean leaf", h[0].Keyword)
		}
		if !IsToken(n.Header) {
			l.errorf(h[0], "%s %q is not an HTTP token", h[0].Keyword, n.Header)
		}
	}
	for _, d := range n.Default {
		if _, err := n.Type.parse(d); err != nil {
			l.errorf(s, "default of %s: %s; allowed: %s", n.Name, err.Message, n.Type.Allowed())
		}
	}
	for i, e := range n.Examples {
		if _, err := n.Type.parse(e); err != nil {
			l.errorf(ext["example"][i], "example of %s: %s; allowed: %s", n.Name, err.Message, n.Type.Allowed())
		}
	}
}

// bounds sets the element count of a list or leaf-list.
func (l *loader) bounds(n *Node, low, high *yang.Value) {
	number := func(v *yang.Value) int {
		if v == nil || v.Name == "unbounded" {
			return 0
		}
		i, err := strconv.ParseUint(v.Name, 10, 32)
		if err != nil || i > math.MaxInt32 {
			l.errorf(v.Source, "%q is not an element count", v.Name)
		}
		return int(i)
	}
	n.Min, n.Max = number(low), number(high)
	n.Mandatory = n.Min > 0
	if n.Max > 0 && n.Min > n.Max {
		l.errorf(low.Source, "min-elements is above max-elements")
	}
}

func text(v *yang.Value) string {
	if v == nil {
		return ""
	}
	return oneLine(v.Name)
}
