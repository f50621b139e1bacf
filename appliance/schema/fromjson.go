package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// FromJSON returns the object that a JSON Schema describes, of draft 2020-12
// unless it names an earlier one. It is published octet for octet as it was
// given, and Check holds values against it; nothing that it refers to is
// fetched. Params are the properties at its root, as far as a command line can
// spell them; a default is a hint to the caller and is not filled in.
func FromJSON(raw json.RawMessage) (*Object, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if root, _ := doc.(map[string]any); root == nil || root["type"] != "object" {
		return nil, errors.New(`schema: its root must be an object with "type": "object"`)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(denyAll{})
	const url = "urn:ze:given"
	if err := c.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	o := &Object{given: true}
	if o.Params, err = givenParams(raw); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	o.publish.Do(func() { o.published = slices.Clone(raw) })
	o.compile.Do(func() { o.compiled = compiled })
	return o, nil
}

// givenParams returns the properties at the root of a schema in their order.
func givenParams(raw json.RawMessage) ([]*Node, error) {
	var root struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
	}
	if err := jsonv2.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	if root.Properties == nil {
		return nil, nil
	}
	var params []*Node
	dec := jsontext.NewDecoder(bytes.NewReader(root.Properties))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		n := &Node{Name: name.String(), Mandatory: slices.Contains(root.Required, name.String())}
		property, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if err := n.given(property); err != nil {
			return nil, fmt.Errorf("property %s: %w", Quote(n.Name), err)
		}
		params = append(params, n)
	}
	return params, nil
}

// property is what can be told of one from the outside.
type property struct {
	Type        jsontext.Value `json:"type"`
	Description string         `json:"description"`
	Enum        jsontext.Value `json:"enum"`
	Items       jsontext.Value `json:"items"`
	Header      string         `json:"x-mcp-header"`
}

// given describes n by the schema of a property.
func (n *Node) given(raw jsontext.Value) error {
	n.schema = json.RawMessage(slices.Clone(raw))
	n.Kind, n.Type = Leaf, &Type{Name: "json", Base: Any, Expect: "a JSON value"}
	if raw.Kind() != '{' {
		return nil // true: anything
	}
	var p property
	if err := jsonv2.Unmarshal(raw, &p, jsonv2.MatchCaseInsensitiveNames(false)); err != nil {
		return err
	}
	n.Description = p.Description
	var kind string
	_ = jsonv2.Unmarshal(p.Type, &kind) // a list of types stays undescribed
	n.Type = givenType(kind, p.Enum)
	if item := (&Node{}); kind == "array" && p.Items.Kind() == '{' && item.given(p.Items) == nil && item.Kind == Leaf {
		n.Kind, n.Type = LeafList, item.Type
	}
	n.Header = p.Header
	return nil
}

// givenType returns the nearest type a command line can spell. Which values are
// allowed is for the schema to say.
func givenType(kind string, enum jsontext.Value) *Type {
	var names []string
	if jsonv2.Unmarshal(enum, &names) == nil && len(names) > 0 {
		t := &Type{Name: "enumeration", Base: Enum}
		for _, name := range names {
			t.Enums = append(t.Enums, EnumValue{Name: name})
		}
		return t
	}
	switch kind {
	case "string":
		return &Type{Name: "string", Base: String}
	case "boolean":
		return &Type{Name: "boolean", Base: Bool}
	case "integer":
		return &Type{Name: "integer", Base: Any, Expect: "an integer"}
	case "number":
		return &Type{Name: "number", Base: Any, Expect: "a number"}
	case "object":
		return &Type{Name: "object", Base: Any, Expect: `a JSON object, quoted as '{"name": "value"}'`}
	case "array":
		return &Type{Name: "array", Base: Any, Expect: "a JSON array, quoted as '[1, 2]'"}
	}
	return &Type{Name: "json", Base: Any, Expect: "a JSON value"}
}

// parseAny reads the text form of a value of any JSON type: what is JSON is
// itself, anything else is a string.
func parseAny(text string) any {
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if jsontext.Value(text).IsValid() && dec.Decode(&v) == nil {
		return v
	}
	return text
}
