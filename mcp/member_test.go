package mcp

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// FuzzMembers holds the quick reader against the ordinary one, on every object
// that passes the gate.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, ` { } `, `{"a":1}`, `{"a":{"b":[1,"}",{}]},"c":"\"","\u0064":null , "e" : -1.5e3}`, `{"":""}`, `{"a":[],"b":true,"c":"\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if command.CheckJSON(text) != nil || jsontext.Value(text).Kind() != '{' {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		members(text, func(name []byte, value jsontext.Value) { got[string(name)] = json.RawMessage(value) })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read as %s, want %s", text, got, want)
		}
	})
}
