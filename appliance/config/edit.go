package config

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ze.internal/ze/appliance/schema"
)

// Set returns the text with the value at a path written, or with the list entry
// or empty block there. words are the path and then the value, or the values of
// a leaf-list, which take the place of those it has. Blocks are made as needed;
// every other byte and comment stays. The error is Problems.
func (t *Tree) Set(root *schema.Node, words []string) ([]byte, error) {
	steps, values, err := resolve(root, words)
	if err != nil {
		return nil, err
	}
	last := steps[len(steps)-1].node
	if last.Kind == schema.Container && !last.Presence {
		return nil, Problems{{Path: pathOf(steps), Message: "is a block; the path goes on", Allowed: strings.Join(last.ChildNames(), ", ")}}
	}
	if slices.ContainsFunc(words, unwritable) {
		return nil, Problems{{Path: pathOf(steps), Message: "holds a character that cannot be written", Allowed: "UTF-8 without control characters"}}
	}
	if err := checkValues(steps, values); err != nil {
		return nil, err
	}
	at, owner, found := t.descend(steps)
	switch {
	case found == len(steps) && (last.Kind == schema.Leaf || last.Kind == schema.LeafList):
		return t.setValues(owner, last, values), nil
	case found == len(steps):
		return t.text, nil
	case owner != nil && owner.body == nil:
		return t.open(owner, steps[found:], values), nil
	}
	return t.insert(at, steps[found:], values), nil
}

// unwritable reports whether s cannot be written, not even in quotes.
func unwritable(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
}

// descend follows steps as far as they are written. at is the last block on the
// way, owner the statement of the last step found, nil for none.
func (t *Tree) descend(steps []step) (at *block, owner *statement, found int) {
	at = t.root
	for _, st := range steps {
		s := at.statement(st)
		if s == nil {
			return at, owner, found
		}
		owner, found = s, found+1
		if s.body == nil {
			return at, owner, found
		}
		at = s.body
	}
	return at, owner, found
}

// statement returns what is written for a step, or nil.
func (b *block) statement(st step) *statement {
	for _, it := range b.items {
		if it.statement != nil && st.matches(it.statement) {
			return it.statement
		}
	}
	return nil
}

// splice returns the text with a part replaced.
func (t *Tree) splice(at span, with string) []byte {
	return slices.Concat(t.text[:at.from], []byte(with), t.text[at.to:])
}

// setValues replaces the values of a leaf or leaf-list that is written.
func (t *Tree) setValues(s *statement, n *schema.Node, values []string) []byte {
	switch {
	case len(values) == 0: // a leaf of type empty is there or not
		return t.text
	case n.Kind == schema.Leaf || !s.bracketed && len(values) == 1:
		return t.splice(s.value, s.values[0].write(values[0]))
	}
	return t.splice(s.value, bracket(values, t.commentsIn(s.value), t.newline()+t.margin(s.span.from)+indent))
}

// commentsIn returns the comments within a list of values.
func (t *Tree) commentsIn(at span) []string {
	l := lexer{text: string(t.text[at.from:at.to])}
	var comments []string
	for {
		tok, err := l.next()
		if err != nil || tok.kind == endOfText {
			return comments // it has been parsed before, so there is no error
		}
		if tok.kind == comment {
			comments = append(comments, tok.text)
		}
	}
}

// bracket writes a list of values, with comments on lines of their own before
// them.
func bracket(values, comments []string, newline string) string {
	var b strings.Builder
	b.WriteString("[")
	for _, c := range comments {
		b.WriteString(newline + c)
	}
	separator := " "
	if len(comments) > 0 {
		separator = newline
	}
	for _, v := range values {
		b.WriteString(separator + quote(v))
		separator = " "
	}
	return b.String() + " ]"
}

// open gives a list entry without a block one that holds steps.
func (t *Tree) open(s *statement, steps []step, values []string) []byte {
	at := span{s.value.to, s.span.to}
	if margin, ok := t.startsLine(s.span.from); ok {
		nl := t.newline()
		return t.splice(at, " {"+nl+nested(steps, values, margin+indent, nl)+nl+margin+"}")
	}
	return t.splice(at, " { "+nested(steps, values, "", " ")+" }")
}

