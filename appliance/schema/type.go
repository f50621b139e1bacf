package schema

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Base is the YANG built-in type a Type comes down to (RFC 7950 section 4.2.4).
type Base uint8

// The built-in types that are supported.
const (
	String  Base = iota // JSON string
	Bool                // JSON true or false
	Int                 // int8..int64: JSON number
	Uint                // uint8..uint64: JSON number
	Decimal             // decimal64: JSON number
	Enum                // JSON string
	Union               // as the first member that accepts the value
	Empty               // JSON true: the leaf is there
	Any                 // any JSON value, which a schema from elsewhere judges
)

// Type says which values a leaf or leaf-list accepts. It judges the text form
// of a value and its JSON form by the same rules.
type Type struct {
	Name           string      // typedef or built-in name: "ip-prefix", "uint32"
	Base           Base        //
	Ranges         []Range     // Int, Uint, Decimal: never empty
	FractionDigits int         // Decimal: 1..18
	Lengths        []Range     // String: length in characters; empty means any
	Patterns       []Pattern   // String: all must match
	Enums          []EnumValue // Enum: in the order declared
	Union          []*Type     // Union: in the order declared
	Format         string      // JSON Schema format that says the same, "" if none
	Expect         string      // ze:allowed: the allowed form in words

	semantic func(string) *ValueError // String: what a pattern cannot say
}

// Range is one inclusive interval.
type Range struct {
	Min, Max string // decimal text

	min, max *big.Rat
}

// Pattern is a YANG pattern, anchored at both ends.
type Pattern struct {
	Expr    string // as written in YANG
	Message string // YANG error-message: the allowed form in words, "" if none

	re *regexp.Regexp
}

// EnumValue is one member of an enumeration.
type EnumValue struct {
	Name, Description string
}

// ValueError says what is wrong with a value. Type.Allowed says what is right.
type ValueError struct {
	Message string // a plain sentence that quotes the value
	Suggest string // a value that was probably meant, "" if none
}

// Error implements error.
func (e *ValueError) Error() string { return e.Message }

