package task_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
	. "ze.internal/ze/appliance/task"
)

const fixture = `module fixture {
  yang-version 1.1; namespace "urn:test"; prefix f;
  import ze-extensions { prefix ze; }
  revision 2026-11-30 { description "Commands for tests."; }
  rpc look { ze:command "look"; ze:effect read; ze:example "look 1"; description "Look.";
    input { leaf n { type uint32; default 0; ze:positional; description "Number."; } } output { leaf n { type uint32; description "Number."; } } }
  rpc act { ze:command "act"; ze:effect change; ze:example "act 1"; description "Act.";
    input { leaf n { type uint32; default 0; ze:positional; description "Number."; } } output { leaf n { type uint32; description "Number."; } } }
  rpc hush { ze:command "hush"; ze:effect change; ze:idempotent; ze:example "hush s"; description "Hush.";
    input { leaf secret { type string; ze:sensitive; ze:positional; description "Secret."; } } output { leaf n { type uint32; description "Number."; } } }
}`

// noAudit stands for the audit log.
type noAudit struct{}

func (noAudit) Begin(context.Context, audit.Record) (uint64, error) { return 1, nil }
func (noAudit) End(context.Context, uint64, audit.Record) error     { return nil }
func (noAudit) Note(audit.Record) error                             { return nil }
func (noAudit) Pending(r ...audit.Record) *audit.Pending            { return audit.NewPending(r...) }
func (noAudit) Refused(audit.Record)                                {}

// memory stands for the database: it keeps tasks as it does, and can be told to fail.
type memory struct {
	mu   sync.Mutex
	kept map[string][]byte
	puts int
	fail error
	slow time.Duration // how long the first change takes
	ids  *rand.ChaCha8 // where managers on it take ids from, always the same
}

func newMemory() *memory { return &memory{kept: map[string][]byte{}, ids: rand.NewChaCha8([32]byte{})} }

// breaks has every change fail with err from now on; nil: none.
func (s *memory) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *memory) Tasks(context.Context) ([]Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Task
	for _, b := range s.kept {
		var t Task
		if err := json.Unmarshal(b, &t); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Task) int { return a.Created.Compare(b.Created) })
	return all, nil
}

func (s *memory) Task(_ context.Context, id string) (t Task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.kept[id]
	if !ok {
		return t, ErrNoTask
	}
	return t, json.Unmarshal(b, &t)
}

func (s *memory) PutTask(_ context.Context, t Task) error {
	b, err := json.Marshal(t)
	s.mu.Lock()
	slow := s.slow
	s.slow = 0
	s.mu.Unlock()
	time.Sleep(slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.puts++
	s.kept[t.ID] = b
	return err
}

func (s *memory) DeleteTask(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.kept, id)
	return s.fail
}

// rig is a manager on a dispatcher whose commands do what run says.
type rig struct {
	*Manager
	store  *memory
	events *event.Bus
	gone   sync.Map // owners
	run    func(ctx context.Context, r *command.Request) (any, error)
}

var (
	alice = &access.Principal{Name: "alice", Accessor: "a1", Scope: access.Admin}
	bob   = &access.Principal{Name: "bob", Accessor: "b1", Scope: access.Read}
)

func newRig(t testing.TB, limits Limits) *rig {
	return newRigOn(t, newMemory(), limits)
}

func newRigOn(t testing.TB, store *memory, limits Limits) *rig {
	t.Helper()
	g := &rig{store: store, events: event.New(event.Options{})}
	g.Manager = New(Options{
		Store: store, Dispatcher: newDispatcher(t, func(ctx context.Context, r *command.Request) (any, error) { return g.run(ctx, r) }),
		Events: g.events, Limits: limits, Rand: store.ids, Logger: zerolog.Nop(),
		Principal: func(_ context.Context, owner string) (*access.Principal, error) {
			for _, p := range []*access.Principal{alice, bob} {
				if _, gone := g.gone.Load(owner); p.Owner() == owner && !gone {
					return p, nil
				}
			}
			return nil, nil
		},
		CanAnswer: func(client json.RawMessage, _ command.Question) bool { return string(client) != `{"mute":{}}` },
	})
	return g
}

func newDispatcher(t testing.TB, run command.Run) *command.Dispatcher {
	t.Helper()
	d, err := dispatcher(run)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func dispatcher(run command.Run) (*command.Dispatcher, error) {
	set, err := schema.Load([]schema.Source{{Name: "fixture.yang", Text: []byte(fixture)}})
	if err != nil {
		return nil, err
	}
	registry := command.NewRegistry()
	for _, decl := range set.Commands() {
		if err := registry.Register(command.New(decl, run)); err != nil {
			return nil, err
		}
	}
	return command.NewDispatcher(command.Options{Registry: registry, Audit: noAudit{}, Clock: time.Now, Logger: zerolog.Nop()}), nil
}

func (g *rig) start(t testing.TB) {
	t.Helper()
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (g *rig) stop(t testing.TB) {
	t.Helper()
	if err := g.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func call(p *access.Principal, line string) command.Call {
	return command.Call{Principal: p, Surface: "test", Line: line}
}

// begin starts a task that runs until ctx ends or done is closed.
func (g *rig) begin(t testing.TB, p *access.Principal, line string) Task {
	t.Helper()
	_, task, err := g.Run(t.Context(), call(p, line), Required, nil)
	if err != nil || task == nil {
		t.Fatalf("%s: task %v, error %v", line, task, err)
	}
	return *task
}

func (g *rig) get(t testing.TB, p *access.Principal, id string) Task {
	t.Helper()
	task, err := g.Get(t.Context(), p.Owner(), id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func (g *rig) want(t testing.TB, p *access.Principal, id string, status Status) Task {
	t.Helper()
	synctest.Wait()
	task := g.get(t, p, id)
	if task.Status != status {
		t.Fatalf("task is %+v, want %s", task, status)
	}
	return task
}

func answer(n int) map[string]int { return map[string]int{"n": n} }

func untilEnded(ctx context.Context, _ *command.Request) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func after(d time.Duration) command.Run {
	return func(ctx context.Context, _ *command.Request) (any, error) {
		select {
		case <-time.After(d):
			return answer(7), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// bubble runs a test under a clock of its own, with a manager that is stopped at
// the end.
func bubble(t *testing.T, limits Limits, test func(t *testing.T, g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, limits)
		g.start(t)
		defer g.stop(t)
		test(t, g)
	})
}
