// Package builtin holds ze's own commands: one pair of files for each family,
// NAME.yang with the declarations and NAME.go with what they do. It owns
// nothing else: state lives in the rooms it is given through Deps. It must not
// know any surface, and commands never call each other.
package builtin

import (
	"embed"
	"fmt"
	"io/fs"
	"time"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
)

//go:embed *.yang
var models embed.FS

// Models returns the YANG modules that declare the commands, sorted by name.
func Models() []schema.Source {
	files, err := fs.Glob(models, "*.yang")
	if err != nil {
		panic("builtin: " + err.Error()) // the pattern is constant
	}
	out := make([]schema.Source, len(files))
	for i, f := range files {
		text, err := models.ReadFile(f)
		if err != nil {
			panic("builtin: " + err.Error()) // the file was just listed
		}
		out[i] = schema.Source{Name: f, Text: text}
	}
	return out
}

// Deps are the rooms the commands act on.
type Deps struct {
	Registry *command.Registry
	Every    *command.Registry // also what cannot run while no daemon does
	System   System
	BGP      BGP
	Tokens   Tokens
	Usage    TokenUsage // may be nil: then only what is kept is known
	Callers  Callers
	Audit    Audit
	Config   *config.Manager
	Store    Store
	Blobs    Blobs
	Events   *event.Bus
	Tasks    Tasks
	Clock    func() time.Time
}

// runs collects the implementations by YANG rpc name.
type runs map[string]command.Run

// Commands joins the declarations in set that come from Models with their
// implementations.
func Commands(set *schema.Set, d Deps) ([]*command.Command, error) {
	impl := runs{}
	d.system(impl)
	d.command(impl)
	d.bgp(impl)
	d.route(impl)
	d.token(impl)
	d.audit(impl)
	d.config(impl)
	d.store(impl)
	d.blob(impl)
	d.event(impl)
	d.task(impl)
	d.prompt(impl)
	d.reference(impl)
	var out []*command.Command
	for _, decl := range set.Commands() {
		run, ok := impl[decl.RPC]
		if !ok {
			return nil, fmt.Errorf("builtin: rpc %s of module %s has no implementation", decl.RPC, decl.Module)
		}
		delete(impl, decl.RPC)
		c := command.New(decl, run)
		c.Conceal = d.concealed(decl.RPC)
		out = append(out, c)
	}
	for rpc := range impl {
		return nil, fmt.Errorf("builtin: %s is implemented but no module declares it", rpc)
	}
	return out, nil
}

// seconds is d in whole seconds, never negative.
func seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }
