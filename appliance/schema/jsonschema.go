package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// member is one member of a JSON object whose members keep their order.
type member struct {
	name  string
	value any
}

// document is a JSON object in the order it is written here.
type document []member

func (d *document) add(name string, value any) { *d = append(*d, member{name, value}) }

// MarshalJSON implements json.Marshaler.
func (d document) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, m := range d {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(m.name); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1)
		b.WriteByte(':')
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode returns d as JSON. A document is made of strings, numbers, booleans
// and documents only, so encoding cannot fail.
func (d document) encode() json.RawMessage {
	b, err := d.MarshalJSON()
	if err != nil {
		panic("schema: encode JSON Schema: " + err.Error())
	}
	return b
}

// JSONSchema returns the JSON Schema (draft 2020-12) of the object.
func (o *Object) JSONSchema() json.RawMessage {
	o.publish.Do(func() { o.published = objectSchema(o.Params, "").encode() })
	return o.published
}

// JSONSchema returns the JSON Schema (draft 2020-12) of one property.
func (n *Node) JSONSchema() json.RawMessage {
	if n.schema != nil {
		return n.schema
	}
	return n.document().encode()
}

func objectSchema(nodes []*Node, key string) document {
	properties, required := document{}, []string{}
	for _, n := range nodes {
		properties.add(n.Name, n.document())
		if n.Mandatory || n.Name == key {
			required = append(required, n.Name)
		}
	}
	d := document{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		d.add("required", required)
	}
	d.add("additionalProperties", false)
	return d
}

func (n *Node) document() document {
	var d document
	if text := n.describe(); text != "" {
		d.add("description", text)
	}
	switch n.Kind {
	case Container:
		return append(d, objectSchema(n.Children, "")...)
	case List:
		d.add("type", "array")
		d.add("items", objectSchema(n.Children, n.Key))
	case LeafList:
		d.add("type", "array")
		var items document
		n.Type.constrain(&items)
		d.add("items", items)
	case Leaf:
		n.Type.constrain(&d)
	}
	if n.Min > 0 {
		d.add("minItems", n.Min)
	}
	if n.Max > 0 {
		d.add("maxItems", n.Max)
	}
	if n.Default != nil {
		d.add("default", n.DefaultValue())
	}
	if len(n.Examples) > 0 {
		examples := n.parseAll(n.Examples)
		if n.Kind == LeafList {
			examples = []any{examples}
		}
		d.add("examples", examples)
	}
	if n.Header != "" {
		d.add("x-mcp-header", n.Header)
	}
	return d
}

// describe adds to the description what JSON Schema has no keyword for.
func (n *Node) describe() string {
	text := n.Description
	if n.Units != "" {
		text += " Unit: " + n.Units + "."
	}
	if n.Type == nil {
		return strings.TrimSpace(text)
	}
	if n.Type.Expect != "" {
		text += " Allowed: " + n.Type.Expect + "."
	}
	if t := n.Type; t.Base == Decimal {
		// multipleOf would say it, but validators that compute in binary
		// floating point refuse 0.07 as a multiple of 0.01.
		text += " At most " + count(t.FractionDigits, "digit") + " after the point."
	}
	if explained := func(e EnumValue) bool { return e.Description != "" }; slices.ContainsFunc(n.Type.Enums, explained) {
		var values []string
		for _, e := range n.Type.Enums {
			values = append(values, strings.TrimSuffix(strings.TrimSuffix(e.Name+": "+e.Description, ": "), ".")+".")
		}
		text += " Values: " + strings.Join(values, " ")
	}
	return strings.TrimSpace(text)
}

// DefaultValue returns the default as a JSON value, for a leaf-list a list of
// them; nil if there is none.
func (n *Node) DefaultValue() any {
	if n.Default == nil {
		return nil
	}
	values := n.parseAll(n.Default)
	if n.Kind == LeafList {
		return values
	}
	return values[0]
}

// parseAll parses texts that Load has accepted.
func (n *Node) parseAll(texts []string) []any {
	values := make([]any, len(texts))
	for i, text := range texts {
		values[i], _ = n.Type.parse(text)
	}
	return values
}

// constrain adds the keywords that describe the type.
func (t *Type) constrain(d *document) {
	switch t.Base {
	case Bool:
		d.add("type", "boolean")
	case Empty:
		d.add("type", "boolean")
		d.add("const", true)
	case Int, Uint:
		d.add("type", "integer")
		constrainRange(d, t.Ranges, "minimum", "maximum")
	case Decimal:
		d.add("type", "number")
		constrainRange(d, t.Ranges, "minimum", "maximum")
	case Enum:
		d.add("type", "string")
		d.add("enum", t.enumNames())
	case Union:
		members := make([]document, len(t.Union))
		for i, m := range t.Union {
			m.constrain(&members[i])
		}
		d.add("anyOf", members)
	case String:
		d.add("type", "string")
		if t.Format != "" {
			d.add("format", t.Format)
		}
		constrainRange(d, t.Lengths, "minLength", "maxLength")
		constrainPatterns(d, t.Patterns)
	}
}

// constrainRange adds the outer bounds, and each interval when there are gaps.
func constrainRange(d *document, ranges []Range, low, high string) {
	if len(ranges) == 0 {
		return
	}
	if bottom := ranges[0].Min; bottom != "0" || low == "minimum" {
		d.add(low, json.Number(bottom))
	}
	if top := ranges[len(ranges)-1].Max; top != unbounded || low == "minimum" {
		d.add(high, json.Number(top))
	}
	if len(ranges) == 1 {
		return
	}
	intervals := make([]document, len(ranges))
	for i, r := range ranges {
		intervals[i] = document{{low, json.Number(r.Min)}, {high, json.Number(r.Max)}}
	}
	d.add("anyOf", intervals)
}

func constrainPatterns(d *document, patterns []Pattern) {
	anchored := func(p Pattern) string { return "^(?:" + p.Expr + ")$" }
	switch len(patterns) {
	case 0:
	case 1:
		d.add("pattern", anchored(patterns[0]))
	default:
		all := make([]document, len(patterns))
		for i, p := range patterns {
			all[i] = document{{"pattern", anchored(p)}}
		}
		d.add("allOf", all)
	}
}
