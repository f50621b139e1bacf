package config_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ze.internal/ze/appliance/config"
)

// draft is the model of a candidate.
type draft struct {
	base int
	text string
}

// history is the model of a world: the revisions, candidates, and a commit that
// waits.
type history struct {
	w          *world
	revisions  []string
	candidates map[string]draft
	waits      bool
	revertTo   int
	deadline   time.Time
}

func (h *history) newest() string { return h.revisions[len(h.revisions)-1] }

// expire takes back in the model what its time is over for.
func (h *history) expire() {
	if h.waits && !time.Now().Before(h.deadline) {
		h.waits = false
		h.revisions = append(h.revisions, h.revisions[h.revertTo-1])
	}
}

// candidate returns the owner's, or what runs.
func (h *history) candidate(owner string) draft {
	if d, ok := h.candidates[owner]; ok {
		return d
	}
	return draft{len(h.revisions), h.newest()}
}

// outcome holds the error of a commit against the model; it reports whether
// there is a new revision.
func (h *history) outcome(t *rapid.T, err error, f fault) bool {
	switch {
	case f == none && err == nil:
		return true
	case f == refuse && errors.As(err, new(*config.ApplyError)) && errors.Is(err, errRefused),
		f == fail && errors.Is(err, errSpace),
		f == killBefore && errors.Is(err, errKilled):
		return false
	case f == killAfter && errors.Is(err, errKilled):
		return true
	}
	t.Fatalf("with fault %d: %v", f, err)
	return false
}

// recover restarts a world that was killed.
func (h *history) recover(t *rapid.T) {
	h.w.set(none)
	if h.w.killed() {
		h.w.stop(t)
		h.w.start(t)
		h.expire()
	}
}

// TestHistory holds a Manager on a real store against a simple model: two
// people, conflicts, commits that wait, restarts and kills at any point. All
// waiting is in synctest's time.
func TestHistory(t *testing.T) {
	root := model(t)
	base := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		// A *testing.T itself would be asked for its deadline, which is not in this time.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			dir, err := os.MkdirTemp(base, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			h := &history{w: newWorld(t, dir, root), candidates: map[string]draft{}}
			defer func() { h.w.stop(t) }()
			if _, err := h.w.m.Import(context.Background(), "init", []byte(named("a")), ""); err != nil {
				t.Fatal(err)
			}
			h.revisions = []string{named("a")}
			t.Repeat(h.actions())
		})
	})
}

