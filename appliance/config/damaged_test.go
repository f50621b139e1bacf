package config_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/config"
)

// lossy stands for a store in which some revisions are damaged.
type lossy struct {
	config.Store
	damaged []uint64
	full    bool
}

func (l lossy) Revision(ctx context.Context, n uint64) (config.Revision, error) {
	if slices.Contains(l.damaged, n) {
		return config.Revision{}, &config.DamagedError{Number: n, Err: errors.New("checksum mismatch")}
	}
	return l.Store.Revision(ctx, n)
}

func (l lossy) LatestRevision(ctx context.Context) (config.Revision, error) {
	r, err := l.Store.LatestRevision(ctx)
	if err != nil {
		return r, err
	}
	return l.Revision(ctx, r.Number)
}

func (l lossy) CommitRevision(ctx context.Context, s config.Step) error {
	if l.full {
		return errors.New("no space")
	}
	return l.Store.CommitRevision(ctx, s)
}

// lossyManager returns one that has no daemon, or one that runs what applied points to.
func (w *world) lossyManager(s config.Store, applied *[]string) *config.Manager {
	o := config.Options{Store: s, Model: w.root, Clock: time.Now, Check: func(context.Context, []byte) error { return nil }}
	if applied != nil {
		o.Apply = func(_ context.Context, r config.Revision) error {
			*applied = append(*applied, string(r.Text))
			return nil
		}
	}
	return config.NewManager(o)
}

// TestDamagedNewest: a newest revision that cannot be read keeps the daemon from
// starting until another one is put in front of it, and that can be done.
func TestDamagedNewest(t *testing.T) {
	for name, replace := range map[string]func(ctx context.Context, m *config.Manager) (config.Revision, error){
		"import": func(ctx context.Context, m *config.Manager) (config.Revision, error) {
			return m.Import(ctx, "x", []byte(named("c")), "")
		},
		"rollback": func(ctx context.Context, m *config.Manager) (config.Revision, error) { return m.Rollback(ctx, "x", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, named("a"), func(t *testing.T, w *world) {
				if _, err := w.m.Import(t.Context(), "x", []byte(named("b")), ""); err != nil {
					t.Fatal(err)
				}
				var applied []string
				store := lossy{Store: w.db, damaged: []uint64{2}}
				m := w.lossyManager(store, nil)
				var damaged *config.DamagedError
				if _, err := m.Resume(t.Context()); !errors.As(err, &damaged) || damaged.Number != 2 {
					t.Fatalf("resume: %v", err)
				}
				if _, err := m.Set(t.Context(), "x", words("environment instance name d")); !errors.As(err, &damaged) {
					t.Errorf("a candidate of it: %v", err)
				}
				if sound, err := m.Sound(t.Context()); err != nil || sound.Number != 1 {
					t.Errorf("sound: %+v, %v", sound, err)
				}
				if _, err := m.Rollback(t.Context(), "x", 2); !errors.As(err, &damaged) {
					t.Errorf("back to the damaged one: %v", err)
				}
				// What could not be kept is not undone with a text that nobody has.
				full := store
				full.full = true
				if _, err := replace(t.Context(), w.lossyManager(full, &applied)); err == nil || len(applied) != 1 {
					t.Errorf("applied %q: %v", applied, err)
				}
				r, err := replace(t.Context(), m)
				if err != nil || r.Number != 3 {
					t.Fatalf("%+v, %v", r, err)
				}
				if now, err := m.Resume(t.Context()); err != nil || now.Number != 3 {
					t.Errorf("resume afterwards: %+v, %v", now, err)
				}
			})
		})
	}
}

// TestDamagedConfirm: one of the two revisions of a commit that nobody confirmed
// in time is damaged.
func TestDamagedConfirm(t *testing.T) {
	for name, damaged := range map[string]uint64{"the commit": 2, "what it goes back to": 1} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, named("a"), func(t *testing.T, w *world) {
				w.edit(t, "x", "environment instance name b")
				if _, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{Confirm: 10 * time.Second}); err != nil {
					t.Fatal(err)
				}
				w.m.Stop()
				time.Sleep(time.Minute)
				synctest.Wait()
				m := w.lossyManager(lossy{Store: w.db, damaged: []uint64{damaged}}, nil)
				running, err := m.Resume(t.Context())
				if damaged == 2 {
					if err != nil || string(running.Text) != named("a") {
						t.Errorf("not taken back: %+v, %v", running, err)
					}
					return
				}
				var lost *config.DamagedError
				if !errors.As(err, &lost) || lost.Number != 1 {
					t.Fatalf("resume: %v", err)
				}
				if r, err := m.Import(t.Context(), "x", []byte(named("c")), ""); err != nil || r.Number != 3 {
					t.Fatalf("import: %+v, %v", r, err)
				}
				if now, err := m.Resume(t.Context()); err != nil || now.Number != 3 {
					t.Errorf("resume afterwards: %+v, %v", now, err)
				}
			})
		})
	}
}

// TestDamagedIsNotEmpty: an empty configuration can take the place of a damaged
// one, which is not taken for the same.
func TestDamagedIsNotEmpty(t *testing.T) {
	inWorld(t, "", func(t *testing.T, w *world) {
		for n := uint64(2); n <= 4; n += 2 {
			if _, err := w.m.Import(t.Context(), "x", []byte(named("b")), ""); err != nil {
				t.Fatal(err)
			}
			m := w.lossyManager(lossy{Store: w.db, damaged: []uint64{n}}, nil)
			replace := func() (config.Revision, error) { return m.Import(t.Context(), "x", nil, "") }
			if n == 2 {
				replace = func() (config.Revision, error) { return m.Rollback(t.Context(), "x", 1) }
			}
			if r, err := replace(); err != nil || r.Number != n+1 || len(r.Text) > 0 {
				t.Errorf("after revision %d: %+v, %v", n, r, err)
			}
		}
	})
}
