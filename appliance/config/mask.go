package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// Masked is what stands for a secret wherever a configuration is shown. In a
// text that is read back it stands for the present secret.
const Masked = "***"

// DigestPrefix marks a value that is kept as a digest: it and the SHA-256 of the
// value in clear, in hex.
const DigestPrefix = "sha256:"

// leafFunc is called for a value; it returns what is written in its place, and
// whether something is. path is exact: names, and keys as list[key].
type leafFunc func(path []string, n *schema.Node, v token) (string, bool)

// replace returns the text with the values of some leaves replaced. Only leaves
// that want says are visited. Every other byte stays.
func (t *Tree) replace(root *schema.Node, want func(*schema.Node) bool, fn leafFunc) []byte {
	var out bytes.Buffer
	done := 0
	t.root.values(root, nil, want, func(path []string, n *schema.Node, v token) {
		written, changed := fn(path, n, v)
		if !changed {
			return
		}
		out.Write(t.text[done:v.at.offset])
		out.WriteString(written)
		done = v.end
	})
	out.Write(t.text[done:])
	return out.Bytes()
}

// values calls fn for the values of wanted leaves, in the order of the text.
func (b *block) values(n *schema.Node, path []string, want func(*schema.Node) bool, fn func(path []string, n *schema.Node, v token)) {
	for _, it := range b.items {
		s := it.statement
		if s == nil {
			continue
		}
		c := n.Child(s.name.text)
		if c == nil {
			continue
		}
		here := append(path, c.Name)
		switch c.Kind {
		case schema.Leaf, schema.LeafList:
			if want(c) {
				for _, v := range s.values {
					fn(here, c, v)
				}
			}
			continue
		case schema.List:
			if len(s.values) == 1 {
				here[len(here)-1] += "[" + s.values[0].text + "]"
			}
		}
		if s.body != nil {
			s.body.values(c, here, want, fn)
		}
	}
}

func sensitive(n *schema.Node) bool { return n.Sensitive }
func hashed(n *schema.Node) bool    { return n.Hashed }

// mask returns the text with every secret masked.
func (t *Tree) mask(root *schema.Node) []byte {
	return t.replace(root, sensitive, func([]string, *schema.Node, token) (string, bool) { return inQuotes(Masked), true })
}

// hash returns the text with every value that is kept as a digest replaced by
// its digest, unless it is one.
func (t *Tree) hash(root *schema.Node) []byte {
	return t.replace(root, hashed, func(_ []string, _ *schema.Node, v token) (string, bool) {
		if strings.HasPrefix(v.text, DigestPrefix) {
			return "", false
		}
		sum := sha256.Sum256([]byte(v.text))
		return v.write(DigestPrefix + hex.EncodeToString(sum[:])), true
	})
}

// unmask returns the text with masked secrets replaced by those at the same
// places of old. Problems name the ones that old does not have.
func (t *Tree) unmask(root *schema.Node, old *Tree) ([]byte, error) {
	present := map[string]token{}
	old.root.values(root, nil, sensitive, func(path []string, _ *schema.Node, v token) { present[strings.Join(path, "/")] = v })
	var problems Problems
	text := t.replace(root, sensitive, func(path []string, _ *schema.Node, v token) (string, bool) {
		if v.text != Masked {
			return "", false
		}
		value, ok := present[strings.Join(path, "/")]
		if !ok {
			problems = append(problems, Problem{File: t.file, Line: v.at.line, Col: v.at.col, Path: strings.Join(path, "/"),
				Message: "is masked, and there is no present value to keep", Allowed: "the value itself", secret: true})
		}
		if before := v.at.offset - 1; value.quoted || before >= 0 && strings.IndexByte(" \t[", t.text[before]) >= 0 {
			return string(old.text[value.at.offset:value.end]), ok // as it was written
		}
		return inQuotes(value.text), ok
	})
	return text, problems.sorted()
}

// Unmasked refuses a text that holds a secret as it is shown instead of the
// secret itself: nothing that runs can mean that.
func (t *Tree) Unmasked(root *schema.Node) error {
	_, err := t.unmask(root, &Tree{root: &block{}})
	return err
}

// MaskWords returns the words of a Set or Delete as they can be shown: without
// what may be a secret, also where the path is wrong.
func (m *Manager) MaskWords(words []string) []string {
	n, shown := m.o.Model, slices.Clone(words)
	for i := 0; i < len(words); i++ {
		c := n.Child(words[i])
		switch {
		case c == nil: // the word itself may be a secret whose name was left out
			return maskFrom(shown, i)
		case c.Sensitive:
			return maskFrom(shown, i+1)
		case c.Kind == schema.Leaf || c.Kind == schema.LeafList:
			return shown // what follows are its values
		case c.Kind == schema.List:
			if i++; i < len(words) {
				if key := c.Child(words[i]); key != nil && key.Sensitive { // the entry's name was left out
					return maskFrom(shown, i+1)
				}
			}
		}
		n = c
	}
	return shown
}

func maskFrom(words []string, first int) []string {
	for i := first; i < len(words); i++ {
		words[i] = Masked
	}
	return words
}
