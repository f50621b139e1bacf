package appliance_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// tool returns the text that a tool answers to the token's owner.
func (d *daemon) tool(t *testing.T, secret, name string, args any) string {
	t.Helper()
	r, err := d.as(t, secret).CallTool(t.Context(), name, args, nil)
	if err != nil || r.IsError {
		t.Fatalf("%s %v: %v, %+v", name, args, err, r)
	}
	return r.Text()
}

// controlReference returns the reference as the command line reads it.
func (d *daemon) controlReference(t *testing.T) string {
	t.Helper()
	socket := strings.TrimPrefix(d.url(t, "control"), "http://")
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	resp, err := hc.Get("http://localhost/api/v1/commands")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return strings.TrimSuffix(string(readAll(t, resp)), "\n")
}

func decodeReference(t *testing.T, text string) (ref command.Reference) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &ref); err != nil {
		t.Fatal(err)
	}
	return ref
}

// TestReferenceIsOne: the tool, the command line and the resource tell the same,
// octet for octet, and again; without a daemon only its services are missing.
func TestReferenceIsOne(t *testing.T) {
	l := newLab(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	whole := d.tool(t, d.admin, "ze_reference", nil)
	if again := d.tool(t, d.admin, "ze_reference", map[string]any{}); again != whole {
		t.Error("a second time the tool tells something else")
	}
	if cli := d.controlReference(t); cli != whole {
		t.Errorf("the command line has\n%s\nthe tool\n%s", cli, whole)
	}
	raw, err := d.mcp.Do(t.Context(), "resources/read", "ze://reference", map[string]any{"uri": "ze://reference"})
	if err != nil {
		t.Fatal(err)
	}
	var resource struct{ Contents []struct{ Text string } }
	if err := json.Unmarshal(raw, &resource); err != nil || len(resource.Contents) != 1 || resource.Contents[0].Text != whole {
		t.Errorf("the resource is %s, %v", raw, err)
	}
	ref := decodeReference(t, whole)
	if len(ref.Commands) < 40 || len(ref.RPC) != len(ref.Commands) || len(ref.DispatchKeys) != len(ref.Commands) || len(ref.Tools) < 10 {
		t.Errorf("%d commands, %d endpoints, %d dispatch keys, %d tools", len(ref.Commands), len(ref.RPC), len(ref.DispatchKeys), len(ref.Tools))
	}
	if i := slices.IndexFunc(ref.RPC, func(e command.EndpointReference) bool { return e.Method == "ze-show:bgp-rib-sent" }); i < 0 ||
		ref.RPC[i].Path != "show/bgp/rib/sent" || !ref.RPC[i].ReadOnly || ref.DispatchKeys["ze-show:bgp-rib-sent"] != "show bgp rib sent" {
		t.Errorf("endpoints: %+v", ref.RPC)
	}
	if !slices.Equal(ref.Families, []string{"ipv4/unicast", "ipv6/unicast"}) {
		t.Errorf("families %q", ref.Families)
	}
	want := []command.ServiceReference{{Name: "bgp", Address: l.ours.String(), Protocol: "bgp"}}
	for _, name := range []string{"control", "mcp", "metrics"} {
		protocol := "http"
		if name == "control" {
			protocol = "http+unix"
		}
		want = append(want, command.ServiceReference{Name: name, Address: strings.TrimPrefix(d.url(t, name), "http://"), Protocol: protocol})
	}
	if !slices.Equal(ref.Services, want) {
		t.Errorf("services %+v, want %+v", ref.Services, want)
	}
	for _, section := range command.Sections() {
		var part, all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(d.tool(t, d.admin, "ze_reference", map[string]string{"section": section})), &part); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(whole), &all); err != nil {
			t.Fatal(err)
		}
		if len(part) != 1 || string(part[section]) != string(all[section]) {
			t.Errorf("section %s is %s", section, part)
		}
	}
	alone, err := appliance.Reference()
	if err != nil {
		t.Fatal(err)
	}
	running, err := command.Section(json.RawMessage(whole), "services")
	if err != nil {
		t.Fatal(err)
	}
	services := strings.TrimSuffix(strings.TrimPrefix(string(running), "{"), "}")
	if want := strings.Replace(whole, services, `"services":[]`, 1); string(alone) != want {
		t.Errorf("without a daemon it is\n%s\nwant\n%s", alone, want)
	}
}

