package mcp

import (
	"context"
	"encoding/json"
	"strings"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// asking returns hidden commands that ask their caller something, report how far
// they are, or break. What they answer is what they were answered.
func asking() []*command.Command {
	colour := command.Question{Key: "colour", Method: "elicitation/create", Params: json.RawMessage(
		`{"message":"Which colour?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}},"required":["colour"]}}`)}
	shade := command.Question{Key: "shade", Method: "elicitation/create", Params: json.RawMessage(
		`{"mode":"form","message":"Which shade?","requestedSchema":{"type":"object","properties":{"shade":{"type":"integer","minimum":1,"maximum":9}},"required":["shade"]}}`)}
	poem := command.Question{Key: "poem", Method: "sampling/createMessage", Params: json.RawMessage(
		`{"messages":[{"role":"user","content":{"type":"text","text":"A line about lamps."}}],"maxTokens":20}`)}
	roots := command.Question{Key: "roots", Method: "roots/list"}
	page := command.Question{Key: "page", Method: "elicitation/create", Params: json.RawMessage(
		`{"mode":"url","message":"Sign in","url":"https://login.example.com/lamps"}`)}
	bound := colour
	bound.Bound = true
	ask := func(rounds ...[]command.Question) command.Run {
		return func(ctx context.Context, _ *command.Request) (any, error) {
			all := map[string]json.RawMessage{}
			for _, questions := range rounds {
				answers, err := command.Ask(ctx, questions...)
				if err != nil {
					return nil, err
				}
				for key, a := range answers {
					all[key] = a
				}
			}
			return map[string]any{"answers": all}, nil
		}
	}
	questions := func(q ...command.Question) []command.Question { return q }
	var out []*command.Command
	for path, run := range map[string]command.Run{
		"ask colour": ask(questions(colour)),
		"ask bound":  ask(questions(bound)),
		"ask twice":  ask(questions(colour), questions(shade)),
		"ask model":  ask(questions(poem)),
		"ask page":   ask(questions(page)),
		"ask all":    ask(questions(colour, poem, roots)),
		"ask nobody": ask(questions(command.Question{Key: "key", Method: "no/such"})),
		"report": func(ctx context.Context, _ *command.Request) (any, error) {
			command.Report(ctx, command.Progress{Done: 1, Total: 2, Message: "half"})
			command.Report(ctx, command.Progress{Done: 1, Total: 2, Message: "half still"})
			command.Report(ctx, command.Progress{Done: 2, Total: 2})
			return struct{}{}, nil
		},
		"report break": func(ctx context.Context, _ *command.Request) (any, error) {
			command.Report(ctx, command.Progress{Done: 1})
			panic("the fuse has blown")
		},
		"break": func(context.Context, *command.Request) (any, error) { panic("the fuse has blown") },
		"retort": func(context.Context, *command.Request) (any, error) {
			return &command.Answer{Content: json.RawMessage(`[{"type":"image","data":"AAAA","mimeType":"image/png"}]`)}, nil
		},
		"refuse": func(context.Context, *command.Request) (any, error) {
			return &command.Answer{Structured: json.RawMessage(`{"why":"no bulb"}`), Failed: true}, nil
		},
	} {
		out = append(out, command.New(&schema.Command{Path: strings.Fields(path), Effect: "read", Hidden: true, Description: "For tests.",
			Input: &schema.Object{}, Output: &schema.Object{}}, run))
	}
	return out
}
