package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"ze.internal/ze/appliance/command"
)

// form is a question with one field of text.
func form(key, text, field string) command.Question { return oneField(key, text, field, "string") }

// confirm is a question with one box to tick.
func confirm(key, text string) command.Question { return oneField(key, text, "confirm", "boolean") }

func oneField(key, text, field, kind string) command.Question {
	return question(key, "elicitation/create", map[string]any{
		"mode": "form", "message": text,
		"requestedSchema": map[string]any{
			"type": "object", "properties": map[string]any{field: map[string]string{"type": kind}}, "required": []string{field},
		},
	})
}

func question(key, method string, params map[string]any) command.Question {
	b, err := json.Marshal(params)
	if err != nil {
		panic("conformance: encode a question: " + err.Error()) // it is made of strings
	}
	return command.Question{Key: key, Method: method, Params: b}
}

// bound makes the answer count for one call only.
func bound(q command.Question) command.Question {
	q.Bound = true
	return q
}

// sample asks the caller's model something.
func sample(key, text string) command.Question {
	return question(key, "sampling/createMessage", map[string]any{
		"messages":  []any{map[string]any{"role": "user", "content": map[string]string{"type": "text", "text": text}}},
		"maxTokens": 100,
	})
}

// roots asks the caller for its roots.
func roots(key string) command.Question { return command.Question{Key: key, Method: "roots/list"} }

// ask returns the fields of the forms that were filled in, by question.
func ask(ctx context.Context, questions ...command.Question) (map[string]map[string]string, error) {
	answers, err := command.Ask(ctx, questions...)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]map[string]string)
	for key, raw := range answers {
		var a struct {
			Action  string         `json:"action"`
			Content map[string]any `json:"content"`
		}
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, fmt.Errorf("answer to %s: %w", key, err)
		}
		if a.Action != "" && a.Action != "accept" {
			return nil, &command.Error{Code: command.Conflict, Message: "the question " + key + " was not answered: " + a.Action}
		}
		fields[key] = make(map[string]string)
		for name, v := range a.Content {
			fields[key][name] = fmt.Sprint(v)
		}
	}
	return fields, nil
}

// asking is the Run of a tool that asks in rounds and then says so.
func asking(done string, rounds ...[]command.Question) command.Run {
	return func(ctx context.Context, _ *command.Request) (any, error) {
		text := done
		for _, questions := range rounds {
			got, err := ask(ctx, questions...)
			if err != nil {
				return nil, err
			}
			for _, q := range questions {
				for _, v := range got[q.Key] {
					text += " " + q.Key + "=" + strconv.Quote(v)
				}
			}
		}
		return texts(text)
	}
}

// questions are tools that need something of their caller before they answer.
func questions() []fixture {
	round := func(q ...command.Question) []command.Question { return q }
	name := form("user_name", "What is your name?", "name")
	greeting, where := sample("greeting", "Greet the user."), roots("client_roots")
	return []fixture{
		{tool: "test_missing_capability", about: "Needs a client that samples.", run: asking("Sampled.", round(sample("capital", "What is the capital of France?")))},
		{tool: "test_streaming_elicitation", about: "Asks something.", run: asking("Asked.", round(name))},
		{tool: "test_input_required_result_elicitation", about: "Asks for a name.", run: asking("Hello.", round(name))},
		{tool: "test_input_required_result_sampling", about: "Asks the model something.", run: asking("Sampled.", round(sample("capital", "What is the capital of France?")))},
		{tool: "test_input_required_result_list_roots", about: "Asks for the roots.", run: asking("Roots listed.", round(where))},
		{tool: "test_input_required_result_request_state", about: "Asks for a confirmation that counts once.",
			run: asking("state-ok.", round(bound(oneField("confirm", "Please confirm.", "ok", "boolean"))))},
		{tool: "test_input_required_result_multiple_inputs", about: "Asks three things at a time.",
			run: asking("All answered.", round(bound(name), greeting, where))},
		{tool: "test_input_required_result_multi_round", about: "Asks twice.",
			run: asking("Both answered.", round(bound(form("step1", "Step 1: what is your name?", "name"))), round(form("step2", "Step 2: what is your favourite colour?", "color")))},
		{tool: "test_input_required_result_tampered_state", about: "Asks for a confirmation whose state nobody may change.",
			run: asking("state-ok.", round(bound(oneField("confirm", "Please confirm.", "ok", "boolean"))))},
		{tool: "test_input_required_result_capabilities", about: "Asks only what the client can answer.",
			run: asking("Answered.", round(name, greeting))},
	}
}

// tasks are tools that take long, or show how a task can end.
func tasks() []fixture {
	const (
		greet   = `{"type":"object","properties":{"name":{"type":"string","description":"Whom."}},"required":["name"],"additionalProperties":false}`
		compute = `{"type":"object","properties":{"seconds":{"type":"number","minimum":0,"maximum":3600,"description":"How long."},"label":{"type":"string","description":"What for."}},"additionalProperties":false}`
		file    = `{"type":"object","properties":{"filename":{"type":"string","description":"What to delete."}},"required":["filename"],"additionalProperties":false}`
	)
	return []fixture{
		{tool: "greet", about: "Greets somebody.", input: greet, run: hello},
		{tool: "slow_compute", about: "Computes for some time.", input: compute, task: "required", run: slow},
		{tool: "failing_job", about: "Fails, and can only be a task.", task: "required", taskOnly: true,
			run: func(context.Context, *command.Request) (any, error) {
				return nil, &command.Error{Code: command.Conflict, Message: "the job failed"}
			}},
		{tool: "protocol_error_job", about: "Ends without an answer.", task: "required",
			run: func(context.Context, *command.Request) (any, error) {
				return nil, &command.Error{Code: command.Internal, Message: "the job ended without an answer"}
			}},
		{tool: "confirm_delete", about: "Deletes a file once that is confirmed.", input: file, task: "required", effect: command.EffectChange,
			run: func(ctx context.Context, r *command.Request) (any, error) {
				var in struct{ Filename string }
				if err := r.Bind(&in); err != nil {
					return nil, err
				}
				got, err := ask(ctx, confirm("confirm", "Delete "+in.Filename+"?"))
				if err != nil {
					return nil, err
				}
				if got["confirm"]["confirm"] != "true" {
					return texts("Kept " + in.Filename + ".")
				}
				return texts("Deleted " + in.Filename + ".")
			}},
		{tool: "multi_input", about: "Asks two things at a time.", task: "required",
			run: asking("Both answered.", []command.Question{form("name", "What is your name?", "name"), confirm("sure", "Are you sure?")})},
		{tool: "test_tool_with_task", about: "Asks for a name and greets in a task.", input: greet, task: "required", taskOnly: true, run: hello},
	}
}

func hello(_ context.Context, r *command.Request) (any, error) {
	var in struct{ Name string }
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	return texts("Hello, " + in.Name + "!")
}

func slow(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Seconds float64
		Label   string
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return nil, err
	}
	return texts(fmt.Sprintf("Computed %q for %g s.", in.Label, in.Seconds))
}