// Parse turns the text form of a value, as in a command line or configuration,
// into its JSON value: string, bool or json.Number. An error is a *ValueError.
func (t *Type) Parse(text string) (any, error) {
	v, err := t.parse(text)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (t *Type) parse(text string) (any, *ValueError) {
	switch t.Base {
	case Bool:
		switch text {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return nil, &ValueError{Message: Quote(text) + " is neither true nor false"}
	case Int, Uint, Decimal:
		return json.Number(text), t.number(text)
	case Empty:
		if text != "" {
			return nil, &ValueError{Message: Quote(text) + " follows a name that takes no value"}
		}
		return true, nil
	case Any:
		return parseAny(text), nil
	case Union:
		for _, m := range t.Union {
			if v, err := m.parse(text); err == nil {
				return v, nil
			}
		}
		return nil, t.noMember(Quote(text))
	}
	return text, t.text(text)
}

// check judges a decoded JSON value.
func (t *Type) check(v any) *ValueError {
	switch t.Base {
	case Bool:
		if _, ok := v.(bool); !ok {
			return &ValueError{Message: show(v) + " is neither true nor false"}
		}
	case Int, Uint, Decimal:
		n, ok := v.(json.Number)
		if !ok {
			return &ValueError{Message: show(v) + " is not a number"}
		}
		return t.number(string(n))
	case Empty:
		if v != true {
			return &ValueError{Message: show(v) + " is not true"}
		}
	case Any:
	case Union:
		for _, m := range t.Union {
			if m.check(v) == nil {
				return nil
			}
		}
		return t.noMember(show(v))
	default:
		s, ok := v.(string)
		if !ok {
			return &ValueError{Message: show(v) + " is not a string"}
		}
		return t.text(s)
	}
	return nil
}

func (t *Type) noMember(shown string) *ValueError {
	return &ValueError{Message: shown + " has none of the allowed forms"}
}

// maxDigits bounds what is handed to big.Rat; no supported type needs more.
const maxDigits = 40

// number judges plain decimal text. Exponents are refused, and so is 1.0 for an
// integer: both are correct JSON, but encoding/json would not decode them into
// the integer fields that commands and configuration use.
func (t *Type) number(text string) *ValueError {
	digits := strings.TrimPrefix(text, "-")
	whole, frac, dot := strings.Cut(digits, ".")
	switch {
	case len(text) > maxDigits, !plain(whole), len(whole) > 1 && whole[0] == '0', dot && !plain(frac):
		if t.Base == Decimal {
			return &ValueError{Message: Quote(text) + " is not a number in plain digits"}
		}
		return &ValueError{Message: Quote(text) + " is not a whole number in plain digits"}
	case t.Base != Decimal && dot:
		return &ValueError{Message: text + " is not a whole number in plain digits"}
	case len(frac) > t.FractionDigits:
		return &ValueError{Message: text + " has more than " + strconv.Itoa(t.FractionDigits) + " digits after the point"}
	}
	n, _ := new(big.Rat).SetString(text)
	if !within(t.Ranges, n) {
		return &ValueError{Message: text + " is out of range"}
	}
	return nil
}

func plain(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func within(ranges []Range, n *big.Rat) bool {
	for i := range ranges {
		if n.Cmp(ranges[i].min) >= 0 && n.Cmp(ranges[i].max) <= 0 {
			return true
		}
	}
	return false
}

func (t *Type) text(s string) *ValueError {
	if t.Base == Enum {
		names := t.enumNames()
		for _, name := range names {
			if name == s {
				return nil
			}
		}
		return &ValueError{Message: Quote(s) + " is not a known value", Suggest: Nearest(s, names)}
	}
	if len(t.Lengths) > 0 {
		if n := utf8.RuneCountInString(s); !within(t.Lengths, big.NewRat(int64(n), 1)) {
			return &ValueError{Message: Quote(s) + " has " + count(n, "character")}
		}
	}
	for i := range t.Patterns {
		if !t.Patterns[i].re.MatchString(s) {
			return &ValueError{Message: Quote(s) + " does not have the allowed form"}
		}
	}
	if t.semantic != nil {
		return t.semantic(s)
	}
	return nil
}

func (t *Type) enumNames() []string {
	names := make([]string, len(t.Enums))
	for i, e := range t.Enums {
		names[i] = e.Name
	}
	return names
}

// Allowed describes the allowed values for people: "an integer 1..65535",
// "igp, egp or incomplete".
func (t *Type) Allowed() string {
	if t.Expect != "" {
		return t.Expect
	}
	switch t.Base {
	case Bool:
		return "true or false"
	case Int, Uint:
		return "an integer " + rangesText(t.Ranges)
	case Decimal:
		return "a number " + rangesText(t.Ranges) + " with at most " + count(t.FractionDigits, "digit") + " after the point"
	case Enum:
		return orList(t.enumNames())
	case Empty:
		return "no value"
	case Union:
		forms := make([]string, len(t.Union))
		for i, m := range t.Union {
			forms[i] = m.Allowed()
		}
		return strings.Join(forms, " or ")
	}
	form := "text"
	if len(t.Lengths) > 0 {
		form += " of " + lengthsText(t.Lengths)
	}
	for _, p := range t.Patterns {
		if p.Message != "" {
			return p.Message
		}
		form += ", matching " + p.Expr
	}
	return form
}

func rangesText(ranges []Range) string {
	forms := make([]string, len(ranges))
	for i, r := range ranges {
		forms[i] = r.Min + ".." + r.Max
		if r.Min == r.Max {
			forms[i] = r.Min
		}
	}
	return orList(forms)
}

// unbounded is what YANG's max stands for in a length.
const unbounded = "18446744073709551615"

func lengthsText(lengths []Range) string {
	if len(lengths) == 1 {
		switch l := lengths[0]; {
		case l.Max == unbounded:
			return "at least " + l.Min + " characters"
		case l.Min == "0":
			return "at most " + l.Max + " characters"
		}
	}
	return rangesText(lengths) + " characters"
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// maxQuote is how many characters of a value a message repeats.
const maxQuote = 60

// Quote returns s in double quotes for a message, shortened when it is long.
func Quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuote {
		s = string([]rune(s)[:maxQuote]) + "…"
	}
	return strconv.Quote(s)
}

// show renders a decoded JSON value for a message.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return Quote(v)
	case json.Number:
		if len(v) > maxDigits {
			return string(v[:maxDigits]) + "…"
		}
		return string(v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "the value"
}

// Nearest returns the candidate closest to word when it is close enough to be
// a slip of the keyboard, or else the shortest that word is the beginning of,
// or "".
func Nearest(word string, candidates []string) string {
	w := []rune(strings.ToLower(word))
	if len(w) > maxQuote {
		return ""
	}
	best, bestDistance := "", min(2, len(w)/3)+1
	for _, c := range candidates {
		if d := distance(w, []rune(strings.ToLower(c)), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best != "" || len(w) < 2 {
		return best
	}
	for _, c := range candidates {
		if strings.HasPrefix(c, word) && (best == "" || len(c) < len(best)) {
			best = c
		}
	}
	return best
}

// distance is the edit distance of a and b with neighbouring letters swapped
// counting once, or limit when it is at least that.
func distance(a, b []rune, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	before, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, prev[j+1]+1, prev[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, prev = prev, row
	}
	return min(prev[len(b)], limit)
}
