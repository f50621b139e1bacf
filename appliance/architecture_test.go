package appliance_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "ze.internal/ze"

// pkg is what go list says about one package.
type pkg struct {
	ImportPath   string
	Dir          string
	Name         string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string]pkg{}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")] = p
	}
	if len(all) < 15 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// rooms says which rooms of this module each room may import. A room that is
// not named here has no place in the house.
var rooms = map[string]struct {
	reason string
	may    []string
}{
	"appliance/access":        {"identity is below everything that needs it", nil},
	"appliance/audit":         {"the record of calls knows no call", nil},
	"appliance/event":         {"what happened is told without knowing who asks", nil},
	"appliance/schema":        {"YANG is turned into types for everybody above", nil},
	"appliance/process":       {"a supervisor knows nothing of what it runs", nil},
	"appliance/command":       {"the one door knows identity, audit and schemas, and no command or surface", []string{"appliance/access", "appliance/audit", "appliance/schema"}},
	"appliance/config":        {"the language knows its model and nothing that uses it", []string{"appliance/schema"}},
	"appliance/bgp":           {"announcements are ours; the engine is behind an interface", []string{"appliance/schema"}},
	"appliance/bgp/speaker":   {"the engine's host knows the types of bgp and how to run a process", []string{"appliance/bgp", "appliance/process"}},
	"appliance/bgp/birdtest":  {"a real peer for tests knows nothing of us", nil},
	"appliance/task":          {"long work goes through the one door and knows no surface", []string{"appliance/access", "appliance/command", "appliance/event", "appliance/schema"}},
	"appliance/builtin":       {"commands act on rooms through interfaces of their own", []string{"appliance/access", "appliance/audit", "appliance/bgp", "appliance/command", "appliance/config", "appliance/event", "appliance/schema", "appliance/task"}},
	"appliance/rest":          {"a surface knows the dispatcher and who calls", []string{"appliance/access", "appliance/command"}},
	"mcp":                     {"a surface knows the dispatcher and who calls", []string{"appliance/access", "appliance/command", "appliance/event", "appliance/schema", "appliance/task"}},
	"mcp/client":              {"a client knows the wire and nothing of the server", nil},
	"mcp/stdio":               {"the pipes to a host are translated without knowing what is behind", nil},
	"appliance/appliancetest": {"what tests need of a daemon is made as a program would", []string{"appliance", "appliance/access", "store"}},
	"appliance/outputtest":    {"what reads output knows nothing of who writes it", nil},
	"cmd/scripttest":          {"what test scripts say knows nothing of the programs", nil},
	"appliance/place":         {"where things are is below everything that looks for them", nil},
	"store":                   {"the database implements what the domain rooms declare", []string{"appliance/access", "appliance/audit", "appliance/bgp", "appliance/config", "appliance/task"}},
	"packaging/test":          {"what is packaged is held against the world from outside", nil},
	"packaging/manual":        {"a manual is written from a tree of commands, whoever's it is", nil},
	"systemd":                 {"the service manager knows nothing of us", nil},
	"appliance": {"the wiring knows every room", []string{"appliance/access", "appliance/audit", "appliance/bgp", "appliance/bgp/speaker", "appliance/builtin",
		"appliance/command", "appliance/config", "appliance/event", "appliance/rest", "appliance/schema", "appliance/task", "mcp", "store"}},
	"cmd/ze": {"the command line hands over to the daemon or talks to it", []string{"appliance", "appliance/access", "appliance/bgp", "appliance/bgp/speaker",
		"appliance/builtin", "appliance/command", "appliance/config", "appliance/place", "appliance/schema", "mcp", "mcp/client", "packaging/manual", "store", "systemd"}},
	"cmd/ze-test": {"a tester sees the server from outside, as its callers do", []string{"appliance/access", "cmd/ze-test/conformance", "mcp/client", "packaging/manual"}},
	"cmd/ze-test/conformance": {"the fixtures are commands on what the daemon is made of", []string{"appliance/access", "appliance/audit", "appliance/command",
		"appliance/event", "appliance/schema", "appliance/task", "mcp", "store"}},
	"cmd/ze-mcp": {"the pipes end at the daemon, wherever that is", []string{"appliance/place", "mcp/client", "mcp/stdio", "packaging/manual"}},
}

