package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/mcp/client"
)

// TestMalformedScripts: a line that is wrong is named, with what is allowed, and
// nothing runs.
func TestMalformedScripts(t *testing.T) {
	for script, want := range map[string]string{
		"wait":                             `line 1: "wait": "" is no duration, as 500ms or 2s; allowed: wait DURATION`,
		"# x\n\nwait 5":                    `line 3: "wait 5": "5" is no duration, as 500ms or 2s; allowed: wait DURATION`,
		"wait -1s":                         `allowed: wait DURATION`,
		"wait-peers now":                   `line 1: "wait-peers now" does not have the form; allowed: wait-peers`,
		"wait-establish":                   `no directive "wait-establish"; allowed: wait, wait-established, `,
		"wait-tool":                        `allowed: wait-tool NAME`,
		"wait-tool a b":                    `allowed: wait-tool NAME`,
		"tools-order-stable 1":             `"1" is no count, which is 2 or more`,
		"tools-order-stable x":             `"x" is no count`,
		"task-call":                        `allowed: task-call @TOOL [JSON] | COMMAND`,
		"call-sync @":                      `the tool has no name; allowed: call-sync`,
		"task-result":                      `allowed: task-result ID`,
		"task-wait x done":                 `an id and one of the five states are needed`,
		"task-wait $LAST":                  `allowed: task-wait ID STATE`,
		"task-update":                      `allowed: task-update ID [JSON]`,
		"task-update x [1]":                `the answers are no JSON object`,
		"task-frobnicate x":                `no directive "task-frobnicate"`,
		"elicit-answer":                    `allowed: elicit-answer accept [VALUE] | decline | cancel | omit | none`,
		"elicit-answer perhaps":            `allowed: elicit-answer accept`,
		"elicit-answer decline it":         `allowed: elicit-answer accept`,
		"elicit-extra":                     `allowed: elicit-extra KEY | -`,
		"@ze_show_bgp {":                   `the arguments are no JSON object`,
		"@ze_show_bgp []":                  `the arguments are no JSON object`,
		"@":                                `the tool has no name; allowed: @TOOL [JSON], or a command of the daemon`,
		"expect":                           `allowed: expect PATH VALUE`,
		"expect a":                         `allowed: expect PATH VALUE`,
		"expect a..b 1":                    `path "a..b" has an empty name`,
		"expect a[ 1":                      `has a bracket that is empty or not closed`,
		"expect a[] 1":                     `has a bracket that is empty or not closed`,
		"expect a[x] 1":                    `[x] is neither an index nor NAME=VALUE nor a quoted name`,
		"expect a[-1] 1":                   `[-1] is neither an index`,
		"expect a[0]b 1":                   `needs a dot before "b"`,
		"probe":                            `allowed: probe METHOD [PARAMS]`,
		"probe tools/list [1]":             `the params are no JSON object; what is none can be sent with probe-body`,
		"probe tools/list null":            `the params are no JSON object`,
		"probe tools/list {} {}":           `the params are no JSON object`,
		"probe-header X":                   `allowed: probe-header NAME VALUE | -`,
		"probe-body":                       `allowed: probe-body TEXT | -`,
		"probe-method":                     `allowed: probe-method VERB`,
		"probe x\nprobe-body y\nshow bgp":  `line 2: it is for the next probe, but none follows`,
		"show version\nprobe-heder X y":    `line 2: no directive "probe-heder"`,
		"show version\nexpected version 1": `line 2: no directive "expected"`,
	} {
		_, err := parseScript(script)
		var usage *usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", script, err, want)
		}
	}
}

// TestScriptLines: what is no directive is a command, and lines keep their number.
func TestScriptLines(t *testing.T) {
	script, err := parseScript("\r\n# comment\n  show bgp \n\twithdraw all\nwait 1s\nelicit-answer accept\nprobe a {\"n\":12345678901234567890}\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range script {
		got = append(got, d.text)
	}
	if want := []string{"show bgp", "withdraw all", "wait 1s", "elicit-answer accept", `probe a {"n":12345678901234567890}`}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if script[0].line != 3 || script[4].line != 7 {
		t.Errorf("lines %d and %d", script[0].line, script[4].line)
	}
}

