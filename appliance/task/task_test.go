package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	. "ze.internal/ze/appliance/task"
)

// A command that answers soon is answered, one that does not becomes a task.
func TestOptional(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = after(Patience - time.Millisecond)
		result, task, err := g.Run(t.Context(), call(alice, "look"), Optional, nil)
		if err != nil || task != nil || string(result.JSON) != `{"n":7}` {
			t.Fatalf("result %v, task %v, error %v", result, task, err)
		}
		if g.store.puts != 0 || len(g.List(alice.Owner())) != 0 {
			t.Errorf("a call that was answered left a task")
		}
		g.run = after(2 * Patience)
		began := time.Now()
		result, task, err = g.Run(t.Context(), call(alice, "act"), Optional, nil)
		if err != nil || task == nil || result != nil || time.Since(began) != Patience {
			t.Fatalf("after %v: result %v, task %v, error %v", time.Since(began), result, task, err)
		}
		if kept, err := g.store.Task(t.Context(), task.ID); err != nil || kept.Status != Working {
			t.Errorf("the store has %+v, %v", kept, err)
		}
		time.Sleep(Patience)
		done := g.want(t, alice, task.ID, Completed)
		if string(done.Result) != `{"n":7}` || !done.Updated.After(done.Created) {
			t.Errorf("%+v", done)
		}
	})
}

// Errors of a command are answers, defects are not.
func TestHowRunsEnd(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		for name, row := range map[string]struct {
			err    error
			status Status
		}{
			"conflict":          {&command.Error{Code: command.Conflict, Message: "no"}, Completed},
			"defect":            {errors.New("disk on fire"), Failed},
			"timeout of a part": {fmt.Errorf("ask the speaker: %w", context.DeadlineExceeded), Completed},
			"declined":          {&command.Error{Code: command.Canceled, Message: "the person said no"}, Completed},
		} {
			g.run = func(context.Context, *command.Request) (any, error) { return nil, row.err }
			task := g.want(t, alice, g.begin(t, alice, "look").ID, row.status)
			if task.Error == nil || row.status == Failed && (task.Message == "" || task.Error.Code != command.Internal) {
				t.Errorf("%s: %+v", name, task)
			}
		}
		g.run = func(context.Context, *command.Request) (any, error) { panic("boom") }
		if task := g.want(t, alice, g.begin(t, alice, "look").ID, Failed); task.Error.Code != command.Internal {
			t.Errorf("%+v", task)
		}
		g.run = func(context.Context, *command.Request) (any, error) {
			return &command.Answer{Content: json.RawMessage(`[]`), Failed: true}, nil
		}
		if task := g.want(t, alice, g.begin(t, alice, "look").ID, Completed); task.Answer == nil || !task.Answer.Failed || task.Answer.Structured != nil {
			t.Errorf("%+v", task.Answer)
		}
	})
}

// What cannot run makes no task.
func TestNothingToRun(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		for line, code := range map[string]command.Code{"look x": command.Invalid, "lok": command.Unknown, "act": command.Unknown} {
			_, task, err := g.Run(t.Context(), call(bob, line), Required, nil)
			if e := command.AsError(err); task != nil || e == nil || e.Code != code {
				t.Errorf("%s: %v, %v", line, task, err)
			}
		}
		if g.store.puts != 0 {
			t.Errorf("%d tasks written", g.store.puts)
		}
	})
}

// Whoever goes away before the call is a task ends it; after that nobody does so
// by going away.
func TestCallerGoesAway(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		ctx, cancel := context.WithTimeout(t.Context(), Patience/2)
		defer cancel()
		_, task, err := g.Run(ctx, call(alice, "look"), Optional, nil)
		if task != nil || err == nil {
			t.Errorf("task %v, error %v", task, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		if _, task, err = g.Run(ctx, call(alice, "look"), Optional, nil); err != nil || task == nil {
			t.Fatalf("task %v, error %v", task, err)
		}
		cancel()
		g.want(t, alice, task.ID, Working)
	})
}

