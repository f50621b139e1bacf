package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func model(t testing.TB) *schema.Node {
	t.Helper()
	set, err := schema.Load([]schema.Source{config.Model()})
	if err != nil {
		t.Fatal(err)
	}
	return set.Data()
}

func parse(t testing.TB, text string) *config.Tree {
	t.Helper()
	tree, err := config.Parse("test.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const example = `environment {
    mcp { enabled true; auth-mode bearer; server main { ip 127.0.0.1; port 8080; } }
    metrics { server main { ip 127.0.0.1; port 9179; } }
}
bgp {
    router-id 192.0.2.7;
    local  { as 64512; }
    listen { ip 127.0.0.1; port 1790; }      # the one BGP listener
    peer north {
        remote { ip 127.0.0.2; port 1790; as 64999 }
        local  { ip 127.0.0.1; }
        timer  { hold 30; }
        family ipv4/unicast { prefix-limit 10000; }
        family ipv6/unicast;
    }
    peer south { remote { ip ::2; as 64998; } password 'a "b"'; passive true }
}
`

// hexEscape is how the golden file writes characters that would not survive it.
var hexEscape = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// TestBroken shows every message to a reviewer: testdata/broken.txtar.
func TestBroken(t *testing.T) {
	root := model(t)
	const golden = "testdata/broken.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.Files) < 60 || len(archive.Files)%2 != 0 {
		t.Fatalf("%d files in %s", len(archive.Files), golden)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		name := archive.Files[i].Name
		text := strings.TrimSuffix(string(archive.Files[i].Data), "<no newline>\n")
		text = hexEscape.ReplaceAllStringFunc(text, func(s string) string {
			b, _ := strconv.ParseUint(s[2:], 16, 8)
			return string(rune(b))
		})
		tree, err := config.Parse(name, []byte(text))
		if err == nil {
			err = config.Validate(tree, root)
		}
		var problems config.Problems
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		got := problems.Render([]byte(text)) + "\n"
		if strings.Contains(name, "secret") && (strings.Contains(got, "hunter2") || strings.Contains(got, "12345")) {
			t.Errorf("%s: a secret is shown:\n%s", name, got)
		}
		if want := string(archive.Files[i+1].Data); !*update && got != want {
			t.Errorf("%s: messages (-want +got):\n%s", name, cmp.Diff(want, got))
		}
		archive.Files[i+1].Data = []byte(got)
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseRefusesSizeAndEncoding(t *testing.T) {
	tests := []struct {
		name string
		text []byte
		want string
	}{
		{"size", bytes.Repeat([]byte("#\n"), config.MaxSize/2+1), "f:1:1: text has 4194306 bytes; at most 4194304 are allowed"},
		{"encoding", []byte("# é\nbgp { \xff }"), "f:2:7: text is not valid UTF-8"},
		{"truncated character", []byte("# \xc3"), "f:1:3: text is not valid UTF-8"},
	}
	for _, test := range tests {
		if _, err := config.Parse("f", test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
	if _, err := config.Parse("f", bytes.Repeat([]byte("#\n"), config.MaxSize/2)); err != nil {
		t.Errorf("a text of the largest size: %v", err)
	}
	deepest := strings.Repeat("a { ", config.MaxDepth) + strings.Repeat("} ", config.MaxDepth)
	if _, err := config.Parse("f", []byte(deepest)); err != nil {
		t.Errorf("the deepest text: %v", err)
	}
	if _, err := config.Parse("f", []byte("# � is a valid character\n")); err != nil {
		t.Errorf("U+FFFD in valid UTF-8: %v", err)
	}
}

func TestJSON(t *testing.T) {
	got, err := parse(t, example).JSON(model(t))
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Environment any
		BGP         bgp.Config
	}
	if err := json.Unmarshal(got, &c); err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddr
	want := bgp.Config{
		RouterID: addr("192.0.2.7"),
		Local:    bgp.LocalConfig{AS: 64512},
		Listen:   bgp.ListenConfig{IP: addr("127.0.0.1"), Port: 1790},
		Peers: []bgp.PeerConfig{{
			Name:     "north",
			Remote:   bgp.RemoteConfig{IP: addr("127.0.0.2"), Port: 1790, AS: 64999},
			Local:    bgp.LocalConfig{IP: addr("127.0.0.1")},
			Timer:    bgp.TimerConfig{Hold: 30, ConnectRetry: 5},
			Families: []bgp.FamilyConfig{{Name: bgp.IPv4Unicast, PrefixLimit: 10000}, {Name: bgp.IPv6Unicast}},
		}, {
			Name:     "south",
			Remote:   bgp.RemoteConfig{IP: addr("::2"), Port: 179, AS: 64998},
			Password: `a "b"`,
			Passive:  true,
			Timer:    bgp.TimerConfig{Hold: 90, ConnectRetry: 5},
		}},
	}
	if diff := cmp.Diff(want, c.BGP, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("bgp (-want +got):\n%s", diff)
	}
	server := func(port float64) any {
		return []any{map[string]any{"name": "main", "ip": "127.0.0.1", "port": port}}
	}
	environment := map[string]any{
		"audit": map[string]any{"max-records": 1e6, "retention-days": 365.0},
		"mcp": map[string]any{"enabled": true, "auth-mode": "bearer", "bind-remote": false, "server": server(8080),
			"limit": map[string]any{"rate": 1000.0, "burst": 2000.0, "concurrent": 64.0}},
		"metrics": map[string]any{"enabled": true, "server": server(9179)},
		"log":     map[string]any{"level": "info"},
		"task":    map[string]any{"running": 8.0, "kept": 128.0, "ttl": 14400.0, "deadline": 7200.0, "poll": 1.0},
	}
	if diff := cmp.Diff(any(environment), c.Environment); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestJSONOfNothing(t *testing.T) {
	got, err := parse(t, "").JSON(model(t))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"environment":{"audit":{"max-records":1000000,"retention-days":365},"log":{"level":"info"},` +
		`"mcp":{"auth-mode":"bearer","bind-remote":false,"enabled":false,"limit":{"burst":2000,"concurrent":64,"rate":1000}},"metrics":{"enabled":true},"task":{"deadline":7200,"kept":128,"poll":1,"running":8,"ttl":14400}}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJSONRefusesWhatValidateRefuses(t *testing.T) {
	var problems config.Problems
	if _, err := parse(t, "bgp { }").JSON(model(t)); !errors.As(err, &problems) || problems[0].Path != "bgp/router-id" {
		t.Errorf("error is %v", err)
	}
}

// The JSON of a valid text is valid by the JSON Schema of the same model.
func TestJSONFollowsTheSchema(t *testing.T) {
	root := model(t)
	text, err := parse(t, example).JSON(root)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	if problems := (&schema.Object{Params: root.Children}).Check(v); problems != nil {
		t.Errorf("problems: %v", problems)
	}
}

func TestEveryTypeOfValue(t *testing.T) {
	set, err := schema.Load([]schema.Source{{Name: "m.yang", Text: []byte(`module m { yang-version 1.1; namespace "urn:m"; prefix m;
container c {
  leaf flag { type empty; }
  leaf on { type boolean; }
  leaf rate { type decimal64 { fraction-digits 1; } }
  leaf limit { type union { type uint32; type enumeration { enum none; } } }
  leaf-list words { type string; min-elements 1; max-elements 3; }
  leaf-list none { type string; }
  list item { key id; max-elements 2; leaf id { type uint8; mandatory true; } leaf text { type string; } }
} }`)}})
	if err != nil {
		t.Fatal(err)
	}
	valid := `c { flag; on false; rate 1.5; limit none; words "a b"; none [ ]; item 7; item 8 { text "\n\t\\\"\'" } }`
	got, err := parse(t, valid).JSON(set.Data())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"c":{"flag":true,"item":[{"id":7},{"id":8,"text":"\n\t\\\"'"}],"limit":"none","none":[],"on":false,"rate":1.5,"words":["a b"]}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for text, want := range map[string]string{
		"c { words a; flag true; }":                  "f:1:19: c/flag: takes no value; allowed: flag;",
		"c { words a; flag { } }":                    "f:1:14: c/flag: takes a value, not a block; allowed: flag;",
		"c { words [ a b c d ]; }":                   "f:1:5: c/words: has 4 values; allowed: 1..3 values",
		"c { words [ ]; }":                           "f:1:5: c/words: has 0 values; allowed: 1..3 values",
		"":                                           "f:1:1: c: is required; allowed: c { words …; }",
		"c { words a; item 1; item 2; item 3; }":     "f:1:1: c/item: has 3 entries; allowed: at most 2 entries",
		"c { words a; item 256; }":                   "f:1:19: c/item: 256 is out of range; allowed: an integer 0..255",
		"c { words a; limit many; }":                 "f:1:20: c/limit: \"many\" has none of the allowed forms; allowed: an integer 0..4294967295 or none",
		"c { words a; on; }":                         "f:1:14: c/on: has no value; allowed: true or false",
		"c { words a; item 1 { id 1; } item 1 { } }": "f:1:23: c/item[1]/id: is the key and stands before the block; allowed: item ID { … }\nf:1:31: c/item[1]: is written twice; the first one is at 1:14",
	} {
		tree, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := config.Validate(tree, set.Data()); err == nil || err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestPos(t *testing.T) {
	tree := parse(t, example)
	for path, want := range map[string]string{
		"bgp":                             "5:1",
		"bgp/router-id":                   "6:5",
		"bgp/peer[north]":                 "9:5",
		"bgp/peer[north]/remote/as":       "10:43",
		"bgp/peer[south]/remote/as":       "16:35",
		"bgp/peer[north]/password":        "9:5",  // not written: its peer
		"bgp/peer[north]/timer/retry/x/y": "12:9", // not written: its timer
		"bgp/peer[north]/family[ipv6/unicast]/prefix-limit": "14:9",
		"bgp/peer[north]/family[ipv4/unicast]/prefix-limit": "13:31",
		"bgp/peer":        "9:5", // the list: its first entry
		"bgp/peer[west]":  "5:1",
		"bgp/rout":        "5:1",
		"":                "none",
		"nothing/of/this": "none",
	} {
		got := "none"
		if line, col, ok := tree.Pos(path); ok {
			got = strconv.Itoa(line) + ":" + strconv.Itoa(col)
		} else if line != 1 || col != 1 {
			t.Errorf("%s: %d:%d without ok", path, line, col)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// A line with a secret is not shown, whatever else is wrong on it.
func TestProblemOfAnotherRoom(t *testing.T) {
	root := model(t)
	tree := parse(t, example)
	for path, want := range map[string]string{
		"bgp/peer[north]/remote/ip": "test.conf:10:18: bgp/peer[north]/remote/ip: m; allowed: a\n            remote { ip 127.0.0.2; port 1790; as 64999 }\n                     ^",
		"bgp/peer[south]/remote/ip": "test.conf:16:27: bgp/peer[south]/remote/ip: m; allowed: a",
	} {
		if got := (config.Problems{tree.Problem(root, path, "m", "a")}).Render([]byte(example)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
		}
	}
}

func TestManyProblems(t *testing.T) {
	tree := parse(t, strings.Repeat("x;\n", 5000))
	err := config.Validate(tree, model(t))
	var problems config.Problems
	if !errors.As(err, &problems) || len(problems) != 1000 {
		t.Fatalf("%d problems, want 1000", len(problems))
	}
	if text := err.Error(); strings.Count(text, "\n") != 50 || !strings.HasSuffix(text, "\nand 950 more problems") {
		t.Errorf("message has %d lines and ends in %q", strings.Count(text, "\n")+1, text[len(text)-30:])
	}
}

// A long key around many statements must not cost its length for each of them.
func TestLongKey(t *testing.T) {
	text := "bgp { peer " + strings.Repeat("k", 1<<16) + " {" + strings.Repeat("\nx;", 1<<10) + "\n} }"
	err := config.Validate(parse(t, text), model(t))
	if err == nil || len(err.Error()) > 1<<16 {
		t.Errorf("message of %d bytes", len(err.Error()))
	}
}

func TestModelDescribesEveryNode(t *testing.T) {
	var visit func(nodes []*schema.Node, path string)
	visit = func(nodes []*schema.Node, path string) {
		for _, n := range nodes {
			if n.Description == "" {
				t.Errorf("%s/%s has no description", path, n.Name)
			}
			visit(n.Children, path+"/"+n.Name)
		}
	}
	visit(model(t).Children, "")
	secrets := []string{}
	var find func(nodes []*schema.Node, path string)
	find = func(nodes []*schema.Node, path string) {
		for _, n := range nodes {
			if n.Sensitive {
				secrets = append(secrets, path+n.Name)
			}
			find(n.Children, path+n.Name+"/")
		}
	}
	find(model(t).Children, "")
	if diff := cmp.Diff([]string{"environment/mcp/token", "environment/mcp/identity/token", "bgp/peer/password"}, secrets); diff != "" {
		t.Errorf("sensitive leaves (-want +got):\n%s", diff)
	}
}
