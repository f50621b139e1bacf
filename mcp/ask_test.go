package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// formCall returns a call of a client that can be asked with forms.
func formCall(tool, args string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args +
		`,` + strings.Replace(metaMember, `Capabilities":{}`, `Capabilities":{"elicitation":{}}`, 1) + `}}`
}

// A form goes through the hands of a client and its host: no secret may, neither
// as an answer nor in what a person is asked to confirm.
func TestSecretsStayOutOfForms(t *testing.T) {
	set, err := schema.Load([]schema.Source{{Name: "vault.yang", Text: []byte(`module vault {
  yang-version 1.1; namespace "urn:ze:test:vault"; prefix v;
  import ze-extensions { prefix ze; }
  description "A vault.";
  revision 2026-11-30 { description "First."; }
  rpc burn {
    ze:command "burn"; ze:effect destroy; ze:example "burn x secret y"; description "Burn a vault.";
    input {
      leaf vault { type string; mandatory true; ze:positional; description "Its name."; }
      leaf secret { type string; mandatory true; ze:sensitive; description "What opens it."; }
    }
    output { leaf done { type boolean; description "Whether."; } }
  }
}`)}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	if err := f.registry.Register(command.New(set.Commands()[0], func(context.Context, *command.Request) (any, error) {
		return map[string]bool{"done": true}, nil
	})); err != nil {
		t.Fatal(err)
	}
	r := call(adminToken, "ze_burn", "{}")
	if _, answer := send(f, withBody(r, formCall("ze_burn", `{"vault":"north"}`))); !strings.Contains(answer, "is required") {
		t.Errorf("a missing secret is not an error: %s", answer)
	}
	_, answer := send(f, withBody(r, formCall("ze_burn", `{"vault":"north","secret":"open sesame"}`)))
	if !strings.Contains(answer, `"ze-confirm"`) || !strings.Contains(answer, "north") || strings.Contains(answer, "sesame") {
		t.Errorf("the confirmation shows the secret, or too little: %s", answer)
	}
}

// What a form cannot hold is not asked for piece by piece.
func TestFieldOf(t *testing.T) {
	object, err := schema.FromJSON(json.RawMessage(`{"type":"object","properties":{
		"name":{"type":"string","minLength":1,"pattern":"^[a-z]+$","examples":["hall"]},
		"count":{"type":"integer","minimum":1,"maximum":3,"default":2},
		"share":{"type":"number"},
		"on":{"type":"boolean"},
		"colour":{"type":"string","enum":["red","blue"]},
		"colours":{"type":"array","items":{"type":"string","enum":["red","blue"]},"minItems":1},
		"names":{"type":"array","items":{"type":"string"}},
		"size":{"type":"object","properties":{"width":{"type":"integer"}}},
		"either":{"type":["string","null"]},
		"any":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"name":    `{"type":"string","minLength":1}`,
		"count":   `{"type":"integer","minimum":1,"maximum":3,"default":2}`,
		"share":   `{"type":"number"}`,
		"on":      `{"type":"boolean"}`,
		"colour":  `{"type":"string","enum":["red","blue"]}`,
		"colours": `{"type":"array","minItems":1,"items":{"type":"string","enum":["red","blue"]}}`,
	}
	if len(object.Params) != 10 {
		t.Fatalf("the schema has %d parameters", len(object.Params))
	}
	for _, n := range object.Params {
		f, ok := fieldOf(n)
		if ok != (want[n.Name] != "") {
			t.Errorf("%s: fits is %t", n.Name, ok)
			continue
		}
		if !ok {
			continue
		}
		if got, err := json.Marshal(f.property); err != nil || string(got) != want[n.Name] {
			t.Errorf("%s: %s, %v; want %s", n.Name, got, err, want[n.Name])
		}
	}
}

func TestCanAnswer(t *testing.T) {
	form := command.Question{Key: "k", Method: elicitationMethod, Params: json.RawMessage(`{"message":"?"}`)}
	tools := command.Question{Key: "k", Method: "sampling/createMessage", Params: json.RawMessage(`{"tools":[]}`)}
	for _, test := range []struct {
		client string
		q      command.Question
		want   bool
	}{
		{`{}`, form, false},
		{``, form, false},
		{`{"elicitation":{}}`, form, true},
		{`{"elicitation":{"url":{}}}`, form, false},
		{`{"elicitation":{"form":true}}`, form, false},
		{`{"sampling":{}}`, tools, false},
		{`{"sampling":{"tools":{}}}`, tools, true},
		{`{"roots":{}}`, command.Question{Method: "roots/list"}, true},
		{`{"roots":true}`, command.Question{Method: "roots/list"}, false},
		{`{"roots":{}}`, command.Question{Method: "ping"}, false},
	} {
		if got := CanAnswer(json.RawMessage(test.client), test.q); got != test.want {
			t.Errorf("%s %s: %t, want %t", test.client, test.q.Method, got, test.want)
		}
	}
}
