package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Object is what a command takes or answers: a JSON object of parameters in
// the order they are declared. It is safe for concurrent use once built.
type Object struct {
	Params []*Node

	given     bool // FromJSON made it
	publish   sync.Once
	published json.RawMessage

	compile  sync.Once
	compiled *jsonschema.Schema
}

// Param returns the parameter called name, or nil.
func (o *Object) Param(name string) *Node { return o.root().Child(name) }

func (o *Object) root() *Node { return &Node{Kind: Container, Children: o.Params} }

// Problem is one thing that is wrong with a JSON value.
type Problem struct {
	Field   string // "prefixes[3]", "tag.key"; "" for the whole value
	Message string // what is wrong, quoting the value shortly
	Allowed string // the allowed form
	Suggest string // the nearest known name, for an unknown one
}

// Check reports everything that is wrong with v, a decoded JSON object whose
// numbers are json.Number, in the order of declaration.
func (o *Object) Check(v any) []Problem {
	if o.given {
		return o.checkGiven(v)
	}
	if fits(o.Params, v) {
		return nil
	}
	o.compile.Do(o.build)
	err := o.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var failure *jsonschema.ValidationError
	if !errors.As(err, &failure) {
		return []Problem{{Message: err.Error()}}
	}
	var c collector
	c.collect(o.root(), v, failure)
	slices.SortStableFunc(c.found, func(a, b placed) int {
		return cmp.Or(slices.Compare(a.order, b.order), strings.Compare(a.Field, b.Field))
	})
	problems := make([]Problem, len(c.found))
	for i, p := range c.found {
		problems[i] = p.Problem
	}
	return problems
}

// fits reports whether v is an object of nodes without a problem, which most
// are: what the compiled schema is for is to say what is wrong.
func fits(nodes []*Node, v any) bool {
	object, ok := v.(map[string]any)
	if !ok {
		return false
	}
	known := 0
	for _, n := range nodes {
		value, there := object[n.Name]
		switch {
		case there && !n.fits(value) || !there && n.Mandatory:
			return false
		case there:
			known++
		}
	}
	return known == len(object)
}

func (n *Node) fits(v any) bool {
	switch n.Kind {
	case Container:
		return fits(n.Children, v)
	case Leaf:
		return n.Type.check(v) == nil
	}
	items, ok := v.([]any)
	if !ok || len(items) < n.Min || n.Max > 0 && len(items) > n.Max {
		return false
	}
	for _, item := range items {
		if n.Kind == LeafList && n.Type.check(item) != nil || n.Kind == List && !n.entryFits(item) {
			return false
		}
	}
	return true
}

// entryFits is fits for an entry of a list, which always has its key.
func (n *Node) entryFits(v any) bool {
	object, ok := v.(map[string]any)
	if _, there := object[n.Key]; !ok || n.Key != "" && !there {
		return false
	}
	return fits(n.Children, v)
}

// FillDefaults adds to args, an object Check has accepted, the default of every
// parameter that is not there.
func (o *Object) FillDefaults(args map[string]any) { fillDefaults(o.Params, args) }

func fillDefaults(nodes []*Node, object map[string]any) {
	for _, n := range nodes {
		v, there := object[n.Name]
		switch {
		case there && n.Kind == Container:
			fillDefaults(n.Children, v.(map[string]any))
		case there && n.Kind == List:
			for _, entry := range v.([]any) {
				fillDefaults(n.Children, entry.(map[string]any))
			}
		case there:
		case n.Kind == Container && !n.Presence:
			inner := map[string]any{}
			if fillDefaults(n.Children, inner); len(inner) > 0 {
				object[n.Name] = inner
			}
		case n.Default != nil:
			object[n.Name] = n.DefaultValue()
		}
	}
}

// denyAll refuses every reference out of a schema: nothing is ever fetched.
type denyAll struct{}

// Load implements jsonschema.URLLoader.
func (denyAll) Load(url string) (any, error) {
	return nil, fmt.Errorf("schema refers to %s; references to other documents are not followed", url)
}

// build compiles the schema that Check uses. It has the structure of the
// published one; values are judged by one format per Type, so that a command
// line, a configuration and a JSON argument are held to the very same rules,
// and no number reaches the library's big-rational arithmetic unchecked.
func (o *Object) build() {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(denyAll{})
	c.AssertFormat()
	b := builder{compiler: c, formats: map[*Type]string{}}
	const url = "urn:ze:object"
	err := c.AddResource(url, b.object(o.Params, ""))
	if err == nil {
		o.compiled, err = c.Compile(url)
	}
	if err != nil {
		panic("schema: compile the schema of a loaded module: " + err.Error())
	}
}

