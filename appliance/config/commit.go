package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// ready waits for the turn to commit and returns the running configuration; the
// zero Revision if there is none yet. With free, a commit that waits to be
// confirmed is a *PendingError. whole says that all of the configuration is
// about to be replaced: then it may be damaged, and only its number is returned.
func (m *Manager) ready(ctx context.Context, free, whole bool) (Revision, func(), error) {
	if m.o.File != "" {
		return Revision{}, nil, &FileError{m.o.File}
	}
	done, err := m.lock(ctx)
	if err != nil {
		return Revision{}, nil, err
	}
	running, err := m.prepare(ctx, free, whole)
	if err != nil {
		done()
		return Revision{}, nil, err
	}
	return running, done, nil
}

func (m *Manager) prepare(ctx context.Context, free, whole bool) (Revision, error) {
	var damaged *DamagedError
	switch err := m.settle(ctx, m.o.Apply); {
	case whole && errors.As(err, &damaged):
		free = false // its time is over, and what it should go back to is lost
	case err != nil:
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
	if whole {
		return m.replaced(ctx)
	}
	return m.newest(ctx)
}

// replaced is newest, but of a damaged revision it returns the number.
func (m *Manager) replaced(ctx context.Context) (Revision, error) {
	r, err := m.newest(ctx)
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		return Revision{Number: damaged.Number}, nil
	}
	return r, err
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
	running, done, err := m.ready(ctx, true, false)
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
	return s.Revision, until, m.commit(ctx, running, s)
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
	_, done, err := m.ready(ctx, false, false)
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

// Rollback makes the text of revision n the newest revision, in front of one that
// is damaged, too. A commit that waits to be confirmed waits no longer. ErrNoRevision, ErrUnchanged, *FileError,
// Problems, *ApplyError.
func (m *Manager) Rollback(ctx context.Context, who string, n uint64) (Revision, error) {
	running, done, err := m.ready(ctx, false, true)
	if err != nil {
		return Revision{}, err
	}
	defer done()
	old, err := m.o.Store.Revision(ctx, n)
	if err != nil {
		return Revision{}, err
	}
	if !running.lost() && bytes.Equal(old.Text, running.Text) {
		return Revision{}, ErrUnchanged
	}
	if err := m.o.Check(ctx, old.Text); err != nil {
		return Revision{}, err
	}
	r := NewRevision(running.Number, m.o.Clock(), who, fmt.Sprintf("rollback %d", n), "", old.Text)
	return r, m.commit(ctx, running, Step{Revision: r})
}

// Import makes a whole text the newest revision, as a commit of it would;
// nothing happens if it is that already. It may be put in front of a damaged one.
// A masked secret stands for the present one. *PendingError, *FileError, Problems, *ApplyError.
func (m *Manager) Import(ctx context.Context, who string, text []byte, comment string) (Revision, error) {
	running, done, err := m.ready(ctx, true, true)
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
	if running.Number > 0 && !running.lost() && bytes.Equal(text, running.Text) {
		return running, nil
	}
	r := NewRevision(running.Number, m.o.Clock(), who, "config import", comment, text)
	return r, m.commit(ctx, running, Step{Revision: r})
}

// commit installs what somebody asked for.
func (m *Manager) commit(ctx context.Context, before Revision, s Step) error {
	err := m.install(ctx, m.o.Apply, before, s)
	if err == nil {
		m.committed(s.Revision, false)
	}
	return err
}

var errLost = errors.New("it is damaged")

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
	if err := ctx.Err(); err != nil {
		return err
	}
	// What has begun is finished, whether or not the caller still waits: what runs
	// must be kept, and nothing be called refused that is not.
	ctx = context.WithoutCancel(ctx)
	if apply != nil {
		if err := apply(ctx, s.Revision); err != nil {
			return &ApplyError{err}
		}
	}
	err := m.o.Store.CommitRevision(ctx, s)
	if err == nil {
		m.wake()
		return nil
	}
	err = fmt.Errorf("keep configuration revision %d: %w", s.Revision.Number, err)
	if apply != nil && before.Number > 0 {
		undo := errLost
		if !before.lost() {
			undo = apply(ctx, before)
		}
		if undo != nil {
			m.o.Logger.Error().Err(undo).Uint64("revision", before.Number).
				Msg("a configuration that could not be kept is still running; restart the daemon")
			err = errors.Join(err, fmt.Errorf("go back to revision %d: %w; restart the daemon", before.Number, undo))
		}
	}
	return err
}
