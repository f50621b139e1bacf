package command

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/schema"
)

// New joins a declaration and its implementation.
func New(decl *schema.Command, run Run) *Command {
	return &Command{
		Command: *decl,
		Effect:  Effect(decl.Effect),
		Run:     run,
		path:    strings.Join(decl.Path, " "),
	}
}

// Registry holds every command the daemon can run. Readers see one immutable
// snapshot, so a change never shows half done.
type Registry struct {
	mu    sync.Mutex // serialises writers
	state atomic.Pointer[snapshot]

	around atomic.Pointer[func(*access.Principal) Surroundings] // nil: nothing is known
}

// snapshot is the registry at one moment.
type snapshot struct {
	generation uint64
	replaced   chan struct{} // closed when another snapshot is in force
	commands   []*Command    // sorted by name, hidden ones included
	root       *node
	tools      []*Tool    // sorted by name, for a principal that may do everything
	resources  []Resource // sorted by URI
	prompts    []*Command // sorted by name of the prompt
	views      sync.Map   // access view → *view
}

// node is one word of the command tree.
type node struct {
	children map[string]*node
	command  *Command // nil: only a branch
	selector string   // parameter that may stand inline here, "" if none
	all      []*Command
}

// view is what one kind of principal may see.
type view struct {
	commands  []*Command // sorted by name, without hidden ones
	tools     []*Tool
	byName    map[string]*Tool
	resources []Resource
	prompts   []*Command

	reference atomic.Pointer[encodedReference] // nil until it is asked for
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.state.Store(&snapshot{root: &node{}, replaced: make(chan struct{})})
	return r
}

// Register adds commands. It is all or nothing: a path that exists, or commands
// whose generated tools would clash, leave the registry as it was.
func (r *Registry) Register(commands ...*Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replace(append(slices.Clone(r.state.Load().commands), commands...))
}

// Unregister removes the commands with these names; a name that is not
// registered is left out of account. It is all or nothing: it fails if the tools
// that the remaining commands generate would clash.
func (r *Registry) Unregister(names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replace(slices.DeleteFunc(slices.Clone(r.state.Load().commands), func(c *Command) bool { return slices.Contains(names, c.path) }))
}

// replace makes all the commands. The caller holds r.mu.
func (r *Registry) replace(all []*Command) error {
	slices.SortFunc(all, func(a, b *Command) int { return strings.Compare(a.path, b.path) })
	root, err := buildTree(all)
	if err != nil {
		return err
	}
	tools, err := groupTools(root, all)
	if err != nil {
		return err
	}
	old := r.state.Load()
	next := &snapshot{generation: old.generation + 1, replaced: make(chan struct{}), commands: all, root: root, tools: tools}
	if err := next.collect(); err != nil {
		return err
	}
	r.state.Store(next)
	close(old.replaced)
	return nil
}

func buildTree(commands []*Command) (*node, error) {
	root := &node{}
	for _, c := range commands {
		at := root
		at.all = append(at.all, c)
		for _, w := range c.Path {
			if at.children == nil {
				at.children = make(map[string]*node)
			}
			next := at.children[w]
			if next == nil {
				next = &node{}
				at.children[w] = next
			}
			at = next
			at.all = append(at.all, c)
		}
		if at.command != nil {
			return nil, fmt.Errorf("command %q is registered twice", c.path)
		}
		at.command = c
		for _, p := range c.Input.Params {
			if p.Selector == nil {
				continue
			}
			place := root.at(p.Selector)
			if place == nil || !slices.Contains(place.all, c) || place == at {
				return nil, fmt.Errorf("command %q: parameter %s cannot stand after %q, which is no proper prefix of the command",
					c.path, p.Name, strings.Join(p.Selector, " "))
			}
			if place.selector != "" && place.selector != p.Name {
				return nil, fmt.Errorf("command %q: after %q both %s and %s would stand inline",
					c.path, strings.Join(p.Selector, " "), place.selector, p.Name)
			}
			place.selector = p.Name
		}
	}
	return root, nil
}

// at returns the node below n at path, or nil.
func (n *node) at(path []string) *node {
	for _, w := range path {
		if n = n.children[w]; n == nil {
			return nil
		}
	}
	return n
}

// permitted reports whether p may run some command at or below n.
func (n *node) permitted(p *access.Principal) bool {
	return slices.ContainsFunc(n.all, func(c *Command) bool { return c.permitted(p) })
}

func (c *Command) permitted(p *access.Principal) bool { return p.May(c.path, c.Scope()) }

// Generation moves whenever the set of commands changes.
func (r *Registry) Generation() uint64 { return r.state.Load().generation }

// Changed returns a channel that is closed when the set of commands is no longer
// the present one.
func (r *Registry) Changed() <-chan struct{} { return r.state.Load().replaced }

// Visible returns the commands p may run, sorted by name, without hidden ones.
func (r *Registry) Visible(p *access.Principal) []*Command { return r.state.Load().view(p).commands }

// Find returns the command at path that p may run, hidden or not; nil if there
// is none, or none for p.
func (r *Registry) Find(p *access.Principal, path []string) *Command {
	n := r.state.Load().root.at(path)
	if n == nil || n.command == nil || !n.command.permitted(p) {
		return nil
	}
	return n.command
}

// Match reports whether a command p may run, hidden or not, begins with the words
// of prefix, separated by single spaces. If none does, nearest is what was
// probably meant: the first words of commands p can see, "" if nothing is like it.
func (r *Registry) Match(p *access.Principal, prefix string) (nearest string, matches bool) {
	s := r.state.Load()
	if n := s.root.at(strings.Split(prefix, " ")); n != nil && n.permitted(p) {
		return "", true
	}
	var known []string
	for _, c := range s.view(p).commands {
		for i := range c.Path {
			known = append(known, strings.Join(c.Path[:i+1], " "))
		}
	}
	return schema.Nearest(prefix, known), false
}

// Tools returns the generated tools p may use, sorted by name. A tool's actions
// are those p may run.
func (r *Registry) Tools(p *access.Principal) []*Tool { return r.state.Load().view(p).tools }

// Tool returns the generated tool called name; nil if there is none, or none
// for p.
func (r *Registry) Tool(p *access.Principal, name string) *Tool {
	return r.state.Load().view(p).byName[name]
}

func (s *snapshot) view(p *access.Principal) *view {
	key := p.View()
	if v, ok := s.views.Load(key); ok {
		return v.(*view)
	}
	v := &view{byName: make(map[string]*Tool)}
	for _, c := range s.commands {
		if !c.Hidden && c.permitted(p) {
			v.commands = append(v.commands, c)
		}
	}
	for _, t := range s.tools {
		if t = t.narrow(p); t != nil {
			v.tools = append(v.tools, t)
			v.byName[t.Name] = t
		}
	}
	v.resources, v.prompts = s.readable(p)
	got, _ := s.views.LoadOrStore(key, v)
	return got.(*view)
}
