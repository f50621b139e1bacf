package config

import (
	"bytes"
	"strings"
)

const indent = "    "

// Print returns the canonical text: one statement a line, four spaces for each
// block, values quoted only where they must be. Comments stay, and so does one
// empty line where there were some.
func (t *Tree) Print() []byte {
	var b bytes.Buffer
	t.root.print(&b, "")
	return b.Bytes()
}

func (bl *block) print(b *bytes.Buffer, margin string) {
	for _, it := range bl.items {
		if it.blank {
			b.WriteByte('\n')
		}
		b.WriteString(margin)
		if it.statement != nil {
			it.statement.print(b, margin)
			if it.comment != "" {
				b.WriteByte(' ')
			}
		}
		b.WriteString(it.comment)
		b.WriteByte('\n')
	}
}

func (s *statement) print(b *bytes.Buffer, margin string) {
	b.WriteString(s.name.text)
	words := make([]string, len(s.values))
	for i, v := range s.values {
		words[i] = quote(v.text)
	}
	switch {
	case s.bracketed:
		b.WriteString(strings.TrimSuffix(" [ "+strings.Join(words, " "), " ") + " ]")
	case len(words) == 1:
		b.WriteString(" " + words[0])
	}
	if s.body == nil {
		b.WriteByte(';')
		return
	}
	b.WriteString(" {")
	if s.opening != "" {
		b.WriteString(" " + s.opening)
	}
	b.WriteByte('\n')
	s.body.print(b, margin+indent)
	b.WriteString(margin + "}")
}