// insert writes steps at the end of a block, on lines of their own if the block
// ends on one.
func (t *Tree) insert(b *block, steps []step, values []string) []byte {
	end, terminated := b.span.from, true
	var last *item
	if n := len(b.items); n > 0 {
		last = &b.items[n-1]
		if s := last.statement; s != nil {
			end, terminated = s.span.to, s.body != nil || t.text[s.span.to-1] == ';'
		}
	}
	gap := t.text[end:b.span.to]
	isRoot := b == t.root
	if !isRoot && !bytes.Contains(gap, []byte("\n")) {
		lead := " "
		if !terminated {
			lead = "; "
		}
		tail := ""
		if len(gap) == 0 {
			tail = " "
		}
		return t.splice(span{end, end}, lead+nested(steps, values, "", " ")+tail)
	}
	nl := t.newline()
	margin := ""
	if !isRoot {
		margin = t.margin(b.span.to) + indent
	}
	for _, it := range slices.Backward(b.items) {
		if it.statement == nil {
			continue
		}
		if own, ok := t.startsLine(it.statement.span.from); ok {
			margin = own
			break
		}
	}
	text := nested(steps, values, margin, nl) + nl
	at := b.span.to
	if isRoot {
		if at > 0 && t.text[at-1] != '\n' {
			text = nl + text
		}
	} else {
		at = bytes.LastIndexByte(t.text[:at], '\n') + 1
	}
	return t.splice(span{at, at}, text)
}

// nested writes steps as blocks in each other around a value. sep is a line end,
// and margin what begins each line; or sep is a space, and all is on one line.
func nested(steps []step, values []string, margin, sep string) string {
	st := steps[0]
	head := margin + st.write()
	if len(steps) > 1 {
		inner := margin
		if sep != " " {
			inner += indent
		}
		return head + " {" + sep + nested(steps[1:], values, inner, sep) + sep + margin + "}"
	}
	switch {
	case st.node.Kind == schema.Container:
		return head + " { }"
	case st.node.Kind == schema.LeafList && len(values) > 1:
		return head + " " + bracket(values, nil, "") + ";"
	case len(values) > 0:
		return head + " " + quote(values[0]) + ";"
	}
	return head + ";"
}

// Delete returns the text without the leaf, list entry or block at a path, and
// without the comment behind it on its line. Every other byte stays. The error
// is Problems.
func (t *Tree) Delete(root *schema.Node, words []string) ([]byte, error) {
	steps, rest, err := resolve(root, words)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, Problems{{Path: pathOf(steps), Message: "is deleted as a whole, without naming a value"}}
	}
	s, err := t.at(steps)
	if err != nil {
		return nil, err
	}
	from, to := s.span.from, s.span.to
	margin, first := t.startsLine(from)
	line := to + len(t.text[to:])
	if i := bytes.IndexByte(t.text[to:], '\n'); i >= 0 {
		line = to + i + 1
	}
	behind := bytes.TrimSpace(t.text[to:line])
	switch {
	case first && (len(behind) == 0 || behind[0] == '#'):
		from, to = from-len(margin), line
	case first: // the next statement takes its place
		to += spaces(t.text[to:])
	default:
		from -= from - len(bytes.TrimRight(t.text[:from], " \t"))
	}
	return t.splice(span{from, to}, ""), nil
}

// at returns the statement at steps, or Problems that name the first step that
// is not written, and what is.
func (t *Tree) at(steps []step) (*statement, error) {
	at, s, found := t.descend(steps)
	if found == len(steps) {
		return s, nil
	}
	p := Problem{Path: pathOf(steps[:found+1]), Message: "is not in the configuration", Allowed: "nothing, for the block is empty"}
	if found > 0 && s.body == nil {
		at = &block{}
	}
	var there []string
	for _, it := range at.items {
		if it.statement != nil {
			name := it.statement.name.text
			if key, ok := it.statement.key(); ok && steps[found].node.Kind == schema.List && name == steps[found].node.Name {
				name += " " + key
			}
			if !slices.Contains(there, name) {
				there = append(there, name)
			}
		}
	}
	if len(there) > 0 {
		const shown = 20
		p.Allowed = strings.Join(there[:min(shown, len(there))], ", ")
		p.Suggest = schema.Nearest(steps[found].write(), there)
	}
	return nil, Problems{p}
}

// part returns what is written at a path, in canonical form.
func (t *Tree) part(root *schema.Node, words []string) ([]byte, error) {
	steps, rest, err := resolve(root, words)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, Problems{{Path: pathOf(steps), Message: "is a leaf; the path ends there"}}
	}
	s, err := t.at(steps)
	if err != nil {
		return nil, err
	}
	b := block{items: []item{{statement: s}}}
	return (&Tree{root: &b}).Print(), nil
}

// startsLine reports whether only blanks stand before an offset on its line, and
// returns them.
func (t *Tree) startsLine(at int) (margin string, ok bool) {
	margin = t.margin(at)
	from := bytes.LastIndexByte(t.text[:at], '\n') + 1
	return margin, from+len(margin) == at
}

// margin returns the blanks at the beginning of the line of an offset.
func (t *Tree) margin(at int) string {
	from := bytes.LastIndexByte(t.text[:at], '\n') + 1
	return string(t.text[from : from+min(spaces(t.text[from:]), at-from)])
}

// spaces counts the blanks at the beginning of text.
func spaces(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t")) }

// newline returns how lines end in the text.
func (t *Tree) newline() string {
	if i := bytes.IndexByte(t.text, '\n'); i > 0 && t.text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
