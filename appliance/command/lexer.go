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

// maxWords bounds the words of a line: enough for the largest list a command
// takes, and an end to the memory that a line can ask for.
const maxWords = 110_000

// splitLine splits a command line into words, quoting as in a shell: '…' keeps
// everything, "…" and bare text know the backslash. Unquoted [ ] { } stand for
// themselves; inside [ ] an unquoted comma separates like a space.
func splitLine(line string) ([]word, error) {
	if !utf8.ValidString(line) {
		return nil, &Error{Code: Invalid, Message: "the command line is not valid UTF-8"}
	}
	l := lineLexer{rest: line}
	for l.rest != "" {
		if len(l.words) > maxWords {
			return nil, &Error{Code: Invalid, Message: fmt.Sprintf("the command line has more than %d words", maxWords)}
		}
		if err := l.step(); err != nil {
			return nil, err
		}
	}
	l.end()
	return l.words, nil
}

// lineLexer holds a line that is being split.
type lineLexer struct {
	rest  string // what is still to read
	col   int    // of the character read last
	words []word

	text   strings.Builder // of the word being read
	open   bool            // a word has begun
	quoted bool            // it has a quoted part
	start  int             // its column
	lists  int             // brackets that are open
}

// next takes the next character; 0 at the end, which no valid line contains.
func (l *lineLexer) next() rune {
	if l.rest == "" {
		return 0
	}
	r, size := utf8.DecodeRuneInString(l.rest)
	l.rest = l.rest[size:]
	l.col++
	return r
}

func (l *lineLexer) begin() {
	if !l.open {
		l.open, l.start = true, l.col
	}
}

func (l *lineLexer) end() {
	if l.open {
		l.words = append(l.words, word{text: l.text.String(), quoted: l.quoted, col: l.start})
	}
	l.text.Reset()
	l.open, l.quoted = false, false
}

// step reads one character, or one quoted part.
func (l *lineLexer) step() error {
	r := l.next()
	switch {
	case r == '\n' || r == '\r':
		return &Error{Code: Invalid, Message: fmt.Sprintf("line break at column %d", l.col),
			Allowed: "one command on one line", Actions: []string{"send each command by itself"}}
	case r != '\t' && unicode.IsControl(r):
		return &Error{Code: Invalid, Message: fmt.Sprintf("control character %U at column %d", r, l.col)}
	case unicode.IsSpace(r), r == ',' && l.lists > 0:
		l.end()
	case r == '[' || r == ']' || r == '{' || r == '}':
		l.end()
		l.words = append(l.words, word{text: string(r), col: l.col})
		switch r {
		case '[':
			l.lists++
		case ']':
			l.lists--
		}
	case r == '\'' || r == '"':
		l.begin()
		l.quoted = true
		return l.quote(r)
	case r == '\\':
		if l.rest == "" {
			return &Error{Code: Invalid, Message: "a backslash at the end of the line escapes nothing"}
		}
		l.begin()
		l.quoted = true
		l.text.WriteRune(l.next())
	default:
		l.begin()
		l.text.WriteRune(r)
	}
	return nil
}

// quote reads up to the closing mark.
func (l *lineLexer) quote(mark rune) error {
	opened := l.col
	for l.rest != "" {
		r := l.next()
		if r == mark {
			return nil
		}
		if mark == '"' && r == '\\' && l.rest != "" {
			r = l.next()
		}
		l.text.WriteRune(r)
	}
	return &Error{Code: Invalid, Message: fmt.Sprintf("the quote opened at column %d is not closed", opened)}
}