// A foreign task is as unknown as one that does not exist.
func TestOwners(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		id := g.begin(t, alice, "look").ID
		for _, ask := range []func(owner, id string) error{
			func(owner, id string) error { _, err := g.Get(t.Context(), owner, id); return err },
			func(owner, id string) error { return g.Cancel(owner, id) },
			func(owner, id string) error { return g.Answer(owner, id, nil) },
		} {
			foreign, unknown := ask(bob.Owner(), id), ask(alice.Owner(), "x")
			if !errors.Is(foreign, ErrNoTask) || !errors.Is(unknown, ErrNoTask) {
				t.Errorf("foreign %v, unknown %v", foreign, unknown)
			}
		}
		if w := g.Watch(bob.Owner(), []string{id}); len(w.IDs) != 0 {
			t.Errorf("bob watches %v", w.IDs)
		}
		rotated := *alice
		rotated.Accessor, rotated.Origin = "a2", "a1"
		if len(g.List(rotated.Owner())) != 1 || len(g.List(bob.Owner())) != 0 {
			t.Errorf("alice has %v, bob %v", g.List(rotated.Owner()), g.List(bob.Owner()))
		}
		g.want(t, alice, id, Working)
	})
}

func TestCancel(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		id := g.begin(t, alice, "look").ID
		if err := g.Cancel(alice.Owner(), id); err != nil {
			t.Fatal(err)
		}
		task := g.want(t, alice, id, Cancelled)
		if err := g.Cancel(alice.Owner(), id); err != nil { // once more changes nothing
			t.Error(err)
		}
		if again := g.want(t, alice, id, Cancelled); again.Updated != task.Updated || again.Message != task.Message {
			t.Errorf("%+v became %+v", task, again)
		}
		// One that has done its work all the same says so.
		g.run = func(ctx context.Context, _ *command.Request) (any, error) { <-ctx.Done(); return answer(1), nil }
		id = g.begin(t, alice, "look").ID
		if err := g.Cancel(alice.Owner(), id); err != nil {
			t.Fatal(err)
		}
		g.want(t, alice, id, Completed)
	})
}

func TestDeadlineAndTTL(t *testing.T) {
	bubble(t, Limits{Deadline: time.Minute, TTL: 10 * time.Minute}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		id := g.begin(t, alice, "look").ID
		time.Sleep(time.Minute)
		if task := g.want(t, alice, id, Failed); task.Message != "it ran longer than a task may" {
			t.Errorf("%+v", task)
		}
		time.Sleep(9*time.Minute - time.Millisecond)
		g.want(t, alice, id, Failed)
		time.Sleep(time.Millisecond)
		if _, err := g.Get(t.Context(), alice.Owner(), id); !errors.Is(err, ErrNoTask) {
			t.Errorf("an expired task: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(g.store.kept) != 0 {
			t.Errorf("the store still has %d", len(g.store.kept))
		}
	})
}

func TestLimits(t *testing.T) {
	bubble(t, Limits{Running: 2, Kept: 3, TTL: time.Hour}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		first := g.begin(t, alice, "look").ID
		g.begin(t, alice, "look")
		_, task, err := g.Run(t.Context(), call(alice, "look"), Required, nil)
		if e := command.AsError(err); task != nil || e.Code != command.Limit || e.RetryAfter == 0 {
			t.Errorf("a third one: %v, %v", task, err)
		}
		g.begin(t, bob, "look") // others have their own
		synctest.Wait()
		// There the caller waits.
		g.run = after(5 * time.Second)
		result, task, err := g.Run(t.Context(), call(alice, "look"), Optional, nil)
		if err != nil || task != nil || result == nil {
			t.Errorf("result %v, task %v, error %v", result, task, err)
		}
		if err := g.Cancel(alice.Owner(), first); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g.run = untilEnded
		g.begin(t, alice, "look")
		g.SetLimits(Limits{Running: 5, Kept: 3})
		_, _, err = g.Run(t.Context(), call(alice, "look"), Required, nil)
		if e := command.AsError(err); e.Code != command.Limit || e.RetryAfter <= 0 {
			t.Errorf("a fourth one: %+v", e)
		}
		time.Sleep(time.Hour) // the first is forgotten, and the others have run too long
		synctest.Wait()
		g.begin(t, alice, "look")
	})
}

// A revoked credential ends what runs for it.
func TestOwnerIsGone(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = untilEnded
		id, other := g.begin(t, alice, "look").ID, g.begin(t, bob, "look").ID
		g.gone.Store(alice.Owner(), true)
		time.Sleep(time.Second)
		if task := g.want(t, alice, id, Cancelled); task.Message == "" {
			t.Errorf("%+v", task)
		}
		g.want(t, bob, other, Working)
	})
}