func (h *history) actions() map[string]func(*rapid.T) {
	ctx := context.Background()
	owners, names := rapid.SampledFrom([]string{"alice (a)", "bob (b)"}), rapid.SampledFrom([]string{"a", "b", "c"})
	faults := rapid.SampledFrom([]fault{none, none, none, none, refuse, fail, killBefore, killAfter})
	return map[string]func(*rapid.T){
		"set": func(t *rapid.T) {
			owner, name := owners.Draw(t, "owner"), names.Draw(t, "name")
			d := h.candidate(owner)
			if _, err := h.w.m.Set(ctx, owner, []string{"environment", "instance", "name", name}); err != nil {
				t.Fatal(err)
			}
			d.text = named(name)
			h.candidates[owner] = d
		},
		"delete": func(t *rapid.T) {
			owner := owners.Draw(t, "owner")
			d := h.candidate(owner)
			_, err := h.w.m.Delete(ctx, owner, []string{"environment", "instance", "name"})
			if was := d.text == named(""); was != (err != nil) {
				t.Fatalf("delete from %q: %v", d.text, err)
			} else if !was {
				d.text = named("")
				h.candidates[owner] = d
			}
		},
		"load": func(t *rapid.T) {
			owner, name := owners.Draw(t, "owner"), names.Draw(t, "name")
			d := h.candidate(owner)
			if _, err := h.w.m.Load(ctx, owner, []byte(named(name)), 0); err != nil {
				t.Fatal(err)
			}
			d.text = named(name)
			h.candidates[owner] = d
		},
		"discard": func(t *rapid.T) {
			owner := owners.Draw(t, "owner")
			_, has := h.candidates[owner]
			if err := h.w.m.Discard(ctx, owner); has != (err == nil) || err != nil && !errors.Is(err, config.ErrNoCandidate) {
				t.Fatalf("discard: %v", err)
			}
			delete(h.candidates, owner)
		},
		"commit": func(t *rapid.T) {
			owner, f := owners.Draw(t, "owner"), faults.Draw(t, "fault")
			wait := time.Duration(rapid.SampledFrom([]int{0, 0, 10, 60}).Draw(t, "confirm")) * time.Second
			h.w.set(f)
			rev, until, err := h.w.m.Commit(ctx, owner, config.CommitOptions{Confirm: wait})
			d, has := h.candidates[owner]
			var pending *config.PendingError
			var conflict *config.ConflictError
			switch {
			case h.waits:
				if !errors.As(err, &pending) || int(pending.Confirm.RevertTo) != h.revertTo {
					t.Fatalf("while one waits: %v", err)
				}
			case !has:
				if !errors.Is(err, config.ErrNoCandidate) {
					t.Fatalf("without a candidate: %v", err)
				}
			case d.base != len(h.revisions):
				if !errors.As(err, &conflict) || int(conflict.Base) != d.base || len(conflict.Since) != len(h.revisions)-d.base ||
					(len(conflict.Changed) > 0) != (h.revisions[d.base-1] != h.newest()) {
					t.Fatalf("over a changed base: %v", err)
				}
			case d.text == h.newest():
				if !errors.Is(err, config.ErrUnchanged) {
					t.Fatalf("without a change: %v", err)
				}
			case h.outcome(t, err, f):
				h.revisions = append(h.revisions, d.text)
				delete(h.candidates, owner)
				if wait > 0 {
					h.waits, h.revertTo, h.deadline = true, len(h.revisions)-1, time.Now().Add(wait)
				}
				if err == nil && (int(rev.Number) != len(h.revisions) || until.IsZero() != (wait == 0)) {
					t.Fatalf("committed %+v until %v", rev, until)
				}
			}
			h.recover(t)
		},
		"confirm": func(t *rapid.T) {
			c, err := h.w.m.Confirm(ctx, "alice")
			if h.waits != (err == nil) || err != nil && !errors.Is(err, config.ErrNoConfirm) || h.waits && int(c.RevertTo) != h.revertTo {
				t.Fatalf("confirm %+v: %v", c, err)
			}
			h.waits = false
		},
		"rollback": func(t *rapid.T) {
			n, f := rapid.IntRange(0, len(h.revisions)+1).Draw(t, "number"), faults.Draw(t, "fault")
			h.w.set(f)
			_, err := h.w.m.Rollback(ctx, "alice", uint64(n))
			switch {
			case n == 0 || n > len(h.revisions):
				if !errors.Is(err, config.ErrNoRevision) {
					t.Fatalf("rollback %d: %v", n, err)
				}
			case h.revisions[n-1] == h.newest():
				if !errors.Is(err, config.ErrUnchanged) {
					t.Fatalf("rollback to the same: %v", err)
				}
			case h.outcome(t, err, f):
				h.revisions = append(h.revisions, h.revisions[n-1])
				h.waits = false
			}
			h.recover(t)
		},
		"import": func(t *rapid.T) {
			name, f := names.Draw(t, "name"), faults.Draw(t, "fault")
			h.w.set(f)
			_, err := h.w.m.Import(ctx, "alice", []byte(named(name)), "")
			switch {
			case h.waits:
				if !errors.As(err, new(*config.PendingError)) {
					t.Fatalf("while one waits: %v", err)
				}
			case named(name) == h.newest():
				if err != nil {
					t.Fatalf("import of what runs: %v", err)
				}
			case h.outcome(t, err, f):
				h.revisions = append(h.revisions, named(name))
			}
			h.recover(t)
		},
		"reload": func(t *rapid.T) {
			if err := h.w.m.Reload(ctx); err != nil {
				t.Fatal(err)
			}
		},
		"time passes": func(t *rapid.T) {
			time.Sleep(time.Duration(rapid.SampledFrom([]int{1, 9, 30, 120}).Draw(t, "seconds")) * time.Second)
			synctest.Wait()
			h.expire()
		},
		"restart": func(t *rapid.T) {
			h.w.stop(t)
			time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 20, 120}).Draw(t, "seconds")) * time.Second)
			h.w.start(t)
			h.expire()
		},
		"": h.check,
	}
}

// check holds everything that can be seen against the model.
func (h *history) check(t *rapid.T) {
	ctx := context.Background()
	all, err := h.w.m.History(ctx)
	if err != nil || len(all) != len(h.revisions) {
		t.Fatalf("%d revisions, want %d: %v", len(all), len(h.revisions), err)
	}
	for i, want := range h.revisions {
		r, err := h.w.m.Revision(ctx, uint64(i+1))
		if err != nil || string(r.Text) != want || all[len(all)-1-i].Number != r.Number {
			t.Fatalf("revision %d is %q, want %q: %v", i+1, r.Text, want, err)
		}
	}
	if h.w.runs() != h.newest() {
		t.Fatalf("the daemon runs %q, and the newest revision is %q", h.w.runs(), h.newest())
	}
	for _, owner := range []string{"alice (a)", "bob (b)"} {
		c, err := h.w.m.Candidate(ctx, owner)
		if want := h.candidate(owner); err != nil || string(c.Text) != want.text || int(c.Base) != want.base {
			t.Fatalf("candidate of %s is %q of %d, want %+v: %v", owner, c.Text, c.Base, want, err)
		}
		diff, err := h.w.m.Diff(ctx, owner)
		if err != nil || (diff == "") != (h.candidate(owner).text == h.newest()) {
			t.Fatalf("diff of %s: %q, %v", owner, diff, err)
		}
	}
	c, err := h.w.m.Waiting(ctx)
	if h.waits != (err == nil) || h.waits && (!c.Deadline.Equal(h.deadline) || int(c.RevertTo) != h.revertTo) {
		t.Fatalf("waits: %+v, %v; want %v until %v", c, err, h.waits, h.deadline)
	}
}
