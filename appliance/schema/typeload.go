package schema

import (
	"errors"
	"math/big"
	"regexp"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// typ builds the Type of a type statement that goyang has resolved. Every use
// of one statement shares one Type.
func (l *loader) typ(s *yang.Type) *Type {
	if t := l.types[s]; t != nil {
		return t
	}
	t := &Type{Name: s.Name}
	if _, local, ok := strings.Cut(s.Name, ":"); ok {
		t.Name = local
	}
	l.types[s] = t
	y := s.YangType
	switch y.Kind {
	case yang.Ystring:
		t.Base = String
		t.Lengths = ranges(y.Length)
	case yang.Ybool:
		t.Base = Bool
	case yang.Yint8, yang.Yint16, yang.Yint32, yang.Yint64:
		t.Base = Int
		t.Ranges = ranges(y.Range)
	case yang.Yuint8, yang.Yuint16, yang.Yuint32, yang.Yuint64:
		t.Base = Uint
		t.Ranges = ranges(y.Range)
	case yang.Ydecimal64:
		t.Base = Decimal
		t.Ranges = ranges(y.Range)
		t.FractionDigits = y.FractionDigits
	case yang.Yenum:
		t.Base = Enum
	case yang.Yempty:
		t.Base = Empty
	case yang.Yunion:
		t.Base = Union
	default:
		l.errorf(s.Source, "type %s is not supported", y.Kind)
	}
	l.inherit(t, s)
	if t.Base == Enum && len(t.Enums) == 0 {
		l.errorf(s.Source, "enumeration without enum")
	}
	if t.Base == Union && len(t.Union) == 0 {
		l.errorf(s.Source, "union without member types")
	}
	return t
}

// inherit walks from the type statement s down its typedefs and takes over what
// each says. Restrictions add up; of words and members the outermost count.
func (l *loader) inherit(t *Type, s *yang.Type) {
	for step := s; step != nil && step.YangType != nil; {
		for _, p := range step.Pattern {
			l.pattern(t, p)
		}
		if t.Enums == nil {
			for _, e := range step.Enum {
				t.Enums = append(t.Enums, EnumValue{e.Name, text(e.Description)})
			}
		}
		if t.Union == nil {
			for _, m := range step.Type {
				if member := l.typ(m); member.Base == Empty {
					l.errorf(m.Source, "type empty in a union is not supported")
				} else {
					t.Union = append(t.Union, member)
				}
			}
		}
		base := step.YangType.Base
		if base == nil {
			return
		}
		def, ok := base.ParentNode().(*yang.Typedef)
		if !ok {
			return
		}
		if allowed := argument(extensions(def.Source)["allowed"]); t.Expect == "" {
			t.Expect = oneLine(allowed)
		}
		if m := yang.RootNode(def); m.Name == typesModule && t.semantic == nil {
			sem := semantics()[def.Name]
			t.semantic, t.Format = sem.check, sem.format
			if def.Name == jsonType {
				t.Base = Any
			}
		}
		step = def.Type
	}
}

func (l *loader) pattern(t *Type, p *yang.Pattern) {
	re, err := compilePattern(p.Name)
	if err != nil {
		l.errorf(p.Source, "pattern %s: %v", p.Name, err)
		return
	}
	t.Patterns = append(t.Patterns, Pattern{Expr: p.Name, Message: text(p.ErrorMessage), re: re})
}

// compilePattern compiles an XSD regular expression (RFC 7950 section 9.4.5)
// with Go's engine. What the two read differently is refused, so that a pattern
// never means something else than its author wrote.
func compilePattern(expr string) (*regexp.Regexp, error) {
	inClass := false
	for i := 0; i < len(expr); i++ {
		switch c := expr[i]; {
		case c == '\\':
			i++
		case inClass && c == '-' && strings.HasPrefix(expr[i:], "-["):
			return nil, errors.New("character class subtraction is not supported")
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			if strings.HasPrefix(expr[i:], "[^") {
				i++
			}
		case c == '^' || c == '$':
			return nil, errors.New(`the pattern is anchored already; write \^ or \$ for the character`)
		case strings.HasPrefix(expr[i:], "(?"):
			return nil, errors.New("(? is not a YANG construct")
		}
	}
	re, err := regexp.Compile(`^(?:` + expr + `)$`)
	if err != nil {
		return nil, err
	}
	return re, nil
}

func ranges(r yang.YangRange) []Range {
	var out []Range
	for _, interval := range r {
		low, high := numberText(interval.Min), numberText(interval.Max)
		parsed := Range{Min: low, Max: high}
		parsed.min, _ = new(big.Rat).SetString(low)
		parsed.max, _ = new(big.Rat).SetString(high)
		out = append(out, parsed)
	}
	return out
}

// numberText writes a bound without the zeros that fill up a decimal64.
func numberText(n yang.Number) string {
	s := n.String()
	if n.IsDecimal() {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}
