package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

const given = `{ "$schema":"https://json-schema.org/draft/2020-12/schema", "type":"object",
"$defs":{"place":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}},
"properties":{
  "title":{"type":"string","minLength":2,"description":"What it is called.","x-mcp-header":"Title"},
  "kind":{"enum":["book","map"],"type":"string"},
  "pages":{"type":"integer","minimum":1,"maximum":9000},
  "weight":{"type":"number","exclusiveMinimum":0},
  "lent":{"type":"boolean","default":false},
  "tags":{"type":"array","items":{"type":"string"},"maxItems":2},
  "at":{"$ref":"#/$defs/place"},
  "anything":true},
"required":["title"],"additionalProperties":false }`

// TestFromJSONPublishes: what is shown is what was given, to the octet.
func TestFromJSONPublishes(t *testing.T) {
	o, err := FromJSON(json.RawMessage(given))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(o.JSONSchema()); got != given {
		t.Errorf("published\n%s", got)
	}
	if got, want := string(o.Param("pages").JSONSchema()), `{"type":"integer","minimum":1,"maximum":9000}`; got != want {
		t.Errorf("property pages is published as %s, want %s", got, want)
	}
}

// TestFromJSONDescribes: what a command line and the reference know of the parameters.
func TestFromJSONDescribes(t *testing.T) {
	o, err := FromJSON(json.RawMessage(given))
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name, Type, Allowed, Header string
		Kind                        Kind
		Mandatory                   bool
	}
	var got []row
	for _, n := range o.Params {
		got = append(got, row{n.Name, n.Type.Name, n.Allowed(), n.Header, n.Kind, n.Mandatory})
	}
	want := []row{
		{"title", "string", "text", "Title", Leaf, true},
		{"kind", "enumeration", "book or map", "", Leaf, false},
		{"pages", "integer", "an integer", "", Leaf, false},
		{"weight", "number", "a number", "", Leaf, false},
		{"lent", "boolean", "true or false", "", Leaf, false},
		{"tags", "string", "a list of values, each text", "", LeafList, false},
		{"at", "json", "a JSON value", "", Leaf, false},
		{"anything", "json", "a JSON value", "", Leaf, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := o.Param("title").Description; got != "What it is called." {
		t.Errorf("description %q", got)
	}
	if v, err := o.Param("pages").Type.Parse("12"); err != nil || v != json.Number("12") {
		t.Errorf("12 on a command line is %#v, %v", v, err)
	}
	if v, err := o.Param("anything").Type.Parse("plain words"); err != nil || v != "plain words" {
		t.Errorf("words on a command line are %#v, %v", v, err)
	}
	args := map[string]any{"title": "Atlas"}
	if o.FillDefaults(args); len(args) != 1 {
		t.Errorf("defaults are filled in: %v", args)
	}
}

// TestFromJSONChecks: a value is held against the schema itself, and what is
// wrong is said by field.
func TestFromJSONChecks(t *testing.T) {
	o, err := FromJSON(json.RawMessage(given))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		value string
		want  []Problem
	}{
		{`{"title":"Atlas","kind":"map","pages":3,"weight":1.5,"tags":["a"],"at":{"city":"Ulm"},"anything":[1]}`, nil},
		{`{}`, []Problem{{Field: "title", Message: "is required", Allowed: "text"}}},
		{`{"title":"A"}`, []Problem{{Field: "title", Message: `"A" has 1 character`, Allowed: "at least 2 characters"}}},
		{`{"title":7}`, []Problem{{Field: "title", Message: "7 has the wrong type", Allowed: "string"}}},
		{`{"title":"Atlas","kind":"film"}`, []Problem{{Field: "kind", Message: `"film" is not a known value`, Allowed: `one of "book", "map"`}}},
		{`{"title":"Atlas","pages":0}`, []Problem{{Field: "pages", Message: "0 is out of range", Allowed: "at least 1"}}},
		{`{"title":"Atlas","weight":0}`, []Problem{{Field: "weight", Message: "0 is out of range", Allowed: "more than 0"}}},
		{`{"title":"Atlas","tags":["a","b","c"]}`, []Problem{{Field: "tags", Message: "has 3 values", Allowed: "at most 2 values"}}},
		{`{"title":"Atlas","tags":["a",1]}`, []Problem{{Field: "tags[1]", Message: "1 has the wrong type", Allowed: "string"}}},
		{`{"title":"Atlas","at":{}}`, []Problem{{Field: "at.city", Message: "is required"}}},
		{`{"title":"Atlas","page":1}`, []Problem{{Field: "page", Message: "is unknown",
			Allowed: "one of title, kind, pages, weight, lent, tags, at, anything", Suggest: "pages"}}},
		{`{"title":"Atlas","weight":1e999999999}`, []Problem{{Field: "weight", Message: "1e999999999 is not a number that can be handled", Allowed: "a number of ordinary size"}}},
	} {
		if diff := cmp.Diff(c.want, o.Check(decoded(t, c.value))); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.value, diff)
		}
	}
}

// TestFromJSONForms: of several forms only that none fits is said.
func TestFromJSONForms(t *testing.T) {
	o, err := FromJSON(json.RawMessage(`{"type":"object","properties":{"v":{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := o.Check(decoded(t, `{"v":1}`))
	if len(got) != 1 || got[0].Field != "v" || got[0].Message != "1 has none of the allowed forms" {
		t.Errorf("got %+v, want one problem of v", got)
	}
}

// TestFromJSONRefuses: what cannot be used is refused when it is given.
func TestFromJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                              "schema",
		`true`:                           "its root must be an object",
		`{"type":"array"}`:               "its root must be an object",
		`{"type":"object","required":7}`: "schema",
		`{"type":"object","properties":{"a":{"$ref":"https://schemas.example/x"}}}`: "references to other documents are not followed",
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/hostname"}}}`:      "references to other documents are not followed",
		`{"type":"object","properties":{"a":{"type":"string","pattern":"(?=x)"}}}`:  "schema",
	} {
		if _, err := FromJSON(json.RawMessage(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}