// TestExpect: places in an answer and what is there.
func TestExpect(t *testing.T) {
	const answer = `{"peer":[{"name":"north","up":true,"n":1.50,"big":9007199254740993},{"name":"south","state":"idle"}],
		"a.b":{"x":null},"text":"two words","number-text":"5","list":[1,2],"empty":""}`
	for _, c := range []struct {
		path, want string
		problem    string // part of it; "" if it is as expected
	}{
		{"peer[0].name", "north", ""},
		{"$.peer[1].name", `"south"`, ""},
		{"peer[name=south].state", "idle", ""},
		{"peer[name=north].state", "idle", "nothing is at peer[name=north].state"},
		{"peer[name=north].state", "-", ""},
		{"peer[name=west]", "-", ""},
		{"peer[2]", "-", ""},
		{"peer[0].name", "-", `peer[0].name is there: "north"`},
		{"peer[0].up", "true", ""},
		{"peer[up=true].name", "north", ""},
		{"peer[0].up", "false", "is true, want false"},
		{"peer[0].n", "1.5", ""},
		{"peer[0].n", "1.6", "is 1.50, want 1.6"},
		{"peer[0].big", "9007199254740992", "want 9007199254740992"},
		{"peer[0].big", "9007199254740993", ""},
		{"['a.b'].x", "null", ""},
		{"['a.b']", `{"x": null}`, ""},
		{"text", "two words", ""},
		{"text", "two", `is "two words", want two`},
		{"number-text", "5", ""},
		{"number-text", "5.0", "want 5.0"},
		{"list", "[1, 2]", ""},
		{"list", "[2, 1]", "is [1,2], want [2, 1]"},
		{"list[1]", "2", ""},
		{"list.name", "-", ""},
		{"empty", `""`, ""},
		{"peer.name", "north", "nothing is at"},
		{"text[0]", "t", "nothing is at"},
		{"list[0][0]", "-", ""},
	} {
		path, err := parsePath(c.path)
		if err != nil {
			t.Fatal(err)
		}
		err = expect(json.RawMessage(answer), c.path, path, c.want)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("expect %s %s: %v; want %q", c.path, c.want, err, c.problem)
		}
	}
	if err := expect(nil, "$", nil, "1"); err == nil {
		t.Error("something was found in no answer")
	}
	if err := expect(json.RawMessage(`"whole"`), "$", nil, "whole"); err != nil {
		t.Error(err)
	}
}

// TestAnswers: queued answers fit the form that asks.
func TestAnswers(t *testing.T) {
	form := func(properties string) client.Question {
		return client.Question{Method: "elicitation/create", Params: json.RawMessage(`{"message":"?","requestedSchema":{"type":"object","properties":` + properties + `}}`)}
	}
	text := form(`{"command":{"type":"string"}}`)
	for _, c := range []struct {
		question client.Question
		answer   answer
		want     string // "" for an error
	}{
		{text, answer{action: "accept", value: "show version"}, `{"action":"accept","content":{"command":"show version"}}`},
		{text, answer{action: "accept", value: "5"}, `{"action":"accept","content":{"command":"5"}}`},
		{text, answer{action: "accept"}, `{"action":"accept","content":{}}`},
		{text, answer{action: "accept", value: `{"other":1}`}, `{"action":"accept","content":{"other":1}}`},
		{text, answer{action: "accept", value: `{`}, ""},
		{text, answer{action: "decline"}, `{"action":"decline"}`},
		{form(`{"n":{"type":"integer"}}`), answer{action: "accept", value: "5"}, `{"action":"accept","content":{"n":5}}`},
		{form(`{"on":{"type":"boolean"}}`), answer{action: "accept", value: "true"}, `{"action":"accept","content":{"on":true}}`},
		{form(`{"n":{"type":"integer"}}`), answer{action: "accept", value: "five"}, `{"action":"accept","content":{"n":"five"}}`},
		{form(`{"a":{},"b":{}}`), answer{action: "accept", value: "5"}, ""},
		{client.Question{Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","url":"https://example.net"}`)}, answer{action: "accept"}, `{"action":"accept"}`},
		{client.Question{Method: "roots/list", Params: json.RawMessage(`{}`)}, answer{action: "accept"}, ""},
	} {
		got, err := c.answer.encode(c.question)
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v to %s: %s, %v; want %s", c.answer, c.question.Params, got, err, c.want)
		}
	}
	r := &runner{queue: []answer{{action: "decline"}}}
	if _, err := r.answers(map[string]client.Question{"a": text, "b": text}); err == nil || !strings.Contains(err.Error(), `asks "b", and no answer is queued`) {
		t.Errorf("two questions, one answer: %v", err)
	}
}
