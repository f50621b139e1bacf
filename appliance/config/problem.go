package config

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration, and where.
type Problem struct {
	File      string
	Line, Col int    // from 1; columns count characters; 0 for a path that was given, not read
	Path      string // "bgp/peer[north]/remote/as"; "" for a syntax error
	Message   string // what is wrong
	Allowed   string // the allowed form, "" where Message says it
	Suggest   string // what was probably meant, "" if unknown

	secret  bool // the line holds a secret and must not be shown
	missing bool // something required is not there
}

// Error returns "file:line:col: path: message; allowed: …; did you mean …?",
// without a place if there is none.
func (p Problem) Error() string {
	var b strings.Builder
	switch {
	case p.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Col)
	case p.File != "":
		b.WriteString(p.File + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Allowed != "" {
		b.WriteString("; allowed: " + p.Allowed)
	}
	if p.Suggest != "" {
		b.WriteString("; did you mean " + p.Suggest + "?")
	}
	return b.String()
}

// Problems is everything that is wrong, in the order of the text.
type Problems []Problem

// maxShown bounds what Error and Render write about one text.
const maxShown = 50

// Error returns one line for each problem.
func (ps Problems) Error() string { return ps.render(Problem.Error) }

// Render is Error with the line of text under each problem and a caret at the
// column. A line that holds a secret is left out.
func (ps Problems) Render(text []byte) string {
	lines := bytes.Split(text, []byte("\n"))
	return ps.render(func(p Problem) string {
		if p.secret || p.Line < 1 || p.Line > len(lines) {
			return p.Error()
		}
		return p.Error() + "\n" + excerpt(lines[p.Line-1], p.Col)
	})
}

func (ps Problems) render(one func(Problem) string) string {
	parts := make([]string, 0, min(len(ps), maxShown)+1)
	for i, p := range ps {
		if i == maxShown {
			parts = append(parts, fmt.Sprintf("and %d more problems", len(ps)-maxShown))
			break
		}
		parts = append(parts, one(p))
	}
	return strings.Join(parts, "\n")
}

// Width of the part of a line that excerpt shows, and how much of it is before
// the column.
const (
	excerptWidth  = 100
	excerptBefore = 60
)

func excerpt(line []byte, col int) string {
	runes := []rune(strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "\uFFFD"))
	for i, r := range runes {
		if r < ' ' || r == 0x7f {
			runes[i] = ' '
		}
	}
	at := min(col-1, len(runes))
	from := max(0, at-excerptBefore)
	runes = runes[from:min(len(runes), from+excerptWidth)]
	return "    " + string(runes) + "\n    " + strings.Repeat(" ", at-from) + "^"
}

// sorted orders problems by position and returns them as an error, or nil.
func (ps Problems) sorted() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Col - b.Col
	})
	return ps
}
