package schema

import (
	"slices"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// extensionParents says which statements each extension may stand in, and
// whether more than once.
func extensionParents(name string) (parents []string, repeat, known bool) {
	switch name {
	case "command", "effect", "scope", "hidden", "offline", "outside", "repair", "store-first", "task", "idempotent", "ui-resource",
		"resource", "updated-on", "prompt":
		return []string{"rpc"}, false, true
	case "example":
		return []string{"rpc", "leaf", "leaf-list"}, true, true
	case "positional", "sensitive", "hashed", "file", "path":
		return []string{"leaf", "leaf-list"}, false, true
	case "complete":
		return []string{"leaf", "leaf-list"}, false, true
	case "selector", "header":
		return []string{"leaf"}, false, true
	case "allowed":
		return []string{"typedef", "leaf", "leaf-list"}, false, true
	}
	return nil, false, false
}

// extensionUse checks where an extension statement stands and how often.
func (l *loader) extensionUse(parent, s *yang.Statement, owner *yang.Module, name string) {
	if owner == nil || owner.Name != extensionsModule {
		l.errorf(s, "unknown extension %s; import %s and use what it declares", s.Keyword, extensionsModule)
		return
	}
	parents, repeat, known := extensionParents(name)
	if !known {
		l.errorf(s, "unknown extension %s", s.Keyword)
		return
	}
	if !slices.Contains(parents, parent.Keyword) {
		l.errorf(s, "%s is not allowed in %s; allowed in %s", s.Keyword, parent.Keyword, orList(parents))
	}
	if !repeat && firstOf(parent, s.Keyword) != s {
		l.errorf(s, "%s is given more than once", s.Keyword)
	}
	takesArgument := !slices.Contains([]string{"hidden", "offline", "outside", "repair", "store-first", "idempotent", "positional", "sensitive", "hashed", "file", "path"}, name)
	switch {
	case takesArgument && strings.TrimSpace(s.Argument) == "":
		l.errorf(s, "%s needs an argument", s.Keyword)
	case !takesArgument && s.HasArgument:
		l.errorf(s, "%s takes no argument", s.Keyword)
	}
}

func firstOf(parent *yang.Statement, keyword string) *yang.Statement {
	for _, s := range parent.SubStatements() {
		if s.Keyword == keyword {
			return s
		}
	}
	return nil
}

// extensions returns the extension statements of s by name, in their order.
func extensions(s *yang.Statement) map[string][]*yang.Statement {
	found := map[string][]*yang.Statement{}
	for _, sub := range s.SubStatements() {
		if _, name, ok := strings.Cut(sub.Keyword, ":"); ok {
			found[name] = append(found[name], sub)
		}
	}
	return found
}

func arguments(statements []*yang.Statement) []string {
	var texts []string
	for _, s := range statements {
		texts = append(texts, s.Argument)
	}
	return texts
}

func argument(statements []*yang.Statement) string {
	if len(statements) == 0 {
		return ""
	}
	return statements[0].Argument
}

// rpc adds the command that r declares. An rpc without ze:command is none.
func (l *loader) rpc(m *yang.Module, r *yang.RPC) {
	ext := extensions(r.Source)
	if len(ext["command"]) == 0 {
		l.errorf(r.Source, "rpc %s has no ze:command", r.Name)
		return
	}
	c := &Command{
		Module:     m.Name,
		RPC:        r.Name,
		Path:       strings.Fields(argument(ext["command"])),
		Effect:     argument(ext["effect"]),
		Scope:      argument(ext["scope"]),
		Examples:   arguments(ext["example"]),
		Hidden:     len(ext["hidden"]) > 0,
		Offline:    len(ext["offline"]) > 0,
		Outside:    len(ext["outside"]) > 0,
		Repair:     len(ext["repair"]) > 0,
		StoreFirst: len(ext["store-first"]) > 0,
		Idempotent: len(ext["idempotent"]) > 0,
		Task:       argument(ext["task"]),
		UIResource: argument(ext["ui-resource"]),
		Resource:   argument(ext["resource"]),
		UpdatedOn:  append([]string(nil), strings.Fields(argument(ext["updated-on"]))...),
		Prompt:     argument(ext["prompt"]),
		Input:      &Object{},
		Output:     &Object{},
	}
	if r.Description != nil {
		c.Description = oneLine(r.Description.Name)
	}
	if r.Input != nil {
		c.Input.Params = l.children(r.Input, true)
		l.parameters(c.Input.Params)
	}
	if r.Output != nil {
		c.Output.Params = l.children(r.Output, true)
		l.noParameters(c.Output.Params)
	}
	l.complete(c, r, ext)
	l.set.commands = append(l.set.commands, c)
}

// complete holds a command to what every command must say.
func (l *loader) complete(c *Command, r *yang.RPC, ext map[string][]*yang.Statement) {
	require := func(has bool, what string) {
		if !has {
			l.errorf(r.Source, "rpc %s has no %s", r.Name, what)
		}
	}
	require(c.Effect != "", "ze:effect")
	require(c.Description != "", "description")
	require(len(c.Examples) > 0, "ze:example")
	require(r.Output != nil, "output")
	oneOf := func(name string, allowed ...string) {
		if s := ext[name]; len(s) > 0 && !slices.Contains(allowed, s[0].Argument) {
			l.errorf(s[0], "unknown %s %q; allowed: %s", s[0].Keyword, s[0].Argument, orList(allowed))
		}
	}
	oneOf("effect", "read", "change", "destroy")
	oneOf("scope", "read", "write", "admin")
	if s := ext["store-first"]; len(s) > 0 && (c.Offline || c.Effect == "read") {
		l.errorf(s[0], "%s is for commands that change the store and then something else", s[0].Keyword)
	}
	if s := ext["outside"]; len(s) > 0 && !c.Offline {
		l.errorf(s[0], "%s is for commands that are ze:offline", s[0].Keyword)
	}
	oneOf("task", "optional", "required", "forbidden")
	if s := ext["ui-resource"]; len(s) > 0 && !strings.HasPrefix(s[0].Argument, "ui://") {
		l.errorf(s[0], "ze:ui-resource %q is not a ui:// address", s[0].Argument)
	}
	l.readable(c, ext)
	for _, word := range c.Path {
		if !isWord(word) {
			l.errorf(ext["command"][0], "word %q of ze:command is not lower-case letters, digits and dashes", word)
		}
	}
	path := strings.Join(c.Path, " ")
	if first := l.paths[path]; first != nil {
		l.errorf(ext["command"][0], "command %q is declared at %s, too", path, first.Location())
	} else {
		l.paths[path] = ext["command"][0]
	}
}

// parameters checks the extensions that make sense for parameters only.
func (l *loader) parameters(params []*Node) {
	headers := map[string]string{}
	var visit func(nodes []*Node, depth int, inList bool)
	visit = func(nodes []*Node, depth int, inList bool) {
		for _, n := range nodes {
			if depth > 0 && (n.Positional || n.Selector != nil) {
				l.errorf(l.at[n], "%s is inside another parameter and cannot be ze:positional or ze:selector", n.Name)
			}
			if n.Header != "" {
				key := strings.ToLower(n.Header)
				switch {
				case inList:
					l.errorf(l.at[n], "%s is inside a list and cannot have ze:header", n.Name)
				case headers[key] != "":
					l.errorf(l.at[n], "%s and %s have the same ze:header %s", headers[key], n.Name, n.Header)
				}
				headers[key] = n.Name
			}
			if n.Max == 0 && (n.Kind == List || n.Kind == LeafList) {
				n.Max = DefaultMax
			}
			visit(n.Children, depth+1, inList || n.Kind == List)
		}
	}
	visit(params, 0, false)
	positional := slices.DeleteFunc(slices.Clone(params), func(n *Node) bool { return !n.Positional })
	for i, n := range positional {
		if n.Kind == LeafList && i < len(positional)-1 {
			l.errorf(l.at[n], "%s takes every bare word, so %s after it cannot be ze:positional", n.Name, positional[i+1].Name)
		}
	}
}

// noParameters refuses them everywhere else.
func (l *loader) noParameters(nodes []*Node) {
	for _, n := range nodes {
		if n.Positional || n.Selector != nil || n.Header != "" || n.Complete != nil {
			l.errorf(l.at[n], "%s is no parameter: ze:positional, ze:selector, ze:header and ze:complete belong in an rpc's input", n.Name)
		}
		l.noParameters(n.Children)
	}
}

// DefaultMax is how many elements a list parameter takes when its declaration
// does not say: a caller must not be able to ask for memory without bound.
const DefaultMax = 1000

// isWord reports whether s can be a word of a command's path.
func isWord(s string) bool {
	return s != "" && s[0] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// IsToken reports whether s is an HTTP token (RFC 9110 section 5.6.2).
func IsToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// oneLine joins the lines of a YANG string.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
