package appliance_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/schema"
)

// listed returns a list that the MCP door shows, whole.
func (d *daemon) listed(t *testing.T, method string, v any) {
	t.Helper()
	raw, err := d.mcp.Do(t.Context(), method, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

// TestDeclarationsPointSomewhere: what a declaration names is there.
func TestDeclarationsPointSomewhere(t *testing.T) {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var events struct {
		Types []struct{ Name string } `json:"type"`
	}
	d.execute(t, "show event types", &events)
	assets, used := builtin.Assets(), map[string]bool{}
	completes, resources, prompts := 0, 0, 0
	byPath := map[string]*schema.Command{}
	for _, c := range set.Commands() {
		byPath[strings.Join(c.Path, " ")] = c
	}
	for path, c := range byPath {
		if used[c.UIResource] = true; c.UIResource != "" && assets[c.UIResource] == nil {
			t.Errorf("%s: there is no %s", path, c.UIResource)
		}
		for _, name := range c.UpdatedOn {
			if !slices.ContainsFunc(events.Types, func(e struct{ Name string }) bool { return e.Name == name }) {
				t.Errorf("%s: nothing publishes %s", path, name)
			}
		}
		if c.Resource != "" {
			resources++
		}
		if c.Prompt != "" {
			prompts++
		}
		for _, n := range c.Input.Params {
			if n.Complete == nil {
				continue
			}
			completes++
			source := byPath[strings.Join(n.Complete.Path, " ")]
			if source == nil || source.Effect != "read" {
				t.Errorf("%s, parameter %s: no command %v that reads", path, n.Name, n.Complete.Path)
				continue
			}
			at := &schema.Node{Children: source.Output.Params}
			for _, name := range n.Complete.Field {
				if at = at.Child(name); at == nil {
					t.Errorf("%s, parameter %s: %v has no field %v", path, n.Name, n.Complete.Path, n.Complete.Field)
					break
				}
			}
		}
	}
	for uri := range assets {
		if !used[uri] {
			t.Errorf("no command presents its result with %s", uri)
		}
	}
	if completes < 5 || resources < 3 || prompts < 3 || len(assets) < 3 {
		t.Errorf("found only %d origins, %d resources, %d prompts, %d panels", completes, resources, prompts, len(assets))
	}
}

// TestResources reads each kind of resource of a running daemon.
func TestResources(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: newLab(t).config("")})
	var templates struct {
		List []struct{ URITemplate string } `json:"resourceTemplates"`
	}
	d.listed(t, "resources/templates/list", &templates)
	if got := fmt.Sprint(templates.List); got != "[{ze://peer/{peer}} {ze://task/{task}}]" {
		t.Errorf("templates: %s", got)
	}
	var list struct {
		List []struct{ URI string } `json:"resources"`
	}
	d.listed(t, "resources/list", &list)
	for _, r := range list.List {
		if d.read(t, r.URI) == "" {
			t.Errorf("%s is empty", r.URI)
		}
	}
	task := d.beginTask(t, "monitor event for 1h")
	for uri, want := range map[string]string{
		"ze://config/running": "router-id 192.0.2.1;", "ze://peer/north": `"remote-as":64999`, "ze://reference": `"dispatch-keys"`, "ze://task/" + task: "monitor event",
		"ui://bgp/peers.html": "<!doctype html>",
	} {
		if got := d.read(t, uri); !strings.Contains(got, want) {
			t.Errorf("%s has no %s: %s", uri, want, got)
		}
	}
}

// read returns the text of a resource.
func (d *daemon) read(t *testing.T, uri string) string {
	t.Helper()
	raw, err := d.mcp.Do(t.Context(), "resources/read", uri, map[string]any{"uri": uri})
	if err != nil {
		t.Fatalf("%s: %v", uri, err)
	}
	var held struct{ Contents []struct{ URI, Text string } }
	if err := json.Unmarshal(raw, &held); err != nil || len(held.Contents) != 1 || held.Contents[0].URI != uri {
		t.Fatalf("%s: %v in %s", uri, err, raw)
	}
	return held.Contents[0].Text
}

