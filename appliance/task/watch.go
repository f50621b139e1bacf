package task

import (
	"context"
	"errors"
)

// Watch tells of the changes of some tasks until it is closed.
type Watch struct {
	// C receives after a change that Changed has not returned yet. It is never
	// closed.
	C <-chan struct{}
	// IDs are the tasks watched: of those asked for, the ones that the owner has.
	IDs []string

	m     *Manager
	owner string
	c     chan struct{}
	dirty map[string]bool // by id of each task: it has changed; guarded by m.mu
}

// Watch returns a watch of tasks of an owner. To begin with all of them count as
// changed, so that nothing that happened meanwhile is lost. Ids that are unknown,
// expired or another's are left out.
func (m *Manager) Watch(owner string, ids []string) *Watch {
	c := make(chan struct{}, 1)
	w := &Watch{C: c, IDs: []string{}, m: m, owner: owner, c: c, dirty: map[string]bool{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if _, err := m.find(owner, id); err == nil && !w.dirty[id] {
			w.dirty[id] = true
			w.IDs = append(w.IDs, id)
		}
	}
	if len(w.IDs) > 0 {
		c <- struct{}{}
	}
	m.watches[w] = struct{}{}
	return w
}

// Changed returns the tasks that have changed since it was called last, each as
// it is now, in the order of IDs.
func (w *Watch) Changed(ctx context.Context) ([]Task, error) {
	w.m.mu.Lock()
	var ids []string
	for _, id := range w.IDs {
		if w.dirty[id] {
			w.dirty[id] = false
			ids = append(ids, id)
		}
	}
	w.m.mu.Unlock()
	var out []Task
	for _, id := range ids {
		t, err := w.m.Get(ctx, w.owner, id)
		switch {
		case err == nil:
			out = append(out, t)
		case !errors.Is(err, ErrNoTask): // expired
			return out, err
		}
	}
	return out, nil
}

// Close ends the watch.
func (w *Watch) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	delete(w.m.watches, w)
}

// notify tells those who watch j that it has changed. The caller holds m.mu.
func (m *Manager) notify(j *job) {
	for w := range m.watches {
		if _, ok := w.dirty[j.task.ID]; !ok {
			continue
		}
		w.dirty[j.task.ID] = true
		select {
		case w.c <- struct{}{}:
		default: // it is told already
		}
	}
}
