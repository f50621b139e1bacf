package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"ze.internal/ze/appliance/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func fixture(t testing.TB) *schema.Set {
	t.Helper()
	text, err := os.ReadFile("testdata/fixture.yang")
	if err != nil {
		t.Fatal(err)
	}
	set, err := schema.Load([]schema.Source{{Name: "fixture.yang", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// everything returns the command with one parameter of each kind.
func everything(t testing.TB) *schema.Command {
	t.Helper()
	for _, c := range fixture(t).Commands() {
		if c.RPC == "test-everything" {
			return c
		}
	}
	t.Fatal("no command test-everything")
	return nil
}

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func published(t testing.TB, o *schema.Object) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("urn:test", decode(t, string(o.JSONSchema()))); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("urn:test")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestJSONSchemaGolden(t *testing.T) {
	c := everything(t)
	var got bytes.Buffer
	for _, o := range []*schema.Object{c.Input, c.Output} {
		published(t, o)
		if err := json.Indent(&got, o.JSONSchema(), "", "  "); err != nil {
			t.Fatal(err)
		}
		got.WriteByte('\n')
	}
	const golden = "testdata/fixture.json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("JSON Schema differs from %s (-want +got):\n%s", golden, diff)
	}
}

func TestCommand(t *testing.T) {
	commands := fixture(t).Commands()
	if len(commands) != 2 || commands[0].RPC != "test-nothing" || commands[1].RPC != "test-everything" {
		t.Fatalf("commands are not those of the fixture sorted by path: %v", commands)
	}
	got := *commands[1]
	if got.Input.Param("timer").Child("hold") == nil || got.Input.Param("hold") != nil {
		t.Error("Param does not look at the top level only")
	}
	got.Input, got.Output = nil, nil
	want := schema.Command{
		Module:      "fixture",
		RPC:         "test-everything",
		Path:        []string{"test", "everything"},
		Effect:      "change",
		Description: "Takes one parameter of each kind.",
		Examples:    []string{"test everything 192.0.2.0/24 zone XA", "test everything [ 192.0.2.0/24 2001:db8::/32 ]"},
		Idempotent:  true,
		Task:        "optional",
		UIResource:  "ui://fixture/index.html",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if hidden := commands[0]; !hidden.Hidden || len(hidden.Input.Params) != 0 {
		t.Errorf("command test: hidden %v with %d parameters", hidden.Hidden, len(hidden.Input.Params))
	}
	if problems := commands[0].Input.Check(map[string]any{}); problems != nil {
		t.Errorf("an rpc without input refuses {}: %v", problems)
	}
}

func TestOrderIsThatOfTheStatements(t *testing.T) {
	step := everything(t).Input.Param("step")
	if got := strings.Join(step.ChildNames(), " "); got != "name first ip port last" {
		t.Errorf("children of step: %s", got)
	}
	if got := strings.Join(fixture(t).Data().Child("fixture").ChildNames(), " "); got != "ip port peer" {
		t.Errorf("children of fixture: %s", got)
	}
}

func TestParameterMarks(t *testing.T) {
	input := everything(t).Input
	peer, prefixes, secret := input.Param("peer"), input.Param("prefixes"), input.Param("secret")
	if diff := cmp.Diff([]string{"test"}, peer.Selector); diff != "" || peer.Header != "Peer" || peer.Positional || peer.Sensitive {
		t.Errorf("peer: selector %v header %q positional %v sensitive %v", peer.Selector, peer.Header, peer.Positional, peer.Sensitive)
	}
	if !prefixes.Positional || prefixes.Selector != nil || prefixes.Min != 1 || prefixes.Max != 100000 || !prefixes.Mandatory {
		t.Errorf("prefixes: %+v", prefixes)
	}
	if !secret.Sensitive {
		t.Error("secret is not sensitive")
	}
	if label, timer := input.Param("label"), input.Param("timer"); !label.Presence || label.Mandatory || timer.Presence || timer.Mandatory {
		t.Errorf("label: presence %v mandatory %v; timer: presence %v mandatory %v", label.Presence, label.Mandatory, timer.Presence, timer.Mandatory)
	}
	if share := input.Param("share"); share.Units != "percent" || share.DefaultValue() != json.Number("50") {
		t.Errorf("share: units %q default %v", share.Units, share.DefaultValue())
	}
	if input.Param("text").DefaultValue() != nil {
		t.Error("text has a default")
	}
}

func TestFillDefaults(t *testing.T) {
	input := everything(t).Input
	args := decode(t, `{"prefixes":["192.0.2.0/24"],"zone":"XA","on":false,"label":{"key":"k"},"step":[{"name":"a","ip":"192.0.2.1"}]}`)
	if problems := input.Check(args); problems != nil {
		t.Fatal(problems)
	}
	input.FillDefaults(args.(map[string]any))
	want := decode(t, `{"prefixes":["192.0.2.0/24"],"zone":"XA","on":false,"share":50,"gap":5,"rate":0.25,"origin":"igp","limit":"unlimited",
		"tags":["AA","BB"],"label":{"key":"k","value":"none"},"timer":{"hold":90},"step":[{"name":"a","ip":"192.0.2.1","port":179}]}`)
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("with defaults (-want +got):\n%s", diff)
	}
	if problems := input.Check(args); problems != nil {
		t.Errorf("the defaults are refused: %v", problems)
	}
}
