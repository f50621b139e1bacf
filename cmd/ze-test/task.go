package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"ze.internal/ze/mcp/client"
)

// lastTask stands for the id of the last task that was called.
const lastTask = "$LAST"

func (r *runner) taskID(id string) (string, error) {
	if id != lastTask {
		return id, nil
	}
	if r.task == "" {
		return "", errors.New(lastTask + " names no task yet: no task-call has passed")
	}
	return r.task, nil
}

func taskCall(ctx context.Context, r *runner, c call) (outcome, error) {
	result, err := c.send(ctx, r)
	switch {
	case err != nil:
		return outcome{}, err
	case result.IsError:
		return outcome{}, &client.ToolError{Text: result.Text()}
	case result.Task == nil:
		return outcome{}, fmt.Errorf("the answer is no task: its resultType is %q", result.Type)
	}
	r.task = result.Task.ID
	return taskOutcome(result.Task), nil
}

func taskOutcome(t *client.Task) outcome {
	text := t.ID + " " + t.Status
	if t.Message != "" {
		text += ": " + t.Message
	}
	return outcome{text, t.Raw}
}

func taskGet(ctx context.Context, r *runner, id string) (outcome, error) {
	id, err := r.taskID(id)
	if err != nil {
		return outcome{}, err
	}
	t, err := r.client.Task(ctx, id)
	if err != nil {
		return outcome{}, err
	}
	return taskOutcome(t), nil
}

// awaitTask polls until the task is as done says.
func (r *runner) awaitTask(ctx context.Context, id string, done func(*client.Task) (bool, error)) (t *client.Task, err error) {
	if id, err = r.taskID(id); err != nil {
		return nil, err
	}
	var wrong error // what no waiting can mend
	err = r.until(ctx, func(ctx context.Context) (string, error) {
		if t, err = r.client.Task(ctx, id); err != nil {
			return "", err
		}
		var reached bool
		if reached, wrong = done(t); reached || wrong != nil {
			return "", nil
		}
		return "it is " + t.Status, nil
	})
	if err == nil {
		err = wrong
	}
	return t, err
}

func taskWait(ctx context.Context, r *runner, id, state string) (outcome, error) {
	t, err := r.awaitTask(ctx, id, func(t *client.Task) (bool, error) {
		if t.Status != state && t.Ended() {
			return false, fmt.Errorf("the task has ended %s%s", t.Status, reason(t))
		}
		return t.Status == state, nil
	})
	if err != nil {
		return outcome{}, err
	}
	return taskOutcome(t), nil
}

func taskResult(ctx context.Context, r *runner, id string) (outcome, error) {
	t, err := r.awaitTask(ctx, id, func(t *client.Task) (bool, error) { return t.Ended(), nil })
	switch {
	case err != nil:
		return outcome{}, err
	case t.Status != "completed":
		return outcome{}, fmt.Errorf("the task has ended %s%s", t.Status, reason(t))
	}
	result, err := client.ReadResult(t.Result)
	if err != nil {
		return outcome{}, err
	}
	return finished(result)
}

// reason says what is known of why a task has ended.
func reason(t *client.Task) string {
	switch {
	case t.Error != nil:
		return fmt.Sprintf(", error %d: %s", t.Error.Code, t.Error.Message)
	case t.Message != "":
		return ": " + t.Message
	}
	return ""
}

// taskUpdate sends the answers given, or the queued ones to what the task asks.
func taskUpdate(ctx context.Context, r *runner, id string, answers map[string]json.RawMessage) (outcome, error) {
	id, err := r.taskID(id)
	if err != nil {
		return outcome{}, err
	}
	if answers == nil {
		t, err := r.client.Task(ctx, id)
		if err != nil {
			return outcome{}, err
		}
		if answers, err = r.answers(t.Questions); err != nil {
			return outcome{}, err
		}
	}
	return outcome{}, r.client.UpdateTask(ctx, id, answers)
}

func taskCancel(ctx context.Context, r *runner, id string) (outcome, error) {
	id, err := r.taskID(id)
	if err != nil {
		return outcome{}, err
	}
	return outcome{}, r.client.CancelTask(ctx, id)
}