// TestCompletion completes what the daemon knows: names of peers, families.
func TestCompletion(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: newLab(t).config("")})
	for _, test := range []struct{ ref, argument, begin, want string }{
		{`{"type":"ref/prompt","name":"drain-peer"}`, "peer", "n", "[north]"},
		{`{"type":"ref/prompt","name":"drain-peer"}`, "peer", "s", "[]"},
		{`{"type":"ref/prompt","name":"drain-peer"}`, "family", "", "[ipv4/unicast ipv6/unicast]"},
		{`{"type":"ref/resource","uri":"ze://peer/{peer}"}`, "peer", "", "[north]"},
	} {
		raw, err := d.mcp.Do(t.Context(), "completion/complete", "", map[string]any{
			"ref": json.RawMessage(test.ref), "argument": map[string]string{"name": test.argument, "value": test.begin}})
		if err != nil {
			t.Fatalf("%+v: %v", test, err)
		}
		var answer struct{ Completion struct{ Values []string } }
		if err := json.Unmarshal(raw, &answer); err != nil || fmt.Sprint(answer.Completion.Values) != test.want {
			t.Errorf("%+v: %v in %s", test, err, raw)
		}
	}
}

// TestPromptsAndPanelsNameTools: every tool, action and field that a prompt or a
// panel names is there, in each of its forms.
func TestPromptsAndPanelsNameTools(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var tools struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	d.listed(t, "tools/list", &tools)
	actions := map[string][]string{}
	for _, tool := range tools.Tools {
		actions[tool.Name] = tool.InputSchema.Properties["action"].Enum
	}
	name := regexp.MustCompile(`\bze_[a-z_]+`)
	// In a prompt a tool is followed by its action: "`ze_show` with action `status`".
	action := regexp.MustCompile("`(ze_[a-z_]+)`(?: with|,) action `([a-z-]+)`")
	// In a panel: panel.call("ze_show", {action: "status"
	called := regexp.MustCompile(`"(ze_[a-z_]+)", \{action: "([a-z-]+)"`)
	check := func(where, text string) {
		found := name.FindAllString(text, -1)
		if len(found) == 0 {
			t.Errorf("%s names no tool", where)
		}
		for _, tool := range found {
			if _, ok := actions[tool]; !ok {
				t.Errorf("%s: there is no tool %s", where, tool)
			}
		}
		for _, m := range append(action.FindAllStringSubmatch(text, -1), called.FindAllStringSubmatch(text, -1)...) {
			if !slices.Contains(actions[m[1]], m[2]) {
				t.Errorf("%s: %s has no action %s", where, m[1], m[2])
			}
		}
	}
	for uri, page := range builtin.Assets() {
		check(uri, string(page))
		if strings.Contains(string(page), "innerHTML") || regexp.MustCompile(`(src|href)=`).Match(page) {
			t.Errorf("%s writes markup from data or loads something", uri)
		}
	}
	var prompts struct {
		Prompts []struct {
			Name      string
			Arguments []struct{ Name string }
		}
	}
	d.listed(t, "prompts/list", &prompts)
	values := map[string]string{"prefix": "203.0.113.0/24", "next-hop": "192.0.2.1", "peer": "north", "family": "ipv6/unicast"}
	for _, p := range prompts.Prompts {
		all, few := map[string]string{}, map[string]string{}
		for _, a := range p.Arguments {
			if all[a.Name] = values[a.Name]; a.Name == "prefix" || a.Name == "peer" && p.Name != "announce-and-verify" {
				few[a.Name] = values[a.Name]
			}
		}
		for _, args := range []map[string]string{all, few} {
			raw, err := d.mcp.Do(t.Context(), "prompts/get", p.Name, map[string]any{"name": p.Name, "arguments": args})
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			var got struct {
				Description string
				Messages    []struct {
					Role    string
					Content struct{ Type, Text string }
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil || len(got.Messages) != 1 || got.Messages[0].Content.Type != "text" || got.Description == "" {
				t.Fatalf("%s: %v in %s", p.Name, err, raw)
			}
			text := got.Messages[0].Content.Text
			check("prompt "+p.Name, text)
			for name, value := range args {
				if !strings.Contains(text, value) {
					t.Errorf("prompt %s does not use %s:\n%s", p.Name, name, text)
				}
			}
			if strings.Contains(text, "no value") || strings.Contains(text, "{{") {
				t.Errorf("prompt %s:\n%s", p.Name, text)
			}
		}
	}
	files, err := filepath.Glob("builtin/prompt/*.md")
	if err != nil || len(files) != len(prompts.Prompts) {
		t.Errorf("%d texts, %d prompts, %v", len(files), len(prompts.Prompts), err)
	}
}
