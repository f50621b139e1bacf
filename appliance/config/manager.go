package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/schema"
)

// How long a commit can wait to be confirmed.
const (
	MinConfirm = time.Second
	MaxConfirm = time.Hour
)

// retryRevert is the pause between attempts to take an unconfirmed commit back.
const retryRevert = 5 * time.Second

// Options of a Manager. Store, Model, Check and Clock are required.
type Options struct {
	Store Store
	Model *schema.Node
	Clock func() time.Time
	// Check is the whole start gate; what it refuses is never kept as a revision.
	Check func(ctx context.Context, text []byte) error
	// Apply makes r the running configuration, fully or not at all; nil while no
	// daemon runs. It must not call a method of the Manager that changes something.
	Apply func(ctx context.Context, r Revision) error
	// Committed is told of every revision once it is kept; reverted: it takes back
	// a commit that nobody confirmed. It must not call the Manager. May be nil.
	Committed func(r Revision, reverted bool)
	Logger    zerolog.Logger
	File      string // the daemon runs from this file, so nothing can be committed
}

// Manager owns the candidates and the running configuration: what leads from
// one to the other, and the way back. Its methods are safe for concurrent use.
type Manager struct {
	o       Options
	turn    chan struct{} // holds one value while nobody changes anything; taken with a context
	changed chan struct{} // wakes the watcher
	stop    context.CancelFunc
	stopped chan struct{}
}

