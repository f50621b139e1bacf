package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// directive is one line of a script, ready to run.
type directive struct {
	line    int // from 1
	text    string
	step    step
	untimed bool // says itself how long it takes
}

// step runs a directive and returns what it prints.
type step func(ctx context.Context, r *runner) (outcome, error)

// outcome is what came of a directive.
type outcome struct {
	text   string          // for people; "" prints nothing
	answer json.RawMessage // what expect looks into; nil leaves the one before
}

// kind is a directive's name, form and meaning.
type kind struct {
	name, form, about string
	parse             func(rest string) (step, error)
}

// errForm says that what follows a directive's name does not have its form.
var errForm = errors.New("does not have the form")

// kinds are all directives that have a name, in the order of the help.
var kinds = []kind{
	{"wait", "wait DURATION", "do nothing for so long, as 500ms", parseWait},
	{"wait-established", "wait-established [PEER…]", "until the named peers, or all configured, are established", parseEstablished},
	{"wait-peers", "wait-peers", "until a peer is configured", bare(waitPeers)},
	{"wait-tool", "wait-tool NAME", "until the tool is listed", oneWord(waitTool)},
	{"tools-order-stable", "tools-order-stable [COUNT]", "list the tools COUNT times (3); the lists must be equal to the byte", parseOrder},
	{"expect", "expect PATH VALUE", "the last answer has VALUE at PATH; see below", parseExpect},
	{"call-sync", "call-sync @TOOL [JSON] | COMMAND", "the answer must not be a task", parseCallWith(callSync)},
	{"task-call", "task-call @TOOL [JSON] | COMMAND", "the answer must be a task; $LAST names it from here on", parseCallWith(taskCall)},
	{"task-get", "task-get ID", "how the task is", oneWord(taskGet)},
	{"task-result", "task-result ID", "wait for the task's end; what it completed with", oneWord(taskResult)},
	{"task-update", "task-update ID [JSON]", "answer what the task asks: an object of answers by key; without it, the queued ones", parseTaskUpdate},
	{"task-cancel", "task-cancel ID", "ask the task to end", oneWord(taskCancel)},
	{"task-wait", "task-wait ID STATE", "until the task is working, input_required, completed, failed or cancelled", parseTaskWait},
	{"elicit-answer", "elicit-answer accept [VALUE] | decline | cancel | omit | none", "queue the answer to the next question; omit leaves its key out, none sends no answers", parseElicit},
	{"elicit-extra", "elicit-extra KEY | -", "add an unknown key to the next answers; - does not", oneWord(elicitExtra)},
	{"probe-header", "probe-header NAME VALUE | -", "replace a header of the next probe, or take it away", parseProbePair(probeHeader)},
	{"probe-meta", "probe-meta KEY VALUE | -", "replace a member of _meta of the next probe, or take it away", parseProbePair(probeMeta)},
	{"probe-method", "probe-method VERB", "HTTP method of the next probe", oneWord(probeMethod)},
	{"probe-body", "probe-body TEXT | -", "body of the next probe, as it is, or none", parseProbeBody},
	{"probe", "probe METHOD [PARAMS]", "send a request, with what was replaced, and print the answer; refusals pass", parseProbe},
}

// families are the words that only directives begin with, so that a misspelt one
// is not taken for a command.
var families = []string{"wait", "task-", "call-", "elicit-", "probe", "tools-", "expect"}

// parseScript reads a script. Nothing runs if a line of it is wrong.
func parseScript(text string) ([]directive, error) {
	var out []directive
	pending := 0 // line of a replacement that no probe has used yet
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parseLine(line)
		if err != nil {
			return nil, usagef("line %d: %w", number, err)
		}
		word, _, _ := strings.Cut(line, " ")
		switch {
		case word == "probe":
			pending = 0
		case strings.HasPrefix(word, "probe-"):
			pending = number
		}
		out = append(out, directive{number, line, s, word == "wait"})
	}
	if pending > 0 {
		return nil, usagef("line %d: it is for the next probe, but none follows; add: probe METHOD [PARAMS]", pending)
	}
	return out, nil
}

func parseLine(line string) (step, error) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == word })
	if i >= 0 {
		s, err := kinds[i].parse(rest)
		switch {
		case errors.Is(err, errForm):
			return nil, fmt.Errorf("%q %w; allowed: %s", line, err, kinds[i].form)
		case err != nil:
			return nil, fmt.Errorf("%q: %w; allowed: %s", line, err, kinds[i].form)
		}
		return s, nil
	}
	if slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(word, f) }) {
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		return nil, fmt.Errorf("no directive %q; allowed: %s, @TOOL [JSON], or a command of the daemon", word, strings.Join(names, ", "))
	}
	c, err := parseCall(line)
	if err != nil {
		return nil, fmt.Errorf("%q: %w; allowed: @TOOL [JSON], or a command of the daemon", line, err)
	}
	return c.run, nil
}

// bare is the parse of a directive without arguments.
func bare(s step) func(string) (step, error) {
	return func(rest string) (step, error) {
		if rest != "" {
			return nil, errForm
		}
		return s, nil
	}
}

// oneWord is the parse of a directive that takes exactly one word.
func oneWord(run func(ctx context.Context, r *runner, word string) (outcome, error)) func(string) (step, error) {
	return func(rest string) (step, error) {
		if rest == "" || strings.ContainsAny(rest, " \t") {
			return nil, errForm
		}
		return func(ctx context.Context, r *runner) (outcome, error) { return run(ctx, r, rest) }, nil
	}
}

func parseWait(rest string) (step, error) {
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("%q is no duration, as 500ms or 2s", rest)
	}
	return func(ctx context.Context, _ *runner) (outcome, error) { return outcome{}, sleep(ctx, d) }, nil
}

func parseEstablished(rest string) (step, error) {
	peers := strings.Fields(rest)
	return func(ctx context.Context, r *runner) (outcome, error) { return waitEstablished(ctx, r, peers) }, nil
}

func parseOrder(rest string) (step, error) {
	n := 3
	if rest != "" {
		var err error
		if n, err = strconv.Atoi(rest); err != nil || n < 2 {
			return nil, fmt.Errorf("%q is no count, which is 2 or more", rest)
		}
	}
	return func(ctx context.Context, r *runner) (outcome, error) { return toolsOrderStable(ctx, r, n) }, nil
}

func parseExpect(rest string) (step, error) {
	path, value, ok := strings.Cut(rest, " ")
	if value = strings.TrimSpace(value); !ok || value == "" {
		return nil, errForm
	}
	at, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, r *runner) (outcome, error) { return outcome{}, expect(r.last, path, at, value) }, nil
}

func parseTaskUpdate(rest string) (step, error) {
	id, text, _ := strings.Cut(rest, " ")
	if id == "" {
		return nil, errForm
	}
	var answers map[string]json.RawMessage
	if text = strings.TrimSpace(text); text != "" {
		if err := json.Unmarshal([]byte(text), &answers); err != nil {
			return nil, fmt.Errorf("the answers are no JSON object: %w", err)
		}
	}
	return func(ctx context.Context, r *runner) (outcome, error) { return taskUpdate(ctx, r, id, answers) }, nil
}

func parseTaskWait(rest string) (step, error) {
	words := strings.Fields(rest)
	if len(words) != 2 || !slices.Contains([]string{"working", "input_required", "completed", "failed", "cancelled"}, words[1]) {
		return nil, errors.New("an id and one of the five states are needed")
	}
	return func(ctx context.Context, r *runner) (outcome, error) { return taskWait(ctx, r, words[0], words[1]) }, nil
}
