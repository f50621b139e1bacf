package config

import (
	"strings"

	"ze.internal/ze/appliance/schema"
)

// Leaves is leaves, for tests that stand outside with a real store.
func (t *Tree) Leaves(root *schema.Node) map[string]string { return t.leaves(root) }

// ValidateDraft is validate of what may lack what is required.
func (t *Tree) ValidateDraft(root *schema.Node) error { return t.validate(root, false) }

// Mask is mask.
func (t *Tree) Mask(root *schema.Node) []byte { return t.mask(root) }

// Hash is hash.
func (t *Tree) Hash(root *schema.Node) []byte { return t.hash(root) }

// EditedPath returns what a Set or Delete of words is about, as Leaves has it.
func EditedPath(root *schema.Node, words []string) (path, value string) {
	steps, values, err := resolve(root, words)
	if err != nil {
		panic(err) // the edit was accepted
	}
	for _, st := range steps {
		path = join(path, st.node.Name)
		if st.node.Kind == schema.List {
			path += "[" + st.key + "]"
		}
	}
	for i, v := range values {
		values[i] = quote(v)
	}
	return path, strings.Join(values, " ")
}
