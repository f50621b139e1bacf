package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/task"
)

// Tasks knows the tasks there are; task.Manager says what the methods do.
type Tasks interface {
	List(owner string) []task.Task
	Get(ctx context.Context, owner, id string) (task.Task, error)
	Cancel(owner, id string) error
}

type taskEntry struct {
	ID      string    `json:"id"`
	Command string    `json:"command"`
	Status  string    `json:"status"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Expires time.Time `json:"expires"`
	Result  string    `json:"result,omitempty"`
	Error   string    `json:"error,omitempty"`
}

func taskView(t task.Task) taskEntry {
	e := taskEntry{
		ID: t.ID, Command: strings.Join(t.Call.Path, " "), Status: string(t.Status), Message: t.Message,
		Created: t.Created.UTC(), Updated: t.Updated.UTC(), Expires: t.Created.Add(t.TTL).UTC(), Result: string(t.Result),
	}
	switch {
	case t.Error != nil:
		e.Error = t.Error.Error()
	case t.Answer != nil && t.Answer.Content != nil:
		e.Result = string(t.Answer.Content)
	}
	return e
}

func (d Deps) task(r runs) {
	type in struct {
		Task string `json:"task"`
	}
	r["show-task"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in in
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		out := struct {
			Tasks []taskEntry `json:"task"`
		}{[]taskEntry{}}
		if in.Task != "" {
			t, err := d.Tasks.Get(ctx, r.Principal.Owner(), in.Task)
			out.Tasks = append(out.Tasks, taskView(t))
			return out, taskFailure(in.Task, err)
		}
		for _, t := range d.Tasks.List(r.Principal.Owner()) {
			out.Tasks = append(out.Tasks, taskView(t))
		}
		return out, nil
	}
	r["show-task-result"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in in
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		t, err := d.Tasks.Get(ctx, r.Principal.Owner(), in.Task)
		if err != nil {
			return nil, taskFailure(in.Task, err)
		}
		e := taskView(t)
		return struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Result string `json:"result,omitempty"`
			Error  string `json:"error,omitempty"`
		}{e.ID, e.Status, e.Result, e.Error}, nil
	}
	r["request-task-cancel"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in in
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		err := d.Tasks.Cancel(r.Principal.Owner(), in.Task)
		var t task.Task
		if err == nil {
			t, err = d.Tasks.Get(ctx, r.Principal.Owner(), in.Task)
		}
		return struct {
			ID     string      `json:"id"`
			Status task.Status `json:"status"`
		}{t.ID, t.Status}, taskFailure(in.Task, err)
	}
}

func taskFailure(id string, err error) error {
	if !errors.Is(err, task.ErrNoTask) {
		return err
	}
	return &command.Error{Code: command.NotFound, Field: "task", Message: fmt.Sprintf("you have no task %q; it may have been forgotten when its time was over", id),
		Actions: []string{"show task"}, Err: err}
}
