package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// word is one element of a command line.
type word struct {
	text   string
	quoted bool // some part was quoted: never a keyword or a bracket
	col    int  // 1-based, in characters
}

// is reports whether w is the unquoted text s.
func (w word) is(s string) bool { return !w.quoted && w.text == s }

// splitLine splits a command line into words, quoting as in a shell: '…' keeps
// everything, "…" and bare text know the backslash. Unquoted [ ] { } stand for
// themselves; inside [ ] an unquoted comma separates like a space.
func splitLine(line string) ([]word, error) {
	if !utf8.ValidString(line) {
		return nil, &Error{Code: Invalid, Message: "the command line is not valid UTF-8"}
	}
	var (
		words []word
		cur   strings.Builder
		open  bool // a word has begun
		q     bool // it has a quoted part
		start int
		lists int // open [
	)
	end := func() {
		if open {
			words = append(words, word{text: cur.String(), quoted: q, col: start})
		}
		cur.Reset()
		open, q = false, false
	}
	begin := func(col int) {
		if !open {
			open, start = true, col
		}
	}
	rs := []rune(line)
	for i := 0; i < len(rs); i++ {
		r, col := rs[i], i+1
		switch {
		case r == '\n' || r == '\r':
			return nil, &Error{Code: Invalid, Message: fmt.Sprintf("line break at column %d", col),
				Allowed: "one command on one line", Actions: []string{"send each command by itself"}}
		case r != '\t' && unicode.IsControl(r):
			return nil, &Error{Code: Invalid, Message: fmt.Sprintf("control character %U at column %d", r, col)}
		case unicode.IsSpace(r), r == ',' && lists > 0:
			end()
		case r == '[' || r == ']' || r == '{' || r == '}':
			end()
			words = append(words, word{text: string(r), col: col})
			switch r {
			case '[':
				lists++
			case ']':
				lists--
			}
		case r == '\'' || r == '"':
			begin(col)
			q = true
			close := i + 1
			for ; close < len(rs) && rs[close] != r; close++ {
				if r == '"' && rs[close] == '\\' && close+1 < len(rs) {
					close++
				}
				cur.WriteRune(rs[close])
			}
			if close >= len(rs) {
				return nil, &Error{Code: Invalid, Message: fmt.Sprintf("the quote opened at column %d is not closed", col)}
			}
			i = close
		case r == '\\':
			if i+1 == len(rs) {
				return nil, &Error{Code: Invalid, Message: "a backslash at the end of the line escapes nothing"}
			}
			begin(col)
			q = true
			i++
			cur.WriteRune(rs[i])
		default:
			begin(col)
			cur.WriteRune(r)
		}
	}
	end()
	return words, nil
}
