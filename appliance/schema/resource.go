package schema

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/openconfig/goyang/pkg/yang"
)

// Template is a URI, or a URI template (RFC 6570) whose variables are whole
// segments of the path: ze://peer/{peer}.
type Template struct {
	Text string
	Vars []string // in their order; empty: a plain URI

	re *regexp.Regexp
}

var variable = regexp.MustCompile(`\{([^{}]*)\}`)

// ParseTemplate reads a template.
func ParseTemplate(text string) (*Template, error) {
	t := &Template{Text: text}
	plain := variable.ReplaceAllString(text, "x")
	if u, err := url.Parse(plain); err != nil || u.Scheme == "" || strings.ContainsAny(plain, "{} ") {
		return nil, fmt.Errorf("%q is no URI with variables in braces, as ze://peer/{peer}", text)
	}
	expr, at := "^", 0
	for _, m := range variable.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		switch {
		case !isWord(name):
			return nil, fmt.Errorf("%q: variable %q is not lower-case letters, digits and dashes", text, name)
		case text[m[0]-1] != '/' || m[1] < len(text) && text[m[1]] != '/':
			return nil, fmt.Errorf("%q: variable %s is no whole segment of the path", text, name)
		case slices.Contains(t.Vars, name):
			return nil, fmt.Errorf("%q: variable %s stands there twice", text, name)
		}
		t.Vars = append(t.Vars, name)
		expr += regexp.QuoteMeta(text[at:m[0]]) + "([^/?#]+)"
		at = m[1]
	}
	t.re = regexp.MustCompile(expr + regexp.QuoteMeta(text[at:]) + "$")
	return t, nil
}

// Match returns the variables that make t the URI, decoded.
func (t *Template) Match(uri string) (vars map[string]string, ok bool) {
	found := t.re.FindStringSubmatch(uri)
	if found == nil {
		return nil, false
	}
	vars = make(map[string]string, len(t.Vars))
	for i, name := range t.Vars {
		value, err := url.PathUnescape(found[i+1])
		if err != nil {
			return nil, false
		}
		vars[name] = value
	}
	return vars, true
}

// readable checks what makes a command a resource or a prompt.
func (l *loader) readable(c *Command, ext map[string][]*yang.Statement) {
	for _, name := range []string{"resource", "prompt"} {
		if s := ext[name]; len(s) > 0 && c.Effect != "read" {
			l.errorf(s[0], "%s is for commands that read", s[0].Keyword)
		}
	}
	if s := ext["prompt"]; len(s) > 0 && !isWord(c.Prompt) {
		l.errorf(s[0], "%s %q is not lower-case letters, digits and dashes", s[0].Keyword, c.Prompt)
	}
	if s := ext["updated-on"]; len(s) > 0 && c.Resource == "" {
		l.errorf(s[0], "%s is for commands with ze:resource", s[0].Keyword)
	}
	if s := ext["resource"]; len(s) > 0 {
		if err := c.checkResource(); err != nil {
			l.errorf(s[0], "%s: %v", s[0].Keyword, err)
		}
	}
}

// checkResource holds a resource to the command's input: every variable is a
// leaf of it, and what it requires is a variable.
func (c *Command) checkResource() error {
	t, err := ParseTemplate(c.Resource)
	if err != nil {
		return err
	}
	for _, name := range t.Vars {
		if p := c.Input.Param(name); p == nil || p.Kind != Leaf {
			return fmt.Errorf("variable %s is no single parameter of the command", name)
		}
	}
	for _, p := range c.Input.Params {
		if p.Mandatory && !slices.Contains(t.Vars, p.Name) {
			return fmt.Errorf("the command requires %s, which is no variable", p.Name)
		}
	}
	return nil
}

// origin reads a ze:complete statement.
func (l *loader) origin(statements []*yang.Statement) *Origin {
	if len(statements) == 0 {
		return nil
	}
	command, field, ok := strings.Cut(statements[0].Argument, ":")
	o := &Origin{Path: strings.Fields(command), Field: strings.Split(strings.TrimSpace(field), "/")}
	if !ok || len(o.Path) == 0 || slices.ContainsFunc(slices.Concat(o.Path, o.Field), func(w string) bool { return !isWord(w) }) {
		l.errorf(statements[0], "%s %q is not of the form show bgp: peer/name", statements[0].Keyword, statements[0].Argument)
	}
	return o
}
