package schema

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzFits holds the quick look at a value against the compiled schema: both
// find the same values without a problem.
func FuzzFits(f *testing.F) {
	set, err := Load([]Source{{Name: "m.yang", Text: []byte(`module m { namespace "urn:m"; prefix m; import ze-extensions { prefix ze; }
  rpc r { ze:command r; ze:effect read; ze:example r; description D; input {
    leaf name { type string { length 2..4; } mandatory true; }
    leaf kind { type enumeration { enum a; enum b; } }
    leaf count { type uint8 { range 1..9; } }
    leaf flag { type empty; }
    leaf-list tag { type string; max-elements 2; }
    container at { presence "somewhere"; leaf x { type int8; mandatory true; } }
    container plain { leaf y { type boolean; } }
    list step { key id; min-elements 0; max-elements 2; leaf id { type string; } leaf n { type decimal64 { fraction-digits 1; } } }
  } output { leaf ok { type boolean; } } } }`)}})
	if err != nil {
		f.Fatal(err)
	}
	o := set.Commands()[0].Input
	o.compile.Do(o.build)
	for _, seed := range []string{`{}`, `[]`, `null`, `{"name":"ab"}`, `{"name":"a"}`, `{"name":"ab","x":1}`, `{"name":"ab","kind":"c"}`, `{"name":"ab","count":0}`,
		`{"name":"ab","flag":false}`, `{"name":"ab","tag":["a","b","c"]}`, `{"name":"ab","tag":{}}`, `{"name":"ab","at":{}}`, `{"name":"ab","at":{"x":1},"plain":{"y":true}}`,
		`{"name":"ab","step":[{"n":1.5}]}`, `{"name":"ab","step":[{"id":"a","n":1.55}]}`, `{"name":"ab","step":[{"id":"a"},{"id":"b"},{"id":"c"}]}`, `{"name":"ab","step":[]}`, `{"name":null}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if dec.Decode(&v) != nil {
			return
		}
		if err := o.compiled.Validate(v); fits(o.Params, v) != (err == nil) {
			t.Errorf("%s: the quick look says %v, the schema %v", text, fits(o.Params, v), err)
		}
	})
}
