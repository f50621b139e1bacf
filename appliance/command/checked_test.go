package command

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzMembers holds the quick reader against the ordinary one, on every object
// that passes the gate.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{`{}`, ` { } `, `{"a":1}`, `{"a":{"b":[1,"}",{}]},"c":"\"","\u0064":null , "e" : -1.5e3}`, `{"":""}`, `{"a":[],"b":true,"c":"\\"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if CheckJSON(text) != nil || jsontext.Value(text).Kind() != '{' {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		got := map[string]json.RawMessage{}
		Members(text, func(name []byte, value jsontext.Value) { got[string(name)] = json.RawMessage(value) })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read as %s, want %s", text, got, want)
		}
	})
}

// FuzzReadChecked holds the quick decoder against the ordinary one.
func FuzzReadChecked(f *testing.F) {
	for _, seed := range []string{`{}`, ` [ ] `, `{"a":[1,-2.5e3,true,false,null,"x\n\u00e9\ud83d\ude00"],"\u0062":{"c":{}}, "" : [[],{}]}`, `"a\\"`, ` 0 `, "\tnull\n", `{"a":"}","b":"]\""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if CheckJSON(text) != nil {
			return
		}
		got, _ := readChecked(text, skip(text, 0, ' '))
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		var want any
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: read as %#v, want %#v", text, got, want)
		}
	})
}
