package stdio

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value jsontext.Value
}

// parseObject reads valid JSON; nil if v is no object.
func parseObject(v jsontext.Value) object {
	if v.Kind() != '{' {
		return nil
	}
	o := object{}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		o = append(o, member{key, value.Clone()})
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	return o
}

// parseArray reads valid JSON; nil if v is no array.
func parseArray(v jsontext.Value) []jsontext.Value {
	if v.Kind() != '[' {
		return nil
	}
	out := []jsontext.Value{}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		out = append(out, value.Clone())
	}
	return out
}

// get returns a member's value, nil if there is none.
func (o object) get(name string) jsontext.Value {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// text returns a member that is a string, "" if it is none.
func (o object) text(name string) string {
	s, _ := text(o.get(name))
	return s
}

// set gives a member its value, at its place or at the end.
func (o *object) set(name string, value jsontext.Value) {
	for i, m := range *o {
		if m.name == name {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{name, value})
}

// drop removes members.
func (o *object) drop(names ...string) {
	*o = slices.DeleteFunc(*o, func(m member) bool { return slices.Contains(names, m.name) })
}

// change replaces a member, if it is there.
func (o *object) change(name string, f func(jsontext.Value) jsontext.Value) {
	if v := o.get(name); v != nil {
		o.set(name, f(v))
	}
}

func (o object) encode() jsontext.Value {
	b := jsontext.Value{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quote(m.name)...), ':'), m.value...)
	}
	return append(b, '}')
}

func encodeArray(values []jsontext.Value) jsontext.Value {
	b := jsontext.Value{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// text returns the text of a JSON string, and whether v is one.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// quote returns s as a JSON string; what is no UTF-8 in it is replaced.
func quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // its only error is what it replaces
	return b
}
