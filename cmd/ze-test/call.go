package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ze.internal/ze/mcp/client"
)

// executeTool runs a command line.
const executeTool = "ze_execute"

// call is what a directive asks for: a tool with its arguments.
type call struct {
	tool string
	args json.RawMessage // nil sends none
}

// parseCall reads @TOOL [JSON], or a command line.
func parseCall(text string) (call, error) {
	name, isTool := strings.CutPrefix(text, "@")
	if !isTool {
		if text == "" {
			return call{}, errForm
		}
		args, err := json.Marshal(map[string]string{"command": text})
		return call{executeTool, args}, err
	}
	name, args, _ := strings.Cut(name, " ")
	if name == "" {
		return call{}, errors.New("the tool has no name")
	}
	c := call{tool: name}
	if args = strings.TrimSpace(args); args != "" {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(args), &object); err != nil {
			return c, fmt.Errorf("the arguments are no JSON object: %w", err)
		}
		c.args = json.RawMessage(args)
	}
	return c, nil
}

func parseCallWith(run func(ctx context.Context, r *runner, c call) (outcome, error)) func(string) (step, error) {
	return func(rest string) (step, error) {
		c, err := parseCall(rest)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, r *runner) (outcome, error) { return run(ctx, r, c) }, nil
	}
}

// send runs the tool with the queued answers to what the server asks.
func (c call) send(ctx context.Context, r *runner) (*client.Result, error) {
	var args any
	if c.args != nil {
		args = c.args
	}
	var answers client.Answers
	if len(r.queue) > 0 {
		answers = r.answers
	}
	return r.client.CallTool(ctx, c.tool, args, answers)
}

// run is the directive that has no name: the call must succeed.
func (c call) run(ctx context.Context, r *runner) (outcome, error) {
	result, err := c.send(ctx, r)
	switch {
	case err != nil:
		return outcome{}, err
	case result.Task != nil:
		return outcome{}, fmt.Errorf("the call has become task %s; where that is meant, use task-call", result.Task.ID)
	}
	return finished(result)
}

// finished is the outcome of a call that has ended.
func finished(r *client.Result) (outcome, error) {
	if r.IsError {
		return outcome{}, &client.ToolError{Text: r.Text()}
	}
	o := outcome{answer: r.Structured}
	if o.answer == nil {
		if o.answer = json.RawMessage(r.Text()); !json.Valid(o.answer) {
			var err error
			if o.answer, err = json.Marshal(r.Text()); err != nil {
				return o, err
			}
		}
	}
	if o.text = string(r.Structured); o.text == "" {
		o.text = r.Text()
	}
	return o, nil
}

func callSync(ctx context.Context, r *runner, c call) (outcome, error) {
	result, err := c.send(ctx, r)
	switch {
	case err != nil:
		return outcome{}, err
	case result.Task != nil:
		return outcome{}, fmt.Errorf("the answer is task %s, not synchronous", result.Task.ID)
	case result.Type != client.TypeComplete:
		return outcome{}, fmt.Errorf("the answer's resultType is %q, want %q", result.Type, client.TypeComplete)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(result.Raw, &members); err != nil {
		return outcome{}, fmt.Errorf("read the result: %w", err)
	}
	if _, ok := members["taskId"]; ok {
		return outcome{}, errors.New("a synchronous answer has a taskId")
	}
	return finished(result)
}

// peerList is what show bgp answers, as far as it is looked at.
type peerList struct {
	Peers []struct {
		Name  string `json:"name"`
		State string `json:"state"`
	} `json:"peer"`
}

func (r *runner) peers(ctx context.Context) (p peerList, answer json.RawMessage, err error) {
	answer, err = r.client.Call(ctx, executeTool, map[string]string{"command": "show bgp"})
	if err != nil {
		return p, nil, err
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return p, nil, fmt.Errorf("read the answer of show bgp: %w", err)
	}
	return p, answer, nil
}

// waitEstablished tests the state of the named peers, not of whichever comes
// first, and not what descriptions say.
func waitEstablished(ctx context.Context, r *runner, names []string) (o outcome, err error) {
	err = r.until(ctx, func(ctx context.Context) (string, error) {
		p, answer, err := r.peers(ctx)
		if err != nil {
			return "", err
		}
		o.answer = answer
		states := map[string]string{}
		for _, peer := range p.Peers {
			states[peer.Name] = peer.State
		}
		wanted := names
		if len(wanted) == 0 {
			if wanted = slices.Sorted(maps.Keys(states)); len(wanted) == 0 {
				return "no peer is configured", nil
			}
		}
		var missing []string
		for _, name := range wanted {
			state, configured := states[name]
			if !configured {
				state = "not configured"
			}
			if state != "established" {
				missing = append(missing, name+" is "+state)
			}
		}
		return strings.Join(missing, ", "), nil
	})
	return o, err
}

func waitPeers(ctx context.Context, r *runner) (o outcome, err error) {
	err = r.until(ctx, func(ctx context.Context) (string, error) {
		p, answer, err := r.peers(ctx)
		if o.answer = answer; err == nil && len(p.Peers) == 0 {
			return "no peer is configured", nil
		}
		return "", err
	})
	return o, err
}

func waitTool(ctx context.Context, r *runner, name string) (outcome, error) {
	return outcome{}, r.until(ctx, func(ctx context.Context) (string, error) {
		tools, err := r.tools(ctx)
		if err != nil {
			return "", err
		}
		var list []struct{ Name string }
		if err := json.Unmarshal(tools, &list); err != nil {
			return "", fmt.Errorf("read the list of tools: %w", err)
		}
		for _, t := range list {
			if t.Name == name {
				return "", nil
			}
		}
		return fmt.Sprintf("%s is not among the %d tools", name, len(list)), nil
	})
}

// tools returns the array of tools, byte for byte as it came. Several pages are
// one array.
func (r *runner) tools(ctx context.Context) (json.RawMessage, error) {
	var all []byte
	params := map[string]any{}
	for {
		raw, err := r.client.Do(ctx, "tools/list", "", params)
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools json.RawMessage `json:"tools"`
			Next  *string         `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("read the list of tools: %w", err)
		}
		part := strings.TrimSuffix(strings.TrimPrefix(string(page.Tools), "["), "]")
		if len(all) > 0 && part != "" {
			all = append(all, ',')
		}
		if all = append(all, part...); page.Next == nil {
			return []byte("[" + string(all) + "]"), nil
		}
		params["cursor"] = *page.Next
	}
}

func toolsOrderStable(ctx context.Context, r *runner, calls int) (outcome, error) {
	var first json.RawMessage
	for i := range calls {
		tools, err := r.tools(ctx)
		if err != nil {
			return outcome{}, err
		}
		if i == 0 {
			first = tools
		}
		if string(tools) != string(first) {
			return outcome{}, fmt.Errorf("list %d of the tools differs from the first: digest %s, was %s", i+1, digest(tools), digest(first))
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(first, &list); err != nil {
		return outcome{}, fmt.Errorf("read the list of tools: %w", err)
	}
	answer, err := json.Marshal(map[string]any{"stable": true, "calls": calls, "tools": len(list), "digest": digest(first)})
	return outcome{fmt.Sprintf("stable=true calls=%d tools=%d digest=%s", calls, len(list), digest(first)), answer}, err
}

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:16] }
