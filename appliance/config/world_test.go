package config_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/store"
)

var (
	errKilled  = errors.New("the process is dead")
	errRefused = errors.New("the daemon cannot run that")
	errSpace   = errors.New("no space")
)

// fault is what happens to the next commit of a world.
type fault int

const (
	none       fault = iota
	refuse           // the daemon refuses it
	fail             // it cannot be kept
	killBefore       // the process dies when it has been applied, before it is kept
	killAfter        // the process dies when it has been kept
)

// world is a store on disk, a Manager, and what stands for the daemon.
type world struct {
	dir  string
	root *schema.Node
	db   *store.DB
	m    *config.Manager

	mu      sync.Mutex // guards what follows
	fault   fault
	dead    bool
	up      bool   // the daemon runs, and can be told to run something else
	running string // text the daemon runs
	applied func() // called when something was applied
}

func (w *world) set(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *world) killed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// runs returns the text the daemon runs.
func (w *world) runs() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// faulty is the store of a world, as long as the process lives.
type faulty struct {
	*store.DB
	w *world
}

func (f faulty) CommitRevision(ctx context.Context, s config.Step) error {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dead:
		return errKilled
	case w.fault == fail:
		return errSpace
	case w.fault == killBefore:
		w.dead = true
		return errKilled
	}
	err := f.DB.CommitRevision(ctx, s)
	if w.fault == killAfter && err == nil {
		w.dead, err = true, errKilled
	}
	return err
}

func (f faulty) PendingConfirm(ctx context.Context) (config.Confirm, error) {
	if f.w.killed() {
		return config.Confirm{}, errKilled
	}
	return f.DB.PendingConfirm(ctx)
}

func (w *world) apply(_ context.Context, r config.Revision) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.dead:
		return errKilled
	case !w.up:
		return errors.New("applied before the start")
	case w.fault == refuse:
		return errRefused
	}
	w.running = string(r.Text)
	if w.applied != nil {
		w.applied()
	}
	return nil
}

// start opens the store and starts a Manager, as a daemon does.
func (w *world) start(t fataler) {
	var err error
	if w.db, err = store.Open(store.Options{Dir: w.dir, Logger: zerolog.Nop()}); err != nil {
		t.Fatalf("open: %v", err)
	}
	w.mu.Lock()
	w.dead, w.up, w.fault = false, false, none
	w.mu.Unlock()
	w.m = w.manager(w.apply)
	r, err := w.m.Resume(context.Background())
	if err != nil && !errors.Is(err, config.ErrNoRevision) {
		t.Fatalf("resume: %v", err)
	}
	w.mu.Lock()
	w.up, w.running = true, string(r.Text)
	w.mu.Unlock()
	w.m.Start(context.Background())
}

// manager returns a Manager that is not started.
func (w *world) manager(apply func(context.Context, config.Revision) error) *config.Manager {
	return config.NewManager(config.Options{
		Store: faulty{w.db, w}, Model: w.root, Clock: time.Now, Apply: apply, Logger: zerolog.Nop(),
		Check: func(_ context.Context, text []byte) error {
			tree, err := config.Parse("f", text)
			if err == nil {
				err = config.Validate(tree, w.root)
			}
			return err
		},
	})
}

func (w *world) stop(t fataler) {
	w.m.Stop()
	if err := w.db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func newWorld(t fataler, dir string, root *schema.Node) *world {
	w := &world{dir: dir, root: root}
	if err := store.Create(store.Options{Dir: dir, Instance: "test"}); err != nil {
		t.Fatalf("create: %v", err)
	}
	w.start(t)
	return w
}

// named is a configuration that says nothing but a name.
func named(name string) string {
	if name == "" {
		return "environment {\n    instance {\n    }\n}\n"
	}
	return "environment {\n    instance {\n        name " + name + ";\n    }\n}\n"
}
