package schema

import (
	_ "embed" // the two modules every other module imports
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

//go:embed ze-extensions.yang
var extensionsYANG []byte

//go:embed ze-types.yang
var typesYANG []byte

// Names of the modules this package brings along.
const (
	extensionsModule = "ze-extensions"
	typesModule      = "ze-types"
)

// Source is the text of one YANG module.
type Source struct {
	Name string // file name, for messages
	Text []byte
}

// Set is a set of loaded modules. It does not change after Load.
type Set struct {
	commands []*Command
	data     *Node
}

// Commands returns every rpc with a ze:command statement, sorted by path.
func (s *Set) Commands() []*Command { return s.commands }

// Data returns a root whose children are the top-level containers of all
// modules, in the order declared.
func (s *Set) Data() *Node { return s.data }

// Load parses modules that may import each other, ze-extensions and ze-types.
// The error joins everything that is wrong, each with file, line and column.
func Load(sources []Source) (*Set, error) {
	sources = append([]Source{
		{extensionsModule + ".yang", extensionsYANG},
		{typesModule + ".yang", typesYANG},
	}, sources...)
	l := loader{
		modules: yang.NewModules(),
		set:     &Set{data: &Node{Kind: Container, Description: "The whole configuration."}},
		types:   map[*yang.Type]*Type{},
		at:      map[*Node]*yang.Statement{},
		paths:   map[string]*yang.Statement{},
	}
	var loaded []*yang.Module
	for _, s := range sources {
		m, err := l.parse(s)
		if err != nil {
			return nil, fmt.Errorf("parse YANG module: %w", err)
		}
		loaded = append(loaded, m)
	}
	for _, m := range loaded {
		l.imports(m)
		l.supported(m.Source, m)
	}
	if err := l.err(); err != nil {
		return nil, err
	}
	if errs := l.modules.Process(); len(errs) > 0 {
		l.errs = errs
		return nil, l.err()
	}
	for _, m := range loaded {
		l.module(m)
	}
	slices.SortFunc(l.set.commands, func(a, b *Command) int { return slices.Compare(a.Path, b.Path) })
	return l.set, l.err()
}

type loader struct {
	modules *yang.Modules
	set     *Set
	types   map[*yang.Type]*Type
	at      map[*Node]*yang.Statement  // where leaves and leaf-lists are written
	paths   map[string]*yang.Statement // of commands
	errs    []error
}

func (l *loader) err() error {
	if len(l.errs) == 0 {
		return nil
	}
	return fmt.Errorf("load YANG modules: %w", errors.Join(l.errs...))
}

func (l *loader) errorf(at *yang.Statement, format string, args ...any) {
	l.errs = append(l.errs, fmt.Errorf("%s: "+format, append([]any{at.Location()}, args...)...))
}

// parse reads one module. Each file must hold exactly one.
func (l *loader) parse(s Source) (*yang.Module, error) {
	statements, err := yang.Parse(string(s.Text), s.Name)
	if err != nil {
		return nil, err
	}
	if len(statements) != 1 || statements[0].Keyword != "module" {
		return nil, fmt.Errorf("%s:1:1: a file must hold one module", s.Name)
	}
	if err := l.modules.Parse(string(s.Text), s.Name); err != nil {
		return nil, err
	}
	return l.modules.Modules[statements[0].Argument], nil
}

// imports refuses what goyang would look for in the file system.
func (l *loader) imports(m *yang.Module) {
	for _, i := range m.Import {
		if l.modules.Modules[i.Name] == nil {
			l.errorf(i.Source, "module %s is not among the modules loaded", i.Name)
		} else if i.RevisionDate != nil {
			l.errorf(i.RevisionDate.Source, "import by revision is not supported")
		}
	}
	for _, i := range m.Include {
		l.errorf(i.Source, "submodules are not supported")
	}
}

// unsupported are statements that YANG has and this package does not apply.
// Ignoring one would accept what its author meant to refuse.
func unsupported(keyword string) bool {
	switch keyword {
	case "action", "anydata", "anyxml", "augment", "bit", "case", "choice", "config", "deviation", "feature",
		"identity", "if-feature", "modifier", "must", "notification", "refine", "unique", "when":
		return true
	}
	return false
}

// supported walks a module for statements and extensions that have no effect here.
func (l *loader) supported(s *yang.Statement, m *yang.Module) {
	for _, sub := range s.SubStatements() {
		prefix, name, isExtension := strings.Cut(sub.Keyword, ":")
		switch {
		case isExtension:
			l.extensionUse(s, sub, yang.FindModuleByPrefix(m, prefix), name)
		case unsupported(sub.Keyword):
			l.errorf(sub, "statement %s is not supported", sub.Keyword)
		case sub.Keyword == "error-message" && s.Keyword != "pattern":
			l.errorf(sub, "error-message is supported in pattern only; use ze:allowed")
		default:
			l.supported(sub, m)
		}
	}
}

// module adds the containers and commands of m, in the order they are written.
func (l *loader) module(m *yang.Module) {
	containers, rpcs := map[*yang.Statement]*yang.Container{}, map[*yang.Statement]*yang.RPC{}
	for _, c := range m.Container {
		containers[c.Source] = c
	}
	for _, r := range m.RPC {
		rpcs[r.Source] = r
	}
	for _, s := range m.Source.SubStatements() {
		switch s.Keyword {
		case "container":
			n := l.container(containers[s], false)
			l.noParameters(n.Children)
			if l.set.data.Child(n.Name) != nil {
				l.errorf(s, "container %s is declared by another module, too", n.Name)
			}
			l.set.data.Children = append(l.set.data.Children, n)
		case "rpc":
			l.rpc(m, rpcs[s])
		case "leaf", "leaf-list", "list", "uses":
			l.errorf(s, "statement %s is not supported at the top of a module; use a container", s.Keyword)
		}
	}
}
