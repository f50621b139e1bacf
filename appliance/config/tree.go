package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// Pos returns where path ("bgp/peer[north]/remote/as") is written, or else the
// nearest of its ancestors that is. ok is false when nothing of it is.
func (t *Tree) Pos(path string) (line, col int, ok bool) {
	at, ok := t.root.find(path)
	if !ok {
		return 1, 1, false
	}
	return at.line, at.col, true
}

// find follows path as far as it is written. It compares what is written with
// the path instead of cutting the path into steps, because keys hold slashes,
// as in family[ipv4/unicast].
func (b *block) find(path string) (position, bool) {
	for _, it := range b.items {
		s := it.statement
		if s == nil {
			continue
		}
		rest, ok := s.match(path)
		if !ok {
			continue
		}
		if s.body != nil && rest != "" {
			if at, ok := s.body.find(rest); ok {
				return at, true
			}
		}
		return s.name.at, true
	}
	return position{}, false
}

// match takes the step that s answers to off path. Without a model "name
// value;" may be a leaf or a list entry, so it answers to name and name[value].
func (s *statement) match(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, s.name.text)
	if !ok {
		return "", false
	}
	if key, ok := s.key(); ok {
		if after, ok := strings.CutPrefix(rest, "["+key+"]"); ok {
			rest = after
		}
	}
	rest, deeper := strings.CutPrefix(rest, "/")
	return rest, deeper || rest == ""
}

// key returns the single value behind the name, as it stands in a path.
func (s *statement) key() (string, bool) {
	if len(s.values) != 1 || s.bracketed {
		return "", false
	}
	return shorten(s.values[0].text), true
}

// step returns the step of a path for a statement with a block.
func (s *statement) step() string {
	if key, ok := s.key(); ok {
		return shorten(s.name.text) + "[" + key + "]"
	}
	return shorten(s.name.text)
}

// maxStep bounds a name or key in a path: paths are built for every statement,
// and a text can hold many statements inside one with a very long key.
const maxStep = 64

func shorten(s string) string {
	if len(s) <= maxStep {
		return s
	}
	return strings.ToValidUTF8(s[:maxStep], "") + "…"
}

func join(path, step string) string {
	if path == "" {
		return step
	}
	return path + "/" + step
}

// JSON returns a valid tree as one JSON object: containers are objects, lists
// arrays of objects with the key as a member, in the order of the text. The
// defaults of everything that is there, and of the containers that are only
// structure, are filled in. The error is that of Validate.
func (t *Tree) JSON(root *schema.Node) (json.RawMessage, error) {
	if err := Validate(t, root); err != nil {
		return nil, err
	}
	object := jsonObject(t.root, root)
	(&schema.Object{Params: root.Children}).FillDefaults(object)
	b, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode configuration: %w", err)
	}
	return b, nil
}

func jsonObject(b *block, n *schema.Node) map[string]any {
	object := map[string]any{}
	for _, it := range b.items {
		s := it.statement
		if s == nil {
			continue
		}
		c := n.Child(s.name.text)
		switch c.Kind {
		case schema.Container:
			object[c.Name] = jsonObject(s.body, c)
		case schema.List:
			entry := map[string]any{}
			if s.body != nil {
				entry = jsonObject(s.body, c)
			}
			entry[c.Key] = jsonValue(c.Child(c.Key), s.values[0].text)
			entries, _ := object[c.Name].([]any)
			object[c.Name] = append(entries, entry)
		case schema.LeafList:
			values := make([]any, len(s.values))
			for i, v := range s.values {
				values[i] = jsonValue(c, v.text)
			}
			object[c.Name] = values
		case schema.Leaf:
			text := ""
			if len(s.values) > 0 {
				text = s.values[0].text
			}
			object[c.Name] = jsonValue(c, text)
		}
	}
	return object
}

// jsonValue converts text that Validate has accepted.
func jsonValue(n *schema.Node, text string) any {
	v, _ := n.Type.Parse(text)
	return v
}