// Progress is seen by whoever waits, then by whoever asks how the task is.
func TestProgress(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		step := make(chan command.Progress)
		g.run = func(ctx context.Context, _ *command.Request) (any, error) {
			for p := range step {
				command.Report(ctx, p)
			}
			return answer(1), nil
		}
		var heard []string
		ctx := command.WithProgress(t.Context(), func(p command.Progress) { heard = append(heard, p.Message) })
		go func() { step <- command.Progress{Message: "early"} }()
		_, task, err := g.Run(ctx, call(alice, "look"), Optional, nil)
		if err != nil || task == nil || task.Message != "early" {
			t.Fatalf("task %+v, error %v", task, err)
		}
		w := g.Watch(alice.Owner(), []string{task.ID, task.ID, "x"})
		defer w.Close()
		changed := func() string {
			<-w.C
			all, err := w.Changed(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%v, %v", all, err)
			}
			return string(all[0].Status) + " " + all[0].Message
		}
		if got := changed(); got != "working early" || len(w.IDs) != 1 {
			t.Errorf("%s, %v", got, w.IDs)
		}
		step <- command.Progress{Done: 2, Total: 5}
		if got := changed(); got != "working 2 of 5" {
			t.Error(got)
		}
		for i := range 100 { // at once: whoever watches hears nothing of it
			step <- command.Progress{Done: float64(i)}
		}
		synctest.Wait()
		select {
		case <-w.C:
			t.Error("a notification for each step")
		default:
		}
		if task := g.get(t, alice, task.ID); task.Message != "99" {
			t.Errorf("%+v", task)
		}
		close(step)
		if got := changed(); got != "completed " {
			t.Error(got)
		}
		if len(heard) != 1 {
			t.Errorf("the caller heard %v after its answer", heard)
		}
	})
}

// A task whose end cannot be written is known all the same, and written later.
func TestStoreFails(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = after(time.Second)
		g.store.breaks(errors.New("no space"))
		_, _, err := g.Run(t.Context(), call(alice, "look"), Required, nil)
		if err == nil || len(g.List(alice.Owner())) != 0 {
			t.Errorf("a task that nobody wrote: %v", err)
		}
		if result, _, err := g.Run(t.Context(), call(alice, "look"), Optional, nil); err != nil || result == nil {
			t.Errorf("result %v, error %v", result, err)
		}
		g.store.breaks(nil)
		id := g.begin(t, alice, "look").ID
		g.store.breaks(errors.New("no space"))
		time.Sleep(2 * time.Second)
		if task := g.want(t, alice, id, Completed); string(task.Result) != `{"n":7}` {
			t.Errorf("%+v", task)
		}
		g.store.breaks(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if kept, err := g.store.Task(t.Context(), id); err != nil || kept.Status != Completed {
			t.Errorf("%+v, %v", kept, err)
		}
	})
}

func TestEventsAndMetrics(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = after(time.Second)
		id := g.begin(t, alice, "look").ID
		time.Sleep(2 * time.Second)
		synctest.Wait()
		var got []string
		for _, e := range g.events.Recent(event.Filter{Owner: alice.Owner()}, 10) {
			got = append(got, e.Type+" "+e.Message)
		}
		want := []string{"task-change task " + id + " is working", "task-change task " + id + " is completed"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		if other := g.events.Recent(event.Filter{Owner: bob.Owner()}, 10); len(other) != 0 {
			t.Errorf("bob learns of %v", other)
		}
	})
}

// A run that ends while it is becoming a task reaches the store in that order.
func TestEndsWhileItBecomesATask(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = after(Patience + time.Second)
		g.store.slow = 2 * time.Second
		_, task, err := g.Run(t.Context(), call(alice, "look"), Optional, nil)
		if err != nil || task == nil {
			t.Fatalf("task %v, error %v", task, err)
		}
		g.want(t, alice, task.ID, Completed)
		if kept, err := g.store.Task(t.Context(), task.ID); err != nil || kept.Status != Completed {
			t.Errorf("the store has %+v, %v", kept, err)
		}
	})
}