type builder struct {
	compiler *jsonschema.Compiler
	formats  map[*Type]string
}

func (b *builder) object(nodes []*Node, key string) map[string]any {
	properties, required := map[string]any{}, []any{}
	for _, n := range nodes {
		properties[n.Name] = b.node(n)
		if n.Mandatory || n.Name == key {
			required = append(required, n.Name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

func (b *builder) node(n *Node) map[string]any {
	switch n.Kind {
	case Container:
		return b.object(n.Children, "")
	case Leaf:
		return b.value(n.Type)
	}
	array := map[string]any{"type": "array"}
	if n.Kind == List {
		array["items"] = b.object(n.Children, n.Key)
	} else {
		array["items"] = b.value(n.Type)
	}
	if n.Min > 0 {
		array["minItems"] = json.Number(strconv.Itoa(n.Min))
	}
	if n.Max > 0 {
		array["maxItems"] = json.Number(strconv.Itoa(n.Max))
	}
	return array
}

func (b *builder) value(t *Type) map[string]any {
	name, known := b.formats[t]
	if !known {
		name = "ze-type-" + strconv.Itoa(len(b.formats))
		b.formats[t] = name
		b.compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if err := t.check(v); err != nil {
				return err
			}
			return nil
		}})
	}
	return map[string]any{"format": name}
}

// placed is a Problem with its place in the order of declaration.
type placed struct {
	Problem
	order []int
}

type collector struct{ found []placed }

// collect turns the library's tree of failures into Problems.
func (c *collector) collect(root *Node, v any, failure *jsonschema.ValidationError) {
	if len(failure.Causes) > 0 {
		for _, cause := range failure.Causes {
			c.collect(root, v, cause)
		}
		return
	}
	at := locate(root, v, failure.InstanceLocation)
	switch k := failure.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			n := at.node.Child(name)
			c.add(at.child(name, slices.Index(at.node.Children, n)), Problem{Message: "is required", Allowed: n.Allowed()})
		}
	case *kind.AdditionalProperties:
		names := at.node.ChildNames()
		allowed := "one of " + strings.Join(names, ", ")
		if len(names) == 0 {
			allowed = "nothing"
		}
		for _, name := range k.Properties {
			c.add(at.child(name, len(names)), Problem{Message: "is unknown", Allowed: allowed, Suggest: Nearest(name, names)})
		}
	case *kind.Format:
		c.add(at, at.node.valueProblem(k.Err))
	case *kind.Type:
		want := "an object"
		if slices.Contains(k.Want, "array") {
			want = "a list"
		}
		c.add(at, Problem{Message: show(at.value) + " is not " + want, Allowed: at.node.Allowed()})
	case *kind.MinItems:
		c.add(at, Problem{Message: "has " + count(k.Got, "value"), Allowed: "at least " + count(k.Want, "value")})
	case *kind.MaxItems:
		c.add(at, Problem{Message: "has " + count(k.Got, "value"), Allowed: "at most " + count(k.Want, "value")})
	default:
		c.add(at, Problem{Message: failure.Error(), Allowed: at.node.Allowed()})
	}
}

// valueProblem words what a Type found. The value of a sensitive leaf is not
// repeated: messages reach logs.
func (n *Node) valueProblem(err error) Problem {
	p := Problem{Message: "the value is not allowed", Allowed: n.Type.Allowed()}
	var value *ValueError
	if n.Sensitive || !errors.As(err, &value) {
		return p
	}
	p.Message = value.Message
	if value.Suggest != "" {
		p.Allowed += "; did you mean " + value.Suggest
	}
	return p
}

func (c *collector) add(at place, p Problem) {
	p.Field = at.field
	c.found = append(c.found, placed{p, at.order})
}

// place is a position in a value together with the node that describes it.
type place struct {
	node  *Node
	value any
	field string
	order []int
}

func (p place) child(name string, index int) place {
	if p.field != "" {
		name = p.field + "." + name
	}
	return place{field: name, order: append(slices.Clip(p.order), index)}
}

func locate(root *Node, v any, location []string) place {
	p := place{node: root, value: v}
	for _, token := range location {
		switch value := p.value.(type) {
		case map[string]any:
			n := p.node.Child(token)
			next := p.child(token, slices.Index(p.node.Children, n))
			next.node, next.value = n, value[token]
			p = next
		case []any:
			i, _ := strconv.Atoi(token)
			p.value, p.field, p.order = value[i], p.field+"["+token+"]", append(slices.Clip(p.order), i)
		}
	}
	return p
}