// TestReferenceOfANarrowToken: who may do little learns of little.
func TestReferenceOfANarrowToken(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var narrow, reader bearer
	d.execute(t, "token create narrow allow [ 'show version' 'show schema' ]", &narrow)
	d.execute(t, "token create reader scope read", &reader)
	ref := decodeReference(t, d.tool(t, narrow.Secret, "ze_reference", nil))
	var names []string
	for _, c := range ref.Commands {
		names = append(names, c.Name)
	}
	if want := []string{"show schema command", "show schema list", "show schema module", "show version"}; !slices.Equal(names, want) ||
		len(ref.RPC) != len(want) || len(ref.DispatchKeys) != len(want) || len(ref.Services) > 0 {
		t.Errorf("a narrow token is told %+v", ref)
	}
	if text := d.tool(t, reader.Secret, "ze_reference", nil); strings.Contains(text, "teardown") || !strings.Contains(text, `"name":"mcp"`) {
		t.Errorf("a reader is told %s", text)
	}

	var modules struct {
		Modules []struct {
			Name     string
			Commands []string
		}
	}
	if err := json.Unmarshal([]byte(d.tool(t, narrow.Secret, "ze_show_schema", map[string]string{"action": "list"})), &modules); err != nil {
		t.Fatal(err)
	}
	names = nil
	for _, m := range modules.Modules {
		names = append(names, m.Name)
		if m.Name == "ze-system" && !slices.Equal(m.Commands, []string{"show version"}) {
			t.Errorf("of %s it is told %q", m.Name, m.Commands)
		}
	}
	if want := []string{"ze-config", "ze-extensions", "ze-reference", "ze-system", "ze-types"}; !slices.Equal(names, want) {
		t.Errorf("a narrow token is told of the modules %q, want %q", names, want)
	}
	module := func(secret, name string) string {
		return d.tool(t, secret, "ze_show_schema", map[string]string{"action": "module", "module": name})
	}
	if text := module(narrow.Secret, "ze-system"); !strings.Contains(text, "show version") || strings.Contains(text, "uptime") {
		t.Errorf("a narrow token is told %s", text)
	}
	if text := module(reader.Secret, "ze-reference"); strings.Contains(text, "show-reference") || !strings.Contains(text, "show-schema-list") {
		t.Errorf("the hidden command is shown: %s", text)
	}
	for _, line := range []string{"show schema module ze-bgp", "show schema command show bgp", "show schema command show reference"} {
		if r, err := d.as(t, narrow.Secret).CallTool(t.Context(), "ze_execute", map[string]string{"command": line}, nil); err != nil ||
			!r.IsError || !strings.Contains(r.Text(), `"not-found"`) {
			t.Errorf("%s: %v, %+v", line, err, r)
		}
	}
}

// TestSchemaOfEveryCommand: the schemas that are shown are those that hold, and
// what stands in the modules is what is loaded.
func TestSchemaOfEveryCommand(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range set.Commands() {
		if c.Hidden {
			continue
		}
		var got struct {
			Name          string
			Input, Output json.RawMessage
		}
		d.execute(t, "show schema command "+strings.Join(c.Path, " "), &got)
		if got.Name != strings.Join(c.Path, " ") || string(got.Input) != string(c.Input.JSONSchema()) || string(got.Output) != string(c.Output.JSONSchema()) {
			t.Errorf("%v: %s takes %s and answers %s", c.Path, got.Name, got.Input, got.Output)
		}
	}
	for _, m := range builtin.Models() {
		name := strings.TrimSuffix(m.Name, ".yang")
		if slices.Contains([]string{"prompt", "reference"}, name) { // hold hidden commands
			continue
		}
		modules, err := schema.Modules([]schema.Source{m})
		if err != nil {
			t.Fatal(err)
		}
		for _, mod := range modules {
			var got struct{ Text string }
			d.execute(t, "show schema module "+mod.Name, &got)
			if want := mod.Text(func([]string) bool { return true }); got.Text != want {
				t.Errorf("%s is shown as %s", mod.Name, got.Text)
			}
		}
	}
}

// TestInstructions: every tool, action, command, resource, prompt and method that
// the instructions name is there, and they are short.
func TestInstructions(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var discovered struct {
		Instructions string
		Capabilities map[string]json.RawMessage
	}
	d.listed(t, "server/discover", &discovered)
	text := discovered.Instructions
	if len(text) > 2000 {
		t.Errorf("%d bytes of instructions", len(text))
	}
	var tools struct {
		Tools []struct {
			Name        string
			InputSchema struct {
				Properties struct{ Action struct{ Enum []string } }
			}
		}
	}
	d.listed(t, "tools/list", &tools)
	var templates struct {
		ResourceTemplates []struct{ URITemplate string }
	}
	d.listed(t, "resources/templates/list", &templates)
	var resources struct{ Resources []struct{ URI string } }
	d.listed(t, "resources/list", &resources)
	var prompts struct{ Prompts []struct{ Name string } }
	d.listed(t, "prompts/list", &prompts)
	actions, known := map[string][]string{}, []string{}
	for _, tool := range tools.Tools {
		actions[tool.Name] = tool.InputSchema.Properties.Action.Enum
	}
	for _, r := range resources.Resources {
		known = append(known, r.URI)
	}
	for _, r := range templates.ResourceTemplates {
		known = append(known, r.URITemplate)
	}
	named := 0
	for _, m := range regexp.MustCompile(`(ze_[a-z_]+)(?: \(action ([a-z-]+)\))?`).FindAllStringSubmatch(text, -1) {
		named++
		if have, ok := actions[m[1]]; !ok || m[2] != "" && !slices.Contains(have, m[2]) {
			t.Errorf("there is no %s", m[0])
		}
	}
	for _, uri := range regexp.MustCompile(`ze://[a-z/{}-]+`).FindAllString(text, -1) {
		if named++; !slices.Contains(known, uri) {
			t.Errorf("there is no %s among %q", uri, known)
		}
	}
	list := regexp.MustCompile(`prompts such as ([a-z, -]+) are`).FindStringSubmatch(text)
	if list == nil {
		t.Fatal("no prompts are named")
	}
	for name := range strings.FieldsFuncSeq(strings.ReplaceAll(list[1], " and ", ","), func(r rune) bool { return r == ',' || r == ' ' }) {
		if named++; !slices.ContainsFunc(prompts.Prompts, func(p struct{ Name string }) bool { return p.Name == name }) {
			t.Errorf("there is no prompt %q", name)
		}
	}
	if named < 12 {
		t.Errorf("only %d names were found in %q", named, text)
	}
	d.execute(t, "show bgp", nil) // the example
	if !strings.Contains(string(discovered.Capabilities["extensions"]), "tasks") {
		t.Errorf("instructions speak of tasks, capabilities are %s", discovered.Capabilities)
	}
}