// NewManager returns a Manager. It watches nothing until Start.
func NewManager(o Options) *Manager {
	m := &Manager{o: o, turn: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m
}

// Model returns what can be configured; it must not be modified.
func (m *Manager) Model() *schema.Node { return m.o.Model }

// Resume returns the configuration to start from: the newest revision, once a
// commit whose time to be confirmed is over has been taken back. Nothing is
// applied: the caller is about to.
func (m *Manager) Resume(ctx context.Context) (Revision, error) {
	done, err := m.lock(ctx)
	if err != nil {
		return Revision{}, err
	}
	defer done()
	if err := m.settle(ctx, nil); err != nil {
		return Revision{}, err
	}
	return m.o.Store.LatestRevision(ctx)
}

// Start begins to watch for a commit that nobody confirms. One left over from
// before a restart or a kill is taken back when its time is up, too.
func (m *Manager) Start(ctx context.Context) {
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.stopped = make(chan struct{})
	go m.watch(ctx)
}

// Stop ends what Start began and waits for it. A commit that waits to be
// confirmed goes on waiting.
func (m *Manager) Stop() {
	if m.stop == nil {
		return
	}
	m.stop()
	<-m.stopped
}

// watch takes back what is not confirmed in time.
func (m *Manager) watch(ctx context.Context) {
	defer close(m.stopped)
	if m.o.File != "" {
		return // what is kept is not what runs
	}
	pause := time.Duration(0)
	for {
		wait, err := m.untilRevert(ctx)
		if err != nil {
			m.o.Logger.Error().Err(err).Msg("cannot tell whether a commit waits to be confirmed")
			wait = retryRevert
		}
		var due <-chan time.Time
		if wait >= 0 {
			due = time.After(max(wait, pause))
		}
		select {
		case <-ctx.Done():
			return
		case <-m.changed:
			continue
		case <-due:
		}
		pause = 0
		if err := m.revertOverdue(ctx); err != nil && ctx.Err() == nil {
			m.o.Logger.Error().Err(err).Msg("cannot take back a commit that nobody confirmed; trying again")
			pause = retryRevert
		}
	}
}

// untilRevert returns how long a waiting commit has left; negative: none waits.
func (m *Manager) untilRevert(ctx context.Context) (time.Duration, error) {
	c, err := m.o.Store.PendingConfirm(ctx)
	if errors.Is(err, ErrNoConfirm) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	now := m.o.Clock()
	if c.over(now) {
		return 0, nil
	}
	return c.Deadline.Sub(now), nil
}

func (m *Manager) revertOverdue(ctx context.Context) error {
	done, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	return m.settle(ctx, m.o.Apply)
}

// over reports whether the time to confirm is over. It is, too, when more of it
// seems left than anybody can have asked for: then the clock was set back, and
// the commit must not stay unconfirmed for as long.
func (c Confirm) over(now time.Time) bool {
	left := c.Deadline.Sub(now)
	return left <= 0 || left > MaxConfirm
}

// settle takes back a commit whose time to be confirmed is over.
func (m *Manager) settle(ctx context.Context, apply applier) error {
	c, err := m.o.Store.PendingConfirm(ctx)
	if errors.Is(err, ErrNoConfirm) {
		return nil
	}
	if err != nil || !c.over(m.o.Clock()) {
		return err
	}
	running, err := m.replaced(ctx)
	if err != nil {
		return fmt.Errorf("take back revision %d: %w", c.Revision, err)
	}
	before, err := m.o.Store.Revision(ctx, c.RevertTo)
	if err != nil {
		return fmt.Errorf("take back revision %d: %w", c.Revision, err)
	}
	r := NewRevision(running.Number, m.o.Clock(), "ze", fmt.Sprintf("revert to %d", c.RevertTo),
		fmt.Sprintf("revision %d by %s was not confirmed in time", c.Revision, c.Who), before.Text)
	if err := m.install(ctx, apply, running, Step{Revision: r}); err != nil {
		return fmt.Errorf("take back revision %d: %w", c.Revision, err)
	}
	m.committed(r, true)
	m.o.Logger.Warn().Uint64("revision", c.Revision).Uint64("revert-to", c.RevertTo).Str("who", c.Who).
		Msg("a commit was not confirmed in time and is taken back")
	return nil
}

func (m *Manager) committed(r Revision, reverted bool) {
	if m.o.Committed != nil {
		m.o.Committed(r, reverted)
	}
}

func (m *Manager) wake() {
	select {
	case m.changed <- struct{}{}:
	default: // it is being woken already
	}
}

// lock waits for the turn to change something.
func (m *Manager) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case <-m.turn:
		return func() { m.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Reload applies the newest revision anew. It waits for a commit under way, so
// that what runs afterwards is what is kept. *FileError, *ApplyError.
func (m *Manager) Reload(ctx context.Context) error {
	running, done, err := m.ready(ctx, false, false)
	if err != nil {
		return err
	}
	defer done()
	if err := m.o.Apply(ctx, running); err != nil {
		return &ApplyError{err}
	}
	return nil
}

// Applies reports whether a commit takes effect at once: a daemon runs.
func (m *Manager) Applies() bool { return m.o.Apply != nil }

// Running returns the running configuration. ErrNoRevision, *FileError.
func (m *Manager) Running(ctx context.Context) (Revision, error) {
	if m.o.File != "" {
		return Revision{}, &FileError{m.o.File}
	}
	return m.o.Store.LatestRevision(ctx)
}

// Revision returns revision n. ErrNoRevision.
func (m *Manager) Revision(ctx context.Context, n uint64) (Revision, error) {
	return m.o.Store.Revision(ctx, n)
}

// Sound returns the newest revision that can be read. ErrNoRevision.
func (m *Manager) Sound(ctx context.Context) (Revision, error) {
	all, err := m.History(ctx)
	if err != nil {
		return Revision{}, err
	}
	for _, r := range all {
		r, err := m.o.Store.Revision(ctx, r.Number)
		if damaged := (*DamagedError)(nil); !errors.As(err, &damaged) {
			return r, err
		}
	}
	return Revision{}, ErrNoRevision
}

// History returns all revisions, newest first, without texts.
func (m *Manager) History(ctx context.Context) ([]Revision, error) {
	all, err := m.o.Store.Revisions(ctx)
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all, err
}

// KeepingRevert runs do, and no commit begins or ends meanwhile. While one waits
// to be confirmed, check says whether what comes back otherwise could still run
// with do done; if it could not, do is not run. *RevertError.
func (m *Manager) KeepingRevert(ctx context.Context, check func(ctx context.Context, text []byte) error, do func() error) error {
	done, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	c, err := m.o.Store.PendingConfirm(ctx)
	if err == nil {
		// What cannot come back anyway is no reason to refuse.
		before, err := m.o.Store.Revision(ctx, c.RevertTo)
		if err == nil && m.o.Check(ctx, before.Text) == nil {
			if err := check(ctx, before.Text); err != nil {
				return &RevertError{Confirm: c, Err: err}
			}
		}
	} else if !errors.Is(err, ErrNoConfirm) {
		return err
	}
	return do()
}

// Waiting returns the commit that waits to be confirmed. ErrNoConfirm.
func (m *Manager) Waiting(ctx context.Context) (Confirm, error) { return m.o.Store.PendingConfirm(ctx) }
