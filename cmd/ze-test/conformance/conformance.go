// Package conformance is the server that the official conformance suite of the
// Model Context Protocol wants to find: the tools, prompts and resources of its
// fixtures, as commands declared at run time, on the very same MCP server,
// dispatcher and tasks that the daemon is made of. It owns what the fixtures
// answer, whose names and forms the suite fixes; it must not know how a call
// travels. Everybody is let in, so it is for loopback.
package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/appliance/task"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

// Options is what a Server is made of.
type Options struct {
	Logger  zerolog.Logger
	Version string // what the server says it is
}

// Server serves the fixtures. It keeps what it must in a database of its own,
// which goes with it.
type Server struct {
	handler http.Handler
	dir     string
	db      *store.DB
	audit   *audit.Log
	tasks   *task.Manager
}

// New returns a server that answers requests until it is closed.
func New(ctx context.Context, o Options) (s *Server, err error) {
	s = &Server{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
		}
	}()
	if s.dir, err = os.MkdirTemp("", "ze-conformance-"); err != nil {
		return s, err
	}
	data := store.Options{Dir: filepath.Join(s.dir, "data"), Create: true, Instance: "conformance", Logger: o.Logger}
	if s.db, err = store.Open(data); err != nil {
		return s, err
	}
	s.audit = audit.NewLog(audit.Options{Store: s.db, Logger: o.Logger})
	s.audit.Start()
	registry := command.NewRegistry()
	f := &fixtures{registry: registry}
	commands, err := f.commands()
	if err != nil {
		return s, err
	}
	if err := registry.Register(commands...); err != nil {
		return s, err
	}
	dispatcher := command.NewDispatcher(command.Options{Registry: registry, Audit: s.audit, Clock: time.Now, Logger: o.Logger})
	open, err := access.NewAuthenticator(access.AuthOptions{Mode: access.ModeNone})
	if err != nil {
		return s, err
	}
	events := event.New(event.Options{})
	s.tasks = task.New(task.Options{
		Store: s.db, Dispatcher: dispatcher, Events: events, Logger: o.Logger, CanAnswer: mcp.CanAnswer,
		Principal: func(ctx context.Context, _ string) (*access.Principal, error) { return open.Authenticate(ctx, "") },
	})
	if err := s.tasks.Start(ctx); err != nil {
		return s, err
	}
	server, err := mcp.New(mcp.Options{
		Dispatcher: dispatcher, Auth: open, Name: "ze-conformance", Version: o.Version, Logger: o.Logger, Tasks: s.tasks, Events: events,
	})
	if err != nil {
		return s, err
	}
	s.handler = (&access.Guard{}).Wrap(server)
	return s, nil
}

// ServeHTTP implements http.Handler; every path leads to the MCP server.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends what runs and removes what was kept.
func (s *Server) Close(ctx context.Context) error {
	var errs []error
	if s.tasks != nil {
		errs = append(errs, s.tasks.Stop(ctx))
	}
	if s.audit != nil {
		errs = append(errs, s.audit.Stop(ctx))
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// fixtures are what the suite calls.
type fixtures struct{ registry *command.Registry }

// fixture declares one command. Exactly one of tool, prompt and resource is set.
type fixture struct {
	tool, prompt, resource string
	about                  string
	input                  string // JSON Schema; "" for no arguments
	effect                 command.Effect
	task                   string
	taskOnly               bool
	run                    command.Run
}

// noArguments is the input schema of a fixture that takes none.
const noArguments = `{"type":"object","additionalProperties":false}`

func (f *fixtures) commands() ([]*command.Command, error) {
	var all []*command.Command
	for _, group := range [][]fixture{contents(), f.changes(), questions(), tasks(), prompts(), resources()} {
		for _, d := range group {
			c, err := d.command()
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
	}
	return all, nil
}

func (d fixture) command() (*command.Command, error) {
	if d.input == "" {
		d.input = noArguments
	}
	if d.effect == "" {
		d.effect = command.EffectRead
	}
	name := d.tool + d.prompt + d.resource
	input, err := schema.FromJSON(json.RawMessage(d.input))
	if err != nil {
		return nil, fmt.Errorf("fixture %s: %w", name, err)
	}
	c, err := command.NewRuntime(&schema.Command{
		Path: []string{strings.NewReplacer("://", "-", "/", "-", "{", "", "}", "", "_", "-").Replace(name)}, Effect: string(d.effect), Description: d.about, Hidden: d.tool == "",
		Task: d.task, Prompt: d.prompt, Resource: d.resource, Input: input,
	}, d.tool, d.run)
	if err != nil {
		return nil, err
	}
	c.TaskOnly = d.taskOnly
	return c, nil
}

// texts answers blocks of text.
func texts(lines ...string) (any, error) {
	blocks := make([]block, len(lines))
	for i, l := range lines {
		blocks[i] = block{Type: "text", Text: l}
	}
	return answer(blocks...)
}

// block is a content block (page server/tools).
type block struct {
	Type     string         `json:"type"`
	Text     string         `json:"text,omitempty"`
	Data     string         `json:"data,omitempty"`
	MIMEType string         `json:"mimeType,omitempty"`
	Resource *resourceBlock `json:"resource,omitempty"`
}

type resourceBlock struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text,omitempty"`
	Blob     string `json:"blob,omitempty"`
}

func answer(blocks ...block) (any, error) {
	b, err := json.Marshal(blocks)
	if err != nil {
		return nil, err
	}
	return &command.Answer{Content: b}, nil
}

// always is the Run of a command that has one answer.
func always(blocks ...block) command.Run {
	return func(context.Context, *command.Request) (any, error) { return answer(blocks...) }
}
