package config

import (
	"bytes"
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
	Apply  func(ctx context.Context, r Revision) error
	Logger zerolog.Logger
	File   string // the daemon runs from this file, so nothing can be committed
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
	// A clock that was set back must not keep an unconfirmed commit for longer
	// than anybody can have asked for.
	return min(max(0, c.Deadline.Sub(m.o.Clock())), MaxConfirm), nil
}

func (m *Manager) revertOverdue(ctx context.Context) error {
	done, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer done()
	return m.settle(ctx, m.o.Apply)
}

// settle takes back a commit whose time to be confirmed is over.
func (m *Manager) settle(ctx context.Context, apply applier) error {
	c, err := m.o.Store.PendingConfirm(ctx)
	if errors.Is(err, ErrNoConfirm) {
		return nil
	}
	if err != nil || m.o.Clock().Before(c.Deadline) {
		return err
	}
	running, err := m.o.Store.LatestRevision(ctx)
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
	m.o.Logger.Warn().Uint64("revision", c.Revision).Uint64("revert-to", c.RevertTo).Str("who", c.Who).
		Msg("a commit was not confirmed in time and is taken back")
	return nil
}

// applier is Options.Apply.
type applier = func(ctx context.Context, r Revision) error

// install makes s the running configuration and keeps it.
//
// The daemon applies first, and what is kept changes afterwards, in one step
// with the candidate and the wait for confirmation. So a kill at any point
// leaves a daemon whose next start is what was kept, and that is exactly what
// was acknowledged: before the step nobody has been told of the new revision,
// and the next start runs the old one; after it, the new one. A revision that
// the daemon refuses never exists, so no start can fail over it.
func (m *Manager) install(ctx context.Context, apply applier, before Revision, s Step) error {
	if apply != nil {
		if err := apply(ctx, s.Revision); err != nil {
			return &ApplyError{err}
		}
	}
	// What runs must be kept, whether or not the caller still waits.
	ctx = context.WithoutCancel(ctx)
	err := m.o.Store.CommitRevision(ctx, s)
	if err == nil {
		m.wake()
		return nil
	}
	err = fmt.Errorf("keep configuration revision %d: %w", s.Revision.Number, err)
	if apply != nil && before.Number > 0 {
		if undo := apply(ctx, before); undo != nil {
			m.o.Logger.Error().Err(undo).Uint64("revision", before.Number).
				Msg("a configuration that could not be kept is still running; restart the daemon")
			err = errors.Join(err, fmt.Errorf("go back to revision %d: %w; restart the daemon", before.Number, undo))
		}
	}
	return err
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

// ready waits for the turn to commit and returns the running configuration; the
// zero Revision if there is none yet. With free, a commit that waits to be
// confirmed is a *PendingError.
func (m *Manager) ready(ctx context.Context, free bool) (Revision, func(), error) {
	if m.o.File != "" {
		return Revision{}, nil, &FileError{m.o.File}
	}
	done, err := m.lock(ctx)
	if err != nil {
		return Revision{}, nil, err
	}
	running, err := m.prepare(ctx, free)
	if err != nil {
		done()
		return Revision{}, nil, err
	}
	return running, done, nil
}

func (m *Manager) prepare(ctx context.Context, free bool) (Revision, error) {
	if err := m.settle(ctx, m.o.Apply); err != nil {
		return Revision{}, err
	}
	if free {
		switch c, err := m.o.Store.PendingConfirm(ctx); {
		case err == nil:
			return Revision{}, &PendingError{c}
		case !errors.Is(err, ErrNoConfirm):
			return Revision{}, err
		}
	}
	return m.newest(ctx)
}

// newest returns the newest revision, or the zero one if there is none yet.
func (m *Manager) newest(ctx context.Context) (Revision, error) {
	r, err := m.o.Store.LatestRevision(ctx)
	if errors.Is(err, ErrNoRevision) {
		return Revision{}, nil
	}
	return r, err
}

// CommitOptions say more about a commit.
type CommitOptions struct {
	Who     string        // for the history; empty: the owner
	Comment string        // why
	Confirm time.Duration // MinConfirm..MaxConfirm: take it back unless it is confirmed in this time; 0: keep it
}

// Commit makes the owner's candidate the running configuration and the newest
// revision. until says when it is taken back unless it is confirmed; zero: it
// stays. ErrNoCandidate, ErrUnchanged, *ConflictError, *PendingError,
// *FileError, Problems, *ApplyError; nothing has changed then.
func (m *Manager) Commit(ctx context.Context, owner string, o CommitOptions) (r Revision, until time.Time, err error) {
	if o.Confirm != 0 && (o.Confirm < MinConfirm || o.Confirm > MaxConfirm) {
		return Revision{}, until, fmt.Errorf("commit confirmed: %v is not within %v and %v", o.Confirm, MinConfirm, MaxConfirm)
	}
	running, done, err := m.ready(ctx, true)
	if err != nil {
		return Revision{}, until, err
	}
	defer done()
	c, err := m.o.Store.Candidate(ctx, owner)
	if err != nil {
		return Revision{}, until, err
	}
	switch {
	case running.Number == 0 && o.Confirm > 0:
		return Revision{}, until, fmt.Errorf("commit confirmed: there is nothing to go back to: %w", ErrNoRevision)
	case c.Base != running.Number:
		return Revision{}, until, m.conflict(ctx, c, running)
	case bytes.Equal(c.Text, running.Text):
		return Revision{}, until, ErrUnchanged
	}
	if err := m.o.Check(ctx, c.Text); err != nil {
		return Revision{}, until, err
	}
	if o.Who == "" {
		o.Who = owner
	}
	s := Step{Owner: owner}
	how := "commit"
	if o.Confirm > 0 {
		how = fmt.Sprintf("commit confirmed %d", o.Confirm/time.Second)
		until = m.o.Clock().Add(o.Confirm).UTC()
		s.Confirm = &Confirm{Revision: running.Number + 1, RevertTo: running.Number, Deadline: until, Who: o.Who}
	}
	s.Revision = NewRevision(running.Number, m.o.Clock(), o.Who, how, o.Comment, c.Text)
	return s.Revision, until, m.install(ctx, m.o.Apply, running, s)
}

// conflict tells what has been committed since the candidate began.
func (m *Manager) conflict(ctx context.Context, c Candidate, running Revision) error {
	all, err := m.o.Store.Revisions(ctx)
	if err != nil {
		return err
	}
	e := &ConflictError{Base: c.Base}
	for _, r := range all {
		if r.Number > c.Base {
			e.Since = append(e.Since, r)
		}
	}
	base, err := m.o.Store.Revision(ctx, c.Base)
	if err != nil && !errors.Is(err, ErrNoRevision) {
		return err
	}
	if e.Changed, err = m.changedPaths(base.Text, running.Text); err != nil {
		return err
	}
	return e
}

// Confirm keeps the commit that waits to be confirmed, and returns what waited.
// ErrNoConfirm, also when its time is over.
func (m *Manager) Confirm(ctx context.Context, who string) (Confirm, error) {
	_, done, err := m.ready(ctx, false)
	if err != nil {
		return Confirm{}, err
	}
	defer done()
	c, err := m.o.Store.PendingConfirm(ctx)
	if err == nil {
		err = m.o.Store.ClearConfirm(ctx, c.Revision)
	}
	if err != nil {
		return Confirm{}, err
	}
	m.wake()
	m.o.Logger.Info().Uint64("revision", c.Revision).Str("who", who).Msg("a commit was confirmed")
	return c, nil
}

// Rollback makes the text of revision n the newest revision. A commit that waits
// to be confirmed waits no longer. ErrNoRevision, ErrUnchanged, *FileError,
// Problems, *ApplyError.
func (m *Manager) Rollback(ctx context.Context, who string, n uint64) (Revision, error) {
	running, done, err := m.ready(ctx, false)
	if err != nil {
		return Revision{}, err
	}
	defer done()
	old, err := m.o.Store.Revision(ctx, n)
	if err != nil {
		return Revision{}, err
	}
	if bytes.Equal(old.Text, running.Text) {
		return Revision{}, ErrUnchanged
	}
	if err := m.o.Check(ctx, old.Text); err != nil {
		return Revision{}, err
	}
	r := NewRevision(running.Number, m.o.Clock(), who, fmt.Sprintf("rollback %d", n), "", old.Text)
	return r, m.install(ctx, m.o.Apply, running, Step{Revision: r})
}

// Import makes a whole text the newest revision, as a commit of it would;
// nothing happens if it is that already. A masked secret stands for the present
// one. *PendingError, *FileError, Problems, *ApplyError.
func (m *Manager) Import(ctx context.Context, who string, text []byte, comment string) (Revision, error) {
	running, done, err := m.ready(ctx, true)
	if err != nil {
		return Revision{}, err
	}
	defer done()
	if text, err = m.adopt("import", text, running.Text); err != nil {
		return Revision{}, err
	}
	if err := m.o.Check(ctx, text); err != nil {
		return Revision{}, err
	}
	if running.Number > 0 && bytes.Equal(text, running.Text) {
		return running, nil
	}
	r := NewRevision(running.Number, m.o.Clock(), who, "config import", comment, text)
	return r, m.install(ctx, m.o.Apply, running, Step{Revision: r})
}

// Reload applies the newest revision anew. It waits for a commit under way, so
// that what runs afterwards is what is kept. *FileError, *ApplyError.
func (m *Manager) Reload(ctx context.Context) error {
	running, done, err := m.ready(ctx, false)
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

// History returns all revisions, newest first, without texts.
func (m *Manager) History(ctx context.Context) ([]Revision, error) {
	all, err := m.o.Store.Revisions(ctx)
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all, err
}

// Waiting returns the commit that waits to be confirmed. ErrNoConfirm.
func (m *Manager) Waiting(ctx context.Context) (Confirm, error) { return m.o.Store.PendingConfirm(ctx) }
