package task_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	. "ze.internal/ze/appliance/task"
)

// What becomes of a task when the daemon ends while it runs.
func TestRestart(t *testing.T) {
	for name, row := range map[string]struct {
		line   string
		starts int // before
		gone   bool
		passed time.Duration // while there was no daemon
		status Status
		says   string
	}{
		"read":                  {line: "look 5", starts: 1, status: Completed},
		"change":                {line: "act 5", starts: 1, status: Failed, says: "the daemon was stopped while it ran"},
		"with a secret":         {line: "hush s", starts: 1, status: Failed, says: "the daemon was stopped while it ran"},
		"too often":             {line: "look 5", starts: 3, status: Failed, says: "the daemon ended 3 times while it ran"},
		"without an owner":      {line: "look 5", starts: 1, gone: true, status: Cancelled, says: "its owner's credential is no longer valid"},
		"later than it may run": {line: "look 5", starts: 1, passed: 2 * time.Hour, status: Failed, says: "it ran longer than a task may"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, Limits{})
				g.run = untilEnded
				g.start(t)
				id := g.begin(t, alice, row.line).ID
				g.stop(t)
				if row.starts > 1 {
					kept, err := g.store.Task(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					kept.Starts = row.starts
					if err := g.store.PutTask(t.Context(), kept); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(row.passed)
				again := newRigOn(t, g.store, Limits{})
				if row.gone {
					again.gone.Store(alice.Owner(), true)
				}
				again.run = func(_ context.Context, r *command.Request) (any, error) {
					var in struct{ N int }
					return answer(in.N), r.Bind(&in)
				}
				again.start(t)
				defer again.stop(t)
				task := again.want(t, alice, id, row.status)
				if task.Message != row.says {
					t.Errorf("message %q, want %q", task.Message, row.says)
				}
				if row.status == Completed && string(task.Result) != `{"n":0}` {
					t.Errorf("result %s", task.Result)
				}
			})
		})
	}
}

// A daemon that was killed has written nothing about the end.
func TestRestartAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Limits{})
		kept := Task{ID: "x", Owner: alice.Owner(), Call: Call{Path: []string{"act"}, Surface: "test", Principal: "alice"},
			Status: Working, Created: time.Now(), Updated: time.Now(), TTL: time.Hour, Deadline: time.Now().Add(time.Hour), Starts: 1}
		if err := g.store.PutTask(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		g.start(t)
		defer g.stop(t)
		task := g.want(t, alice, "x", Failed)
		if task.Message != "the daemon ended while it ran" || task.Error == nil || task.Error.Code != command.Internal {
			t.Errorf("%+v", task)
		}
	})
}

// A newer daemon may hold that a command must not run twice.
func TestRestartDeclaredOtherwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Limits{})
		g.run = func(context.Context, *command.Request) (any, error) { return answer(1), nil }
		kept := Task{ID: "x", Owner: alice.Owner(), Call: Call{Path: []string{"act"}, Args: []byte(`{}`), Surface: "test", Principal: "alice"},
			Status: Working, Created: time.Now(), Updated: time.Now(), TTL: time.Hour, Deadline: time.Now().Add(time.Hour), Starts: 1}
		if err := g.store.PutTask(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		g.start(t)
		defer g.stop(t)
		g.want(t, alice, "x", Failed)
	})
}

// A command that its caller may not run any more is not begun anew.
func TestRestartWithLessRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Limits{})
		g.run = untilEnded
		g.start(t)
		id := g.begin(t, bob, "look").ID
		g.stop(t)
		denied := *bob
		denied.Deny = []string{"look"}
		ran := false
		again := New(Options{
			Store:     g.store,
			Principal: func(context.Context, string) (*access.Principal, error) { return &denied, nil },
			Dispatcher: newDispatcher(t, func(context.Context, *command.Request) (any, error) {
				ran = true
				return answer(1), nil
			}),
		})
		if err := again.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if task, err := again.Get(t.Context(), bob.Owner(), id); err != nil || task.Status != Failed || ran {
			t.Errorf("%+v, %v, ran %v", task, err, ran)
		}
		if err := again.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Nothing begins while the daemon ends.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Limits{})
		g.run = untilEnded
		g.start(t)
		waiting := make(chan error)
		go func() {
			_, _, err := g.Run(t.Context(), call(alice, "look"), Optional, nil)
			waiting <- err
		}()
		synctest.Wait()
		g.stop(t)
		if err := <-waiting; err == nil {
			t.Error("a call that was cut off had an answer")
		}
		_, task, err := g.Run(t.Context(), call(alice, "look"), Required, nil)
		if e := command.AsError(err); task != nil || e.Code != command.Unavailable {
			t.Errorf("task %v, error %v", task, err)
		}
	})
}

// A door that is about to close ends what waits behind it, and no task.
func TestEnding(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = func(ctx context.Context, _ *command.Request) (any, error) {
			select {
			case <-command.Ending(ctx):
				return answer(1), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		soon := make(chan struct{})
		ctx := command.WithEnding(t.Context(), soon)
		_, task, err := g.Run(ctx, call(alice, "look"), Optional, nil)
		if err != nil || task == nil {
			t.Fatalf("task %v, error %v", task, err)
		}
		time.AfterFunc(Patience/2, func() { close(soon) })
		result, other, err := g.Run(ctx, call(alice, "look"), Optional, nil)
		if err != nil || other != nil || result == nil {
			t.Errorf("result %v, task %v, error %v", result, other, err)
		}
		g.want(t, alice, task.ID, Working)
	})
}
