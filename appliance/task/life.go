package task

import (
	"context"
	"fmt"
	"time"

	"ze.internal/ze/appliance/command"
)

const (
	ownersEvery = time.Second // how often the owners of running tasks are looked up
	sweepEvery  = time.Minute // how often expired tasks are removed
	maxStarts   = 3           // a run that was there at so many ends of the daemon may be their cause
)

// Start reads the tasks that are kept. Of those that a former daemon did not
// finish it begins anew the ones whose command may run twice, if their owner is
// still there; the others have failed.
func (m *Manager) Start(ctx context.Context) error {
	all, err := m.o.Store.Tasks(ctx)
	if err != nil {
		return fmt.Errorf("read the tasks: %w", err)
	}
	for _, t := range all {
		j := &job{saving: newSaving(), task: t, kept: true, durable: true, saved: t.Status.Final()}
		if t.Status.Final() {
			j.task.Result, j.task.Answer, j.task.Error = nil, nil, nil
		}
		m.mu.Lock()
		m.jobs[t.ID] = j
		m.mu.Unlock()
		if !t.Status.Final() {
			if err := m.resume(ctx, j, t); err != nil {
				return err
			}
		}
	}
	m.work.Go(m.upkeep)
	return nil
}

// resume begins a task anew, or ends it.
func (m *Manager) resume(ctx context.Context, j *job, t Task) error {
	p, err := m.principal(ctx, t.Owner)
	if err != nil {
		return err
	}
	call := command.Call{Principal: p, Surface: t.Call.Surface, Remote: t.Call.Remote, Path: t.Call.Path, Args: t.Call.Args}
	left := t.Deadline.Sub(m.o.Clock())
	var c *command.Command
	if p != nil && t.Call.Args != nil {
		if c, call, err = m.o.Dispatcher.Plan(call); err != nil {
			c = nil // it is not there any more, or not for this owner
		}
	}
	t.Updated = m.later(t)
	switch {
	case p == nil:
		t.Status, t.Message, t.Call.Args = Cancelled, errRevoked.Error(), nil
	case c == nil || !repeatable(c):
		t.fail("the daemon ended while it ran")
	case t.Starts >= maxStarts:
		t.fail(fmt.Sprintf("the daemon ended %d times while it ran", t.Starts))
	case left <= 0:
		t.fail(errDeadline.Error())
	default:
		t.Status, t.Starts, t.Message = Working, t.Starts+1, "begun anew: the daemon ended while it ran"
		if err := m.o.Store.PutTask(ctx, t); err != nil {
			return fmt.Errorf("begin task %s anew: %w", t.ID, err)
		}
		m.mu.Lock()
		j.task = t
		running := m.begin(context.Background(), j, left, true)
		m.mu.Unlock()
		go m.run(running, j, call)
		return nil
	}
	<-j.saving
	defer j.written()
	m.save(j, t)
	return nil
}

// Stop ends what runs, and waits for it until ctx ends. Tasks that can run again
// do so after the next start.
func (m *Manager) Stop(ctx context.Context) error {
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	m.stop(errStopped)
	done := make(chan struct{})
	go func() {
		m.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("some tasks did not end: %w", context.Cause(ctx))
	}
}

// upkeep ends the tasks of owners that are gone and forgets expired ones.
func (m *Manager) upkeep() {
	owners, sweep := time.NewTicker(ownersEvery), time.NewTicker(sweepEvery)
	defer owners.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-owners.C:
			m.checkOwners()
		case <-sweep.C:
			m.sweep()
		}
	}
}

func (m *Manager) checkOwners() {
	owners := map[string][]context.CancelCauseFunc{}
	m.mu.Lock()
	for _, j := range m.jobs {
		if j.cancel != nil {
			owners[j.task.Owner] = append(owners[j.task.Owner], j.cancel)
		}
	}
	m.mu.Unlock()
	for owner, runs := range owners {
		p, err := m.principal(m.ctx, owner)
		switch {
		case err != nil:
			m.log.Warn().Err(err).Msg("cannot tell whether the owner of a running task is still there")
		case p == nil:
			for _, cancel := range runs {
				cancel(errRevoked)
			}
		}
	}
}

// sweep forgets tasks whose time is over, and writes what could not be written.
func (m *Manager) sweep() {
	var expired, unsaved []*job
	m.mu.Lock()
	for _, j := range m.jobs {
		switch {
		case m.expired(j):
			expired = append(expired, j)
		case j.task.Status.Final() && !j.saved:
			unsaved = append(unsaved, j)
		}
	}
	m.mu.Unlock()
	for _, j := range expired {
		if err := m.o.Store.DeleteTask(m.ctx, j.task.ID); err != nil {
			m.log.Warn().Err(err).Str("task", j.task.ID).Msg("an expired task cannot be removed now")
			continue
		}
		m.mu.Lock()
		delete(m.jobs, j.task.ID)
		m.mu.Unlock()
	}
	for _, j := range unsaved {
		<-j.saving
		m.mu.Lock()
		t := j.snapshot()
		m.mu.Unlock()
		m.save(j, t)
		j.written()
	}
}
