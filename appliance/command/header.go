package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/schema"
)

// Header is an argument of a tool that its caller repeats in the HTTP header
// Mcp-Param-Name (page basic/transports/streamable-http, x-mcp-header).
type Header struct {
	Name string
	Path []string // of the argument: names of members from the root
}

// headersOf returns the headers that a published input schema asks for: those of
// properties that can be reached from its root through properties alone.
func headersOf(input json.RawMessage) ([]Header, error) {
	var found []Header
	names := map[string]bool{}
	var visit func(raw jsontext.Value, path []string) error
	visit = func(raw jsontext.Value, path []string) error {
		if raw.Kind() != '{' {
			return nil // true or false
		}
		var s struct {
			Type       jsontext.Value            `json:"type"`
			Header     jsontext.Value            `json:"x-mcp-header"`
			Properties map[string]jsontext.Value `json:"properties"`
		}
		if err := jsonv2.Unmarshal(raw, &s); err != nil {
			return err
		}
		if s.Header != nil {
			var name string
			if err := jsonv2.Unmarshal(s.Header, &name); err != nil || !schema.IsToken(name) || names[strings.ToLower(name)] {
				return fmt.Errorf("%s: x-mcp-header must be an HTTP token that no other argument has", strings.Join(path, "."))
			}
			switch string(s.Type) {
			case `"string"`, `"integer"`, `"boolean"`:
			default:
				return fmt.Errorf("%s: x-mcp-header needs an argument of type string, integer or boolean", strings.Join(path, "."))
			}
			names[strings.ToLower(name)] = true
			found = append(found, Header{Name: name, Path: path})
		}
		for name, property := range s.Properties {
			if err := visit(property, append(slices.Clone(path), name)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(jsontext.Value(input), nil); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}
