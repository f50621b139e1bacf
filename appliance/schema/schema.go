// Package schema turns YANG into what the rest of the daemon needs: a tree of
// nodes with types, JSON Schema 2020-12, and documentation. Its job ends there:
// it knows no command and no configuration leaf by name, and it is the only
// package that imports goyang.
package schema

import (
	"encoding/json"
	"strings"
)

// Kind says what sort of statement a Node came from.
type Kind uint8

// The kinds of node a data or argument tree is made of.
const (
	Container Kind = iota // child nodes by name
	List                  // entries of child nodes, identified by Key
	Leaf                  // one value
	LeafList              // an ordered sequence of values
)

// Node is one statement of a YANG data tree (RFC 7950 section 4.2.2): a
// configuration node, or an input or output parameter of a command.
type Node struct {
	Name        string
	Kind        Kind
	Description string
	Units       string   // as in the YANG units statement, "" if none
	Key         string   // List: the name of the key leaf
	Type        *Type    // Leaf and LeafList
	Default     []string // default values in their text form; nil if none
	Mandatory   bool     // must be given wherever its parent is: a mandatory leaf, a list with min-elements > 0, or a container without presence that holds one
	Presence    bool     // Container: means something by being there; otherwise it is only structure
	Min, Max    int      // list and leaf-list: bounds of the element count; Max 0 means no bound
	Children    []*Node  // Container and List, in the order they are declared

	Positional bool     // ze:positional: may be given bare on a command line
	Selector   []string // ze:selector: the leaf may stand inline, after these words of the command's path
	Sensitive  bool     // ze:sensitive: never shown in clear
	Hashed     bool     // ze:hashed: kept as sha256: and a digest; accepts the value in clear
	File       bool     // ze:file: in a shell, a file's name stands for its content; of an answer, it is printed alone
	Path       bool     // ze:path: names a file; in a shell, it is made absolute
	Header     string   // ze:header: mirrored into Mcp-Param-<Header>
	Examples   []string // ze:example on the node: values that suit it
	Complete   *Origin  // ze:complete: where values to choose from come from; nil if that is not said

	schema json.RawMessage // of a property that FromJSON was given
}

// Origin names a command that only reads, and the field of its answer that holds
// values to choose from: "show bgp: peer/name".
type Origin struct {
	Path  []string // words of the command
	Field []string // names from the answer inwards; lists on the way count with all their entries
}

// Child returns the child called name, or nil.
func (n *Node) Child(name string) *Node {
	for _, c := range n.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// ChildNames returns the names of the children in the order they are declared.
func (n *Node) ChildNames() []string {
	names := make([]string, len(n.Children))
	for i, c := range n.Children {
		names[i] = c.Name
	}
	return names
}

// Choices returns the values of a leaf or leaf-list whose type names all of them,
// in their order; nil for any other.
func (n *Node) Choices() []string {
	switch {
	case n.Type == nil:
	case n.Type.Base == Enum:
		return n.Type.enumNames()
	case n.Type.Base == Bool:
		return []string{"true", "false"}
	}
	return nil
}

// Allowed describes what may be written for the node, for people.
func (n *Node) Allowed() string {
	switch n.Kind {
	case Leaf:
		return n.Type.Allowed()
	case LeafList:
		return "a list of values, each " + n.Type.Allowed()
	case List:
		return "a list of objects with " + strings.Join(n.ChildNames(), ", ")
	}
	return "an object with " + strings.Join(n.ChildNames(), ", ")
}

// Command is what one rpc statement with a ze:command extension declares.
type Command struct {
	Module      string   // YANG module that declares it
	RPC         string   // name of the rpc statement
	Path        []string // the words of ze:command, without inline arguments
	Effect      string   // ze:effect: read, change or destroy
	Scope       string   // ze:scope: read, write or admin; "" means what the effect needs
	Description string
	Examples    []string // ze:example: whole command lines
	Hidden      bool     // ze:hidden
	Offline     bool     // ze:offline: touches nothing but the store
	Outside     bool     // ze:outside: except while a daemon runs, when it acts elsewhere, too
	Repair      bool     // ze:repair: without a daemon it works on the database's file, also one that cannot be opened
	StoreFirst  bool     // ze:store-first: changes the store before it acts elsewhere
	Idempotent  bool     // ze:idempotent
	Task        string   // ze:task: optional, required or forbidden; "" counts as forbidden
	UIResource  string   // ze:ui-resource
	Resource    string   // ze:resource: URI or URI template that its answer is read at
	UpdatedOn   []string // ze:updated-on: types of the events that change what is read there
	Prompt      string   // ze:prompt: name of the prompt its answer is
	Input       *Object
	Output      *Object
}