// TestRooms holds the directions between rooms.
func TestRooms(t *testing.T) {
	for name, p := range packages(t) {
		room, ok := rooms[name]
		if !ok {
			t.Errorf("%s is no room of the house; say in this test what it may import and why", name)
			continue
		}
		for _, imp := range p.Imports {
			other, ours := strings.CutPrefix(imp, module+"/")
			if ours && !slices.Contains(room.may, other) {
				t.Errorf("%s imports %s, but %s", name, other, room.reason)
			}
		}
	}
}

// guarded are packages that only some rooms may import.
var guarded = []struct {
	prefix string
	rooms  []string
	reason string
}{
	{"go.etcd.io/bbolt", []string{"store"}, "one room owns the file and its safety"},
	{"github.com/osrg/gobgp", []string{"appliance/bgp/speaker"}, "the BGP library can end the process that hosts it"},
	{"github.com/openconfig/goyang", []string{"appliance/schema"}, "one room reads YANG"},
	{"github.com/modelcontextprotocol/go-sdk", nil, "the MCP server is ours; the SDK is a client for tests"},
	{"os/exec", []string{"appliance/process", "appliance/bgp/birdtest", "cmd/scripttest", "cmd/ze"}, "one room starts processes and ends them; birdtest and scripttest are for tests"},
	{"github.com/coreos/go-systemd", []string{"systemd"}, "one room talks to the service manager"},
	{"github.com/spf13/cobra", []string{"cmd/ze", "cmd/ze-mcp", "cmd/ze-test", "packaging/manual"}, "only a program reads flags, and the manual tells of them"},
	{"flag", nil, "only a program reads flags, and ours uses cobra"},
	{"os/signal", []string{"cmd/ze", "cmd/ze-mcp", "cmd/ze-test"}, "only a program handles signals"},
}

// TestGuardedImports holds who may use which library.
func TestGuardedImports(t *testing.T) {
	for name, p := range packages(t) {
		for _, imp := range p.Imports {
			for _, g := range guarded {
				if (imp == g.prefix || strings.HasPrefix(imp, g.prefix+"/")) && !slices.Contains(g.rooms, name) {
					t.Errorf("%s imports %s, but %s", name, imp, g.reason)
				}
			}
		}
	}
}

// TestOnlyPackages: helpers for tests never reach a program.
func TestOnlyPackages(t *testing.T) {
	for name, p := range packages(t) {
		for _, imp := range p.Imports {
			if imp == "testing" && !strings.HasSuffix(name, "test") || strings.HasSuffix(imp, "/birdtest") {
				t.Errorf("%s imports %s outside its tests", name, imp)
			}
		}
	}
}

// TestPackageComments: every package says its job, once.
func TestPackageComments(t *testing.T) {
	for name, p := range packages(t) {
		var documented []string
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil && strings.HasPrefix(f.Doc.Text(), map[bool]string{true: "Command ", false: "Package "}[p.Name == "main"]) {
				documented = append(documented, file)
			}
		}
		if len(documented) != 1 {
			t.Errorf("%s: the package comment stands in %v, it belongs in exactly one file", name, documented)
		}
	}
}

// TestExportedComments: every exported name says what it is.
func TestExportedComments(t *testing.T) {
	for name, p := range packages(t) {
		for _, file := range p.GoFiles {
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, ident := range undocumented(f) {
				t.Errorf("%s: %s has no comment (%s)", name, ident.Name, files.Position(ident.Pos()))
			}
		}
	}
}

// undocumented returns the exported names of a file's top level without a
// comment. One comment serves a whole group of constants or variables.
func undocumented(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	add := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if id.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }) {
			out = append(out, id)
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || exportedReceiver(d.Recv.List[0].Type) {
				add(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name, d.Doc, s.Doc)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id, d.Doc, s.Doc, s.Comment)
					}
				}
			}
		}
	}
	return out
}

func exportedReceiver(t ast.Expr) bool {
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}
