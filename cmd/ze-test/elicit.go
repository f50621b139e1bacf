package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ze.internal/ze/mcp/client"
)

// answer is a queued answer to the next question.
type answer struct {
	action string // accept, decline, cancel, omit or none
	value  string // of accept
	line   int
}

func parseElicit(rest string) (step, error) {
	action, value, _ := strings.Cut(rest, " ")
	value = strings.TrimSpace(value)
	switch action {
	case "accept":
	case "decline", "cancel", "omit", "none":
		if value != "" {
			return nil, errForm
		}
	default:
		return nil, errForm
	}
	return func(_ context.Context, r *runner) (outcome, error) {
		r.queue = append(r.queue, answer{action, value, r.line})
		return outcome{}, nil
	}, nil
}

func elicitExtra(_ context.Context, r *runner, key string) (outcome, error) {
	if r.extra = key; key == "-" {
		r.extra = ""
	}
	return outcome{}, nil
}

// answers takes an answer from the queue for each question.
func (r *runner) answers(questions map[string]client.Question) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		if len(r.queue) == 0 {
			return nil, fmt.Errorf("the server asks %q, and no answer is queued: %s", key, questions[key].Params)
		}
		next := r.queue[0]
		r.queue = r.queue[1:]
		switch next.action {
		case "none":
			return nil, nil
		case "omit":
			continue
		}
		a, err := next.encode(questions[key])
		if err != nil {
			return nil, fmt.Errorf("answer %q: %w", key, err)
		}
		out[key] = a
	}
	if r.extra != "" {
		out[r.extra] = json.RawMessage(`{"action":"accept","content":{}}`)
		r.extra = ""
	}
	return out, nil
}

// encode returns the answer as it is sent (page client/elicitation).
func (a answer) encode(q client.Question) (json.RawMessage, error) {
	if q.Method != "elicitation/create" {
		return nil, fmt.Errorf("it is %s; only elicitation/create can be answered", q.Method)
	}
	var params struct {
		Mode   string `json:"mode"`
		Schema struct {
			Properties map[string]struct {
				Type string `json:"type"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	if err := json.Unmarshal(q.Params, &params); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	out := struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content,omitempty"`
	}{Action: a.action}
	if a.action == "accept" && params.Mode != "url" {
		switch {
		case a.value == "":
			out.Content = json.RawMessage("{}")
		case strings.HasPrefix(a.value, "{"):
			if out.Content = json.RawMessage(a.value); !json.Valid(out.Content) {
				return nil, fmt.Errorf("%s is no JSON", a.value)
			}
		case len(params.Schema.Properties) != 1:
			return nil, errors.New("the form has not just one field; queue a JSON object")
		}
		if out.Content == nil {
			for name, p := range params.Schema.Properties {
				value := json.RawMessage(a.value)
				if p.Type == "string" || !json.Valid(value) {
					value, _ = json.Marshal(a.value) // a string always can be
				}
				var err error
				if out.Content, err = json.Marshal(map[string]json.RawMessage{name: value}); err != nil {
					return nil, err
				}
			}
		}
	}
	return json.Marshal(out)
}
