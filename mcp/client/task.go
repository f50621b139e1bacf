package client

import (
	"context"
	"encoding/json"
	"fmt"
)

// Task is long work on the server (Tasks extension, its page tasks).
type Task struct {
	ID      string `json:"taskId"`
	Status  string `json:"status"` // working, input_required, completed, failed or cancelled
	Message string `json:"statusMessage"`
	PollMs  int64  `json:"pollIntervalMs"` // milliseconds; 0: the server does not say

	Questions map[string]Question `json:"inputRequests"` // while it is input_required
	Result    json.RawMessage     `json:"result"`        // once completed: what tools/call would have returned
	Error     *RPCError           `json:"error"`         // once failed

	Raw json.RawMessage `json:"-"` // the whole
}

// Ended reports whether the task's state is its last.
func (t *Task) Ended() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

func readTask(raw json.RawMessage) (*Task, error) {
	t := &Task{Raw: raw}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("read the task: %w", err)
	}
	if t.ID == "" || t.Status == "" {
		return nil, fmt.Errorf("read the task: it has no taskId or no status: %.300s", raw)
	}
	return t, nil
}

// Task returns how a task is.
func (c *Client) Task(ctx context.Context, id string) (*Task, error) {
	raw, err := c.Do(ctx, "tasks/get", id, map[string]any{"taskId": id})
	if err != nil {
		return nil, err
	}
	return readTask(raw)
}

// UpdateTask answers questions of a task, by their keys.
func (c *Client) UpdateTask(ctx context.Context, id string, answers map[string]json.RawMessage) error {
	return c.acknowledged(ctx, "tasks/update", id, map[string]any{"taskId": id, "inputResponses": answers})
}

// CancelTask asks a task to end.
func (c *Client) CancelTask(ctx context.Context, id string) error {
	return c.acknowledged(ctx, "tasks/cancel", id, map[string]any{"taskId": id})
}

// acknowledged sends a request whose result says nothing but that it came.
func (c *Client) acknowledged(ctx context.Context, method, id string, params map[string]any) error {
	raw, err := c.Do(ctx, method, id, params)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return fmt.Errorf("read the acknowledgement: %w", err)
	}
	delete(members, "_meta")
	if string(members["resultType"]) != `"`+TypeComplete+`"` || len(members) != 1 {
		return fmt.Errorf("%s was not just acknowledged: %.300s", method, raw)
	}
	return nil
}
