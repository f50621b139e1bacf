package task_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/command"
	. "ze.internal/ze/appliance/task"
)

// caller stands for a request whose sender can be asked.
type caller struct {
	answers map[string]json.RawMessage
	slow    time.Duration // how long it takes to say so
}

func (c caller) Ask(_ context.Context, questions []command.Question) (map[string]json.RawMessage, error) {
	time.Sleep(c.slow)
	if c.answers == nil {
		return nil, &command.Error{Code: command.InputRequired, Message: "asked", Err: &command.InputNeeded{Questions: questions}}
	}
	return c.answers, nil
}

func question(key string) command.Question {
	return command.Question{Key: key, Method: "elicitation/create", Params: json.RawMessage(`{}`)}
}

func asks(ctx context.Context, _ *command.Request) (any, error) {
	answers, err := command.Ask(ctx, question("one"), question("two"))
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// A task asks whoever asks how it is, and goes on when everything is answered.
func TestAskInTask(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = asks
		ctx := command.WithAsker(t.Context(), caller{})
		_, task, err := g.Run(ctx, call(alice, "look"), Required, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys := func() (keys string) {
			for _, q := range g.want(t, alice, task.ID, InputRequired).Questions {
				keys += q.Key + " "
			}
			return keys
		}
		if got := keys(); got != "one two " {
			t.Errorf("it asks %q", got)
		}
		reply := func(key, answer string) {
			if err := g.Answer(alice.Owner(), task.ID, map[string]json.RawMessage{key: json.RawMessage(answer)}); err != nil {
				t.Fatal(err)
			}
		}
		reply("three", `{}`)
		reply("two", `{"a":2}`)
		if got := keys(); got != "one " {
			t.Errorf("it asks %q", got)
		}
		reply("two", `{"a":3}`) // answered already
		reply("one", `{"a":1}`)
		done := g.want(t, alice, task.ID, Completed)
		if string(done.Result) != `{"one":{"a":1},"two":{"a":2}}` || len(done.Questions) != 0 {
			t.Errorf("%s, %v", done.Result, done.Questions)
		}
	})
}

// What a call asks before it is a task, its own caller is asked.
func TestAskBeforeTask(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = func(ctx context.Context, r *command.Request) (any, error) {
			if _, err := command.Ask(ctx, question("one")); err != nil {
				return nil, err
			}
			time.Sleep(2 * Patience)
			return answer(1), nil
		}
		_, task, err := g.Run(command.WithAsker(t.Context(), caller{}), call(alice, "look"), Optional, nil)
		if e := command.AsError(err); task != nil || e.Code != command.InputRequired {
			t.Fatalf("task %v, error %v", task, err)
		}
		// Not even when the time comes at which it would be a task.
		_, task, err = g.Run(command.WithAsker(t.Context(), caller{slow: 2 * Patience}), call(alice, "look"), Optional, nil)
		if e := command.AsError(err); task != nil || e.Code != command.InputRequired {
			t.Fatalf("task %v, error %v", task, err)
		}
		answers := map[string]json.RawMessage{"one": json.RawMessage(`{}`)}
		_, task, err = g.Run(command.WithAsker(t.Context(), caller{answers: answers}), call(alice, "look"), Optional, nil)
		if err != nil || task == nil {
			t.Fatalf("task %v, error %v", task, err)
		}
		time.Sleep(2 * Patience)
		g.want(t, alice, task.ID, Completed)
	})
}

// Nobody is asked what it has not said it can answer, and a task that waits for
// an answer can be cancelled.
func TestUnanswered(t *testing.T) {
	bubble(t, Limits{}, func(t *testing.T, g *rig) {
		g.run = asks
		ctx := command.WithAsker(t.Context(), caller{})
		_, task, err := g.Run(ctx, call(alice, "look"), Required, json.RawMessage(`{"mute":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		if done := g.want(t, alice, task.ID, Completed); done.Error == nil || done.Error.Code != command.Conflict {
			t.Errorf("%+v", done)
		}
		if _, task, err = g.Run(ctx, call(alice, "look"), Required, nil); err != nil {
			t.Fatal(err)
		}
		g.want(t, alice, task.ID, InputRequired)
		if err := g.Cancel(alice.Owner(), task.ID); err != nil {
			t.Fatal(err)
		}
		g.want(t, alice, task.ID, Cancelled)
	})
}

// No key is used twice in the life of a task.
func TestAskAgainAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, Limits{})
		g.run = asks
		g.start(t)
		_, task, err := g.Run(command.WithAsker(t.Context(), caller{}), call(alice, "look"), Required, nil)
		if err != nil {
			t.Fatal(err)
		}
		g.want(t, alice, task.ID, InputRequired)
		g.stop(t)

		again := newRigOn(t, g.store, Limits{})
		again.run = asks
		again.start(t)
		defer again.stop(t)
		waiting := again.want(t, alice, task.ID, InputRequired)
		answers := map[string]json.RawMessage{}
		for _, q := range waiting.Questions {
			if q.Key == "one" || q.Key == "two" {
				t.Errorf("the key %s comes back", q.Key)
			}
			answers[q.Key] = json.RawMessage(`{}`)
		}
		if err := again.Answer(alice.Owner(), task.ID, answers); err != nil {
			t.Fatal(err)
		}
		if done := again.want(t, alice, task.ID, Completed); string(done.Result) != `{"one":{},"two":{}}` {
			t.Errorf("%s", done.Result)
		}
	})
}
