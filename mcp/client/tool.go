package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Values of resultType.
const (
	TypeComplete      = "complete"
	TypeInputRequired = "input_required"
	TypeTask          = "task"
)

// maxRounds is how often a call is sent again with answers.
const maxRounds = 4

// Result is the result of tools/call.
type Result struct {
	Type       string          `json:"resultType"`
	Content    []Block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`

	Questions map[string]Question `json:"inputRequests"` // Type is TypeInputRequired
	State     *string             `json:"requestState"`

	Task *Task           `json:"-"` // Type is TypeTask
	Raw  json.RawMessage `json:"-"` // the whole
}

// Block is a content block, as far as it is text.
type Block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Question is what a server asks its caller, such as elicitation/create.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Answers answers questions by their keys. A nil map sends the call again
// without any.
type Answers func(questions map[string]Question) (map[string]json.RawMessage, error)

// Text returns the first block of text.
func (r *Result) Text() string {
	for _, b := range r.Content {
		if b.Type == "text" {
			return b.Text
		}
	}
	return ""
}

// CallTool runs a tool. args is encoded as the argument object; nil sends none.
// answer is told what the server asks; if it is nil, that is an error.
func (c *Client) CallTool(ctx context.Context, tool string, args any, answer Answers) (*Result, error) {
	params := map[string]any{"name": tool}
	if args != nil {
		params["arguments"] = args
	}
	for round := 0; ; round++ {
		raw, err := c.Do(ctx, "tools/call", tool, params)
		if err != nil {
			return nil, err
		}
		r, err := ReadResult(raw)
		switch {
		case err != nil:
			return nil, err
		case r.Type != TypeInputRequired:
			return r, nil
		case answer == nil:
			return nil, fmt.Errorf("the server asks first: %q", slices.Sorted(maps.Keys(r.Questions)))
		case round == maxRounds:
			return nil, fmt.Errorf("the server still asks after %d rounds of answers: %q", maxRounds, slices.Sorted(maps.Keys(r.Questions)))
		}
		answers, err := answer(r.Questions)
		if err != nil {
			return nil, err
		}
		delete(params, "inputResponses")
		delete(params, "requestState")
		if answers != nil {
			params["inputResponses"] = answers
		}
		if r.State != nil {
			params["requestState"] = *r.State
		}
	}
}

// ReadResult reads the result of tools/call, also one that a task kept.
func ReadResult(raw json.RawMessage) (*Result, error) {
	r := &Result{Raw: raw}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if r.Type == TypeTask {
		var err error
		if r.Task, err = readTask(raw); err != nil {
			return nil, err
		}
	}
	return r, nil
}
