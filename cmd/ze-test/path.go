package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pathHelp says how a place in an answer is written.
const pathHelp = `PATH names a place in the answer: members with dots between them, [N] for an
element, [NAME=VALUE] for the first element whose member has that value, ['NAME']
for a member with a dot in its name; $ is the whole. VALUE is JSON or bare text;
- means that nothing is there:

  expect peer[name=north].state established
  expect peer[0].uptime-seconds 0
  expect code -32020`

// segment is a step from a JSON value into it: one of these.
type segment struct {
	member string
	index  int    // -1: not an index
	where  string // member that picks the element
	value  string
}

// parsePath reads a place; see pathHelp.
func parsePath(text string) ([]segment, error) {
	rest := strings.TrimPrefix(text, "$")
	var out []segment
	for first := true; rest != ""; first = false {
		inside, isBracket := strings.CutPrefix(rest, "[")
		if !isBracket {
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("path %q has an empty name", text)
			}
			if !first && text[len(text)-len(rest)-1] != '.' {
				return nil, fmt.Errorf("path %q needs a dot before %q", text, rest)
			}
			out = append(out, segment{member: rest[:end], index: -1})
			rest = rest[end:]
			continue
		}
		inside, after, ok := strings.Cut(inside, "]")
		if !ok || inside == "" {
			return nil, fmt.Errorf("path %q has a bracket that is empty or not closed", text)
		}
		rest = after
		name, value, isPick := strings.Cut(inside, "=")
		n, err := strconv.Atoi(inside)
		switch {
		case len(inside) > 2 && inside[0] == '\'' && inside[len(inside)-1] == '\'':
			out = append(out, segment{member: inside[1 : len(inside)-1], index: -1})
		case isPick:
			out = append(out, segment{index: -1, where: name, value: value})
		case err == nil && n >= 0:
			out = append(out, segment{index: n})
		default:
			return nil, fmt.Errorf("path %q: [%s] is neither an index nor NAME=VALUE nor a quoted name", text, inside)
		}
	}
	return out, nil
}

// find returns what is at a place; ok is false if nothing is.
func find(answer json.RawMessage, path []segment) (value any, ok bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, false, fmt.Errorf("read the answer: %w", err)
	}
	for _, s := range path {
		if value, ok = s.into(value); !ok {
			return nil, false, nil
		}
	}
	return value, true, nil
}

func (s segment) into(value any) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		if s.index >= 0 || s.where != "" {
			return nil, false
		}
		inner, ok := v[s.member]
		return inner, ok
	case []any:
		if s.index >= 0 {
			if s.index < len(v) {
				return v[s.index], true
			}
			return nil, false
		}
		for _, element := range v {
			if object, ok := element.(map[string]any); ok && s.where != "" {
				if inner, ok := object[s.where]; ok && same(inner, s.value) {
					return element, true
				}
			}
		}
	}
	return nil, false
}

// same reports whether a JSON value is what a script writes as want.
func same(value any, want string) bool {
	if s, ok := value.(string); ok && s == want {
		return true
	}
	dec := json.NewDecoder(strings.NewReader(want))
	dec.UseNumber()
	var wanted any
	if dec.Decode(&wanted) != nil || dec.More() {
		return false
	}
	if a, ok := value.(json.Number); ok {
		if b, ok := wanted.(json.Number); ok {
			x, errX := a.Float64()
			y, errY := b.Float64()
			return a == b || strings.ContainsAny(string(a+b), ".eE") && errX == nil && errY == nil && x == y
		}
	}
	got, err := json.Marshal(value)
	if err != nil {
		return false
	}
	canonical, err := json.Marshal(wanted)
	return err == nil && bytes.Equal(got, canonical)
}

// expect compares what is at a place of the last answer.
func expect(last json.RawMessage, text string, path []segment, want string) error {
	if last == nil {
		return errors.New("there is no answer yet to look into")
	}
	value, ok, err := find(last, path)
	switch {
	case err != nil:
		return err
	case want == "-" && !ok:
		return nil
	case want == "-":
		return fmt.Errorf("%s is there: %s", text, shown(value))
	case !ok:
		return fmt.Errorf("nothing is at %s in %.2000s", text, last)
	case !same(value, want):
		return fmt.Errorf("%s is %s, want %s", text, shown(value), want)
	}
	return nil
}

func shown(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
}
