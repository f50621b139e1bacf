package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind is what sort of token a token is.
type kind uint8

const (
	endOfText kind = iota
	newline
	word    // bare or quoted
	comment // from # to the end of the line, # included
	openBrace
	closeBrace
	openBracket
	closeBracket
	semicolon
)

const byteOrderMark = '\uFEFF'

// position is a place in the text: byte offset, and line and column from 1.
type position struct {
	offset, line, col int
}

// token is one lexical unit. end is the offset behind it.
type token struct {
	kind   kind
	text   string // of a word: unquoted and unescaped
	quoted bool
	at     position
	end    int
}

// lexer cuts text, which is valid UTF-8, into tokens.
type lexer struct {
	file string
	text string
	pos  position
}

func (l *lexer) problem(at position, format string, args ...any) error {
	return Problems{{File: l.file, Line: at.line, Col: at.col, Message: fmt.Sprintf(format, args...)}}
}

// peek returns the next character and its size; 0, 0 at the end.
func (l *lexer) peek() (rune, int) {
	if l.pos.offset == len(l.text) {
		return 0, 0
	}
	return utf8.DecodeRuneInString(l.text[l.pos.offset:])
}

// skip moves over a character of size bytes that does not end a line.
func (l *lexer) skip(size int) {
	l.pos.offset += size
	l.pos.col++
}

// next returns the next token.
func (l *lexer) next() (token, error) {
	for {
		r, size := l.peek()
		t := token{at: l.pos, end: l.pos.offset + size}
		switch {
		case size == 0:
			return t, nil
		case r == ' ' || r == '\t':
			l.skip(size)
		case r == byteOrderMark && l.pos.offset == 0: // some editors begin a file with one
			l.pos.offset += size
		case r == '\n', strings.HasPrefix(l.text[l.pos.offset:], "\r\n"):
			l.pos.offset += strings.IndexByte(l.text[l.pos.offset:], '\n') + 1
			l.pos.line, l.pos.col = l.pos.line+1, 1
			t.kind, t.end = newline, l.pos.offset
			return t, nil
		case r == '#':
			return l.comment()
		case r == '"' || r == '\'':
			return l.quoted(r)
		case punctuation(r) != endOfText:
			l.skip(size)
			t.kind = punctuation(r)
			return t, nil
		default:
			return l.bare()
		}
	}
}

func punctuation(r rune) kind {
	switch r {
	case '{':
		return openBrace
	case '}':
		return closeBrace
	case '[':
		return openBracket
	case ']':
		return closeBracket
	case ';':
		return semicolon
	}
	return endOfText
}

// delimits reports whether r ends a bare word.
func delimits(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '#' || r == '"' || r == '\'' || punctuation(r) != endOfText
}

// refused returns what is wrong with a character that may stand nowhere
// outside strings and comments, or "".
func refused(r rune) string {
	switch {
	case unicode.IsControl(r):
		return fmt.Sprintf("control character %U is not allowed", r)
	case unicode.IsSpace(r):
		return fmt.Sprintf("%U is not a plain space; write a space or put it in quotes", r)
	}
	return ""
}

func (l *lexer) bare() (token, error) {
	t := token{kind: word, at: l.pos}
	for {
		r, size := l.peek()
		if size == 0 || delimits(r) || strings.HasPrefix(l.text[l.pos.offset:], "\r\n") {
			break
		}
		if why := refused(r); why != "" {
			return t, l.problem(l.pos, "%s", why)
		}
		l.skip(size)
	}
	t.end = l.pos.offset
	t.text = l.text[t.at.offset:t.end]
	return t, nil
}

func (l *lexer) comment() (token, error) {
	t := token{kind: comment, at: l.pos}
	for {
		r, size := l.peek()
		if size == 0 || r == '\n' || strings.HasPrefix(l.text[l.pos.offset:], "\r\n") {
			break
		}
		if unicode.IsControl(r) && r != '\t' {
			return t, l.problem(l.pos, "control character %U is not allowed in a comment", r)
		}
		l.skip(size)
	}
	t.end = l.pos.offset
	t.text = strings.TrimRight(l.text[t.at.offset:t.end], " \t")
	return t, nil
}

// escape maps the letter behind a backslash to what it stands for.
func escape(r rune) (rune, bool) {
	switch r {
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case '\\', '"', '\'':
		return r, true
	}
	return 0, false
}

func (l *lexer) quoted(quote rune) (token, error) {
	t := token{kind: word, quoted: true, at: l.pos}
	l.skip(1)
	var b strings.Builder
	for {
		r, size := l.peek()
		switch {
		case size == 0, r == '\n', r == '\r':
			return t, l.problem(t.at, `string is not closed on its line; close it with %c, and write \n for a new line`, quote)
		case r == quote:
			l.skip(size)
			t.text, t.end = b.String(), l.pos.offset
			return t, nil
		case r == '\\':
			at := l.pos
			l.skip(size)
			letter, size := l.peek()
			meant, ok := escape(letter)
			if !ok {
				return t, l.problem(at, `unknown escape; allowed: \n \t \\ \" \'`)
			}
			b.WriteRune(meant)
			l.skip(size)
		case unicode.IsControl(r) && r != '\t':
			return t, l.problem(l.pos, "control character %U is not allowed in a string", r)
		default:
			b.WriteRune(r)
			l.skip(size)
		}
	}
}

// write returns s as it can stand in the place of t. What is in quotes may touch
// its neighbours, so it stays in quotes.
func (t token) write(s string) string {
	if t.quoted {
		return inQuotes(s)
	}
	return quote(s)
}

// quote returns s as it must be written: bare when that reads back as s. What
// stands for a secret is always in quotes.
func quote(s string) string {
	bare := s != "" && s != Masked && !strings.ContainsFunc(s, func(r rune) bool {
		return delimits(r) || refused(r) != ""
	})
	if bare {
		return s
	}
	return inQuotes(s)
}

func inQuotes(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}
