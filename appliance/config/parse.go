// Package config is the configuration: its language of blocks in braces, leaves,
// list entries and comments, and the way from a candidate to the running
// configuration and back. It parses, prints, edits, validates against a YANG
// model, and turns a valid text into JSON for the rooms that apply it. It owns
// the syntax, the positions behind every message, the model, candidates and
// revisions; it must not know what any leaf does, or how it is applied or kept.
package config

import (
	"fmt"
	"unicode/utf8"
)

// Limits of one text.
const (
	MaxSize  = 4 << 20 // bytes
	MaxDepth = 64      // nested blocks
)

// Tree is a parsed configuration text. It does not change.
type Tree struct {
	file string
	text []byte
	root *block
}

// block is what stands between braces, or the whole text.
type block struct {
	items []item
	span  span // between the braces
}

// span is a part of the text: the offsets of its first byte and of the byte
// behind it.
type span struct{ from, to int }

// item is one line of the canonical form: a comment on its own, or a statement
// with the comment behind it.
type item struct {
	blank     bool   // an empty line stands before it
	comment   string // own comment line, or the comment behind the statement
	statement *statement
}

// statement is "name;", "name value;", "name [ values ];", "name { … }" or
// "name key { … }".
type statement struct {
	name      token
	values    []token
	bracketed bool
	body      *block // nil without braces
	opening   string // comment behind the opening brace
	value     span   // the values, with brackets
	span      span   // all of it, with the semicolon or the closing brace
}

// Parse reads text. It knows the syntax only; see Validate. The error is
// Problems and names the first thing that is wrong.
func Parse(file string, text []byte) (*Tree, error) {
	p := parser{lexer: lexer{file: file, text: string(text), pos: position{line: 1, col: 1}}}
	if len(text) > MaxSize {
		return nil, p.problem(p.pos, "text has %d bytes; at most %d are allowed", len(text), MaxSize)
	}
	if at, ok := invalidUTF8(p.text); ok {
		return nil, p.problem(at, "text is not valid UTF-8")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	root, err := p.block(0)
	if err != nil {
		return nil, err
	}
	root.span = span{0, len(p.text)}
	return &Tree{file: file, text: []byte(p.text), root: root}, nil
}

func invalidUTF8(text string) (position, bool) {
	at := position{line: 1, col: 1}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				at.offset = i
				return at, true
			}
		}
		at.col++
		if r == '\n' {
			at.line, at.col = at.line+1, 1
		}
	}
	return at, false
}

// parser is a recursive descent parser with one token of look-ahead.
type parser struct {
	lexer
	tok token
}

func (p *parser) advance() (err error) {
	p.tok, err = p.next()
	return err
}

// block reads items up to a closing brace or, at depth 0, the end of the text.
// The closing brace is left for the caller.
func (p *parser) block(depth int) (*block, error) {
	b := &block{}
	newlines := 0 // since the last item
	for {
		switch p.tok.kind {
		case newline:
			newlines++
		case comment:
			p.attach(b, newlines)
			newlines = 0
		case word:
			before := len(b.items)
			s, err := p.statement(b, depth)
			if err != nil {
				return nil, err
			}
			b.items = append(b.items, item{statement: s})
			b.items[before].blank = newlines > 1 && before > 0
			newlines = 0
			continue
		case endOfText:
			return b, nil
		case closeBrace:
			if depth > 0 {
				return b, nil
			}
			return nil, p.problem(p.tok.at, "} closes no block")
		case openBrace:
			return nil, p.problem(p.tok.at, "{ without a name before it on this line")
		case openBracket:
			return nil, p.problem(p.tok.at, "[ without a name before it on this line")
		case closeBracket:
			return nil, p.problem(p.tok.at, "] closes no list")
		case semicolon:
			return nil, p.problem(p.tok.at, "; ends no statement")
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

// attach files the comment at hand: behind the statement on its line, or as a
// line of its own.
func (p *parser) attach(b *block, newlines int) {
	if last := len(b.items) - 1; newlines == 0 && last >= 0 && b.items[last].statement != nil {
		b.items[last].comment = p.tok.text
		return
	}
	b.items = append(b.items, item{blank: newlines > 1 && len(b.items) > 0, comment: p.tok.text})
}

// statement reads one statement of b, up to and with its end.
func (p *parser) statement(b *block, depth int) (*statement, error) {
	s := &statement{name: p.tok, span: span{p.tok.at.offset, p.tok.end}}
	if s.name.quoted {
		return nil, p.problem(p.tok.at, "a name is written without quotes")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch p.tok.kind {
	case word:
		s.values = []token{p.tok}
		s.value = span{p.tok.at.offset, p.tok.end}
		s.span.to = p.tok.end
		if err := p.advance(); err != nil {
			return nil, err
		}
	case openBracket:
		s.bracketed = true
		s.value.from = p.tok.at.offset
		if err := p.bracket(b, s); err != nil {
			return nil, err
		}
	}
	switch p.tok.kind {
	case openBrace:
		if s.bracketed {
			return nil, p.problem(p.tok.at, "{ after a list of values; a block has one name before it")
		}
		return s, p.body(s, depth)
	case semicolon:
		s.span.to = p.tok.end
		return s, p.advance()
	case newline, endOfText, comment, closeBrace:
		return s, nil
	case word:
		return nil, p.problem(p.tok.at, "more than one word behind %s; allowed: NAME VALUE, NAME [ VALUE … ], NAME { … } and NAME KEY { … }, with quotes around what holds spaces", s.name.text)
	}
	return nil, p.problem(p.tok.at, "%s is not allowed here; allowed: ; or the end of the line", p.here())
}

// here is the token at hand as it is written.
func (p *parser) here() string { return p.text[p.tok.at.offset:p.tok.end] }

// bracket reads the values of s. Comments between them move to lines of their
// own before the statement.
func (p *parser) bracket(b *block, s *statement) error {
	open := p.tok.at
	for {
		if err := p.advance(); err != nil {
			return err
		}
		switch p.tok.kind {
		case word:
			s.values = append(s.values, p.tok)
		case newline:
		case comment:
			b.items = append(b.items, item{comment: p.tok.text})
		case closeBracket:
			s.value.to, s.span.to = p.tok.end, p.tok.end
			return p.advance()
		case endOfText:
			return p.problem(open, "[ is not closed before the end of the text")
		default:
			return p.problem(p.tok.at, "%s inside the list of values that begins at %s; allowed: values and ]", p.here(), open)
		}
	}
}

func (p *parser) body(s *statement, depth int) error {
	open, from := p.tok.at, p.tok.end
	if depth == MaxDepth {
		return p.problem(open, "blocks are nested more than %d deep", MaxDepth)
	}
	if err := p.advance(); err != nil {
		return err
	}
	if p.tok.kind == comment {
		s.opening = p.tok.text
		if err := p.advance(); err != nil {
			return err
		}
	}
	var err error
	if s.body, err = p.block(depth + 1); err != nil {
		return err
	}
	if p.tok.kind == endOfText {
		return p.problem(open, "block %s is not closed before the end of the text", s.name.text)
	}
	s.body.span = span{from, p.tok.at.offset}
	s.span.to = p.tok.end
	return p.advance()
}

func (at position) String() string { return fmt.Sprintf("%d:%d", at.line, at.col) }
