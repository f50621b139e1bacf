package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// Module is one YANG module as it is written.
type Module struct {
	Name        string
	Revision    string // the newest, YYYY-MM-DD; "" if none is given
	Description string
	Commands    [][]string // paths of the commands it declares, in their order

	text  string
	parts []part // text, cut where an rpc begins or ends
}

// part is a piece of a module's text: one rpc, or what stands between two.
type part struct {
	from, to int
	command  []string // path of the command an rpc declares; nil for everything else
}

// Modules reads modules and the two that this package brings along, sorted by
// name. It checks no more than their syntax: Load does the rest.
func Modules(sources []Source) ([]*Module, error) {
	sources = append([]Source{{extensionsModule + ".yang", extensionsYANG}, {typesModule + ".yang", typesYANG}}, sources...)
	modules := make([]*Module, len(sources))
	for i, s := range sources {
		statements, err := yang.Parse(string(s.Text), s.Name)
		if err == nil && (len(statements) != 1 || statements[0].Keyword != "module") {
			err = fmt.Errorf("%s:1:1: a file must hold one module", s.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("read YANG module: %w", err)
		}
		modules[i] = readModule(statements[0], string(s.Text))
	}
	slices.SortFunc(modules, func(a, b *Module) int { return strings.Compare(a.Name, b.Name) })
	return modules, nil
}

func readModule(s *yang.Statement, text string) *Module {
	m := &Module{Name: s.Argument, text: text}
	subs := s.SubStatements()
	end := 0
	for i, sub := range subs {
		switch sub.Keyword {
		case "revision":
			m.Revision = max(m.Revision, sub.Argument)
		case "description":
			m.Description = oneLine(sub.Argument)
		case "rpc":
			begin, after := offset(text, sub), strings.LastIndexByte(text, '}')
			if i+1 < len(subs) {
				after = offset(text, subs[i+1])
			}
			path := strings.Fields(argument(extensions(sub)["command"]))
			m.Commands = append(m.Commands, path)
			m.parts = append(m.parts, part{from: end, to: begin}, part{from: begin, to: after, command: path})
			end = after
		}
	}
	m.parts = append(m.parts, part{from: end, to: len(text)})
	return m
}

// offset returns where a statement begins.
func offset(text string, s *yang.Statement) int {
	at := strings.Split(s.Location(), ":") // file:line:column, from 1
	line, err := strconv.Atoi(at[len(at)-2])
	column, err2 := strconv.Atoi(at[len(at)-1])
	if err != nil || err2 != nil {
		panic("schema: a statement stands at " + s.Location()) // goyang writes it
	}
	n := 0
	for range line - 1 {
		n += strings.IndexByte(text[n:], '\n') + 1
	}
	return n + column - 1
}

// Text returns the module without the commands that keep refuses.
func (m *Module) Text(keep func(path []string) bool) string {
	var b strings.Builder
	for _, p := range m.parts {
		if p.command == nil || keep(p.command) {
			b.WriteString(m.text[p.from:p.to])
		}
	}
	return b.String()
}
