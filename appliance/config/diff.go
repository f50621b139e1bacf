package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"ze.internal/ze/appliance/schema"
)

// leaves returns the values in a tree that keeps to the model, by path: those of
// leaves and leaf-lists, and what is there without a value as "".
func (t *Tree) leaves(root *schema.Node) map[string]string {
	all := map[string]string{}
	var visit func(b *block, n *schema.Node, path string)
	visit = func(b *block, n *schema.Node, path string) {
		for _, it := range b.items {
			s := it.statement
			if s == nil {
				continue
			}
			c := n.Child(s.name.text)
			here := join(path, c.Name)
			switch c.Kind {
			case schema.List:
				here += "[" + s.values[0].text + "]"
				all[here] = ""
			case schema.Container:
				if c.Presence {
					all[here] = ""
				}
			default:
				words := make([]string, len(s.values))
				for i, v := range s.values {
					words[i] = quote(v.text)
				}
				all[here] = strings.Join(words, " ")
			}
			if s.body != nil {
				visit(s.body, c, here)
			}
		}
	}
	visit(t.root, root, "")
	return all
}

// changedPaths returns the paths whose values differ between two texts that keep
// to the model, sorted.
func (m *Manager) changedPaths(before, after []byte) ([]string, error) {
	old, err := m.draft("before", before)
	if err != nil {
		return nil, err
	}
	now, err := m.draft("after", after)
	if err != nil {
		return nil, err
	}
	was, is := old.leaves(m.o.Model), now.leaves(m.o.Model)
	var paths []string
	for path, value := range was {
		if v, ok := is[path]; !ok || v != value {
			paths = append(paths, path)
		}
	}
	for path := range is {
		if _, ok := was[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// diff returns a unified diff of two texts with secrets masked. The texts are
// compared as they are, so that a changed secret shows, as two masked lines: a
// masked text has the very lines of the text.
func (m *Manager) diff(before, after []byte) (string, error) {
	if bytes.Equal(before, after) {
		return "", nil
	}
	shownBefore, err := m.Show(before, nil)
	if err != nil {
		return "", err
	}
	shownAfter, err := m.Show(after, nil)
	if err != nil {
		return "", err
	}
	edits := compare(lines(before), lines(after))
	if len(edits) == 0 { // but for the end of the last line
		return "", nil
	}
	return unified(edits, lines(shownBefore), lines(shownAfter)), nil
}

// lines cuts a text into lines without their ends.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// edit says that lines a[a0:a1] have become b[b0:b1].
type edit struct{ a0, a1, b0, b1 int }

// maxCompare bounds the table of compare; beyond it the whole middle counts as
// replaced.
const maxCompare = 4 << 20

// compare returns what turns a into b: what is left when the longest common
// subsequence is taken out.
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	n, m := len(a)-head-tail, len(b)-head-tail
	if n == 0 && m == 0 {
		return nil
	}
	if n*m > maxCompare {
		return []edit{{head, head + n, head, head + m}}
	}
	// length[i][j] is that of the common subsequence of a[i:] and b[j:].
	length := make([][]int32, n+1)
	for i := range length {
		length[i] = make([]int32, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if a[head+i] == b[head+j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var edits []edit
	i, j := 0, 0
	for i < n || j < m {
		e := edit{a0: head + i, b0: head + j}
		for i < n && j < m && a[head+i] != b[head+j] || (i < n) != (j < m) {
			if j == m || i < n && length[i+1][j] >= length[i][j+1] {
				i++
			} else {
				j++
			}
		}
		if e.a1, e.b1 = head+i, head+j; e.a1 > e.a0 || e.b1 > e.b0 {
			edits = append(edits, e)
		}
		for i < n && j < m && a[head+i] == b[head+j] {
			i, j = i+1, j+1
		}
	}
	return edits
}

// unified writes edits as hunks with three lines of context.
func unified(edits []edit, a, b []string) string {
	const context = 3
	var out strings.Builder
	out.WriteString("--- running\n+++ candidate\n")
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
			n++
		}
		hunk := edits[:n]
		edits = edits[n:]
		before := min(context, hunk[0].a0)
		from, to := hunk[0].a0-before, min(len(a), hunk[n-1].a1+context)
		after := to - hunk[n-1].a1
		fmt.Fprintf(&out, "@@ -%s +%s @@\n", extent(from, to), extent(hunk[0].b0-before, hunk[n-1].b1+after))
		at := from
		for _, e := range hunk {
			write(&out, " ", a[at:e.a0])
			write(&out, "-", a[e.a0:e.a1])
			write(&out, "+", b[e.b0:e.b1])
			at = e.a1
		}
		write(&out, " ", a[at:to])
	}
	return out.String()
}

// extent writes where lines from..to stand, as in a unified diff: an empty part
// is named by the line before it.
func extent(from, to int) string {
	if from == to {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func write(out *strings.Builder, mark string, lines []string) {
	for _, l := range lines {
		out.WriteString(mark + l + "\n")
	}
}
