package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// Keys of the questions that this package asks before a command runs. No command
// uses them.
const (
	keyCommand   = "ze-command"
	keyAction    = "ze-action"
	keyArguments = "ze-arguments"
	keyConfirm   = "ze-confirm"
)

// property is one field of a form (page client/elicitation, requested schema):
// the few keywords that a client has to understand.
type property struct {
	Type        string          `json:"type"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Minimum     json.RawMessage `json:"minimum,omitempty"`
	Maximum     json.RawMessage `json:"maximum,omitempty"`
	MinLength   int             `json:"minLength,omitempty"`
	MaxLength   int             `json:"maxLength,omitempty"`
	MinItems    int             `json:"minItems,omitempty"`
	MaxItems    int             `json:"maxItems,omitempty"`
	Items       *property       `json:"items,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
}

// field is a property with its name.
type field struct {
	name string
	property
}

// formQuestion returns the question that asks for all the fields.
func formQuestion(key, message string, fields []field) (command.Question, error) {
	properties := make(map[string]property, len(fields))
	required := make([]string, len(fields))
	for i, f := range fields {
		properties[f.name], required[i] = f.property, f.name
	}
	type requested struct {
		Type       string              `json:"type"`
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	params, err := json.Marshal(struct {
		Mode    string    `json:"mode"`
		Message string    `json:"message"`
		Schema  requested `json:"requestedSchema"`
	}{"form", message, requested{"object", properties, required}})
	if err != nil {
		return command.Question{}, fmt.Errorf("encode a form: %w", err)
	}
	return command.Question{Key: key, Method: elicitationMethod, Params: params}, nil
}

// fieldOf returns the field that asks for a parameter. It is false for what a
// form cannot hold, and for secrets, which must not go through one.
func fieldOf(n *schema.Node) (f field, ok bool) {
	f.name = n.Name
	if n.Sensitive || json.Unmarshal(n.JSONSchema(), &f.property) != nil {
		return f, false
	}
	switch f.Type {
	case "string", "number", "integer", "boolean":
		return f, f.Items == nil
	case "array":
		return f, f.Items != nil && f.Items.Type == "string" && len(f.Items.Enum) > 0
	}
	return f, false
}

// askForm asks for the fields. Of an answer it returns the content.
func (x *round) askForm(ctx context.Context, key, message string, fields []field) (map[string]any, error) {
	q, err := formQuestion(key, message, fields)
	if err != nil {
		return nil, err
	}
	return x.elicit(ctx, q)
}

func (x *round) elicit(ctx context.Context, q command.Question) (map[string]any, error) {
	answers, err := x.Ask(ctx, []command.Question{q})
	if err != nil {
		return nil, err
	}
	var a elicited
	if err := jsonv2.Unmarshal(answers[q.Key], &a, checked); err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	if a.Action != actionAccept {
		return nil, declined()
	}
	return command.DecodeArgs(a.Content)
}

func declined() *command.Error {
	return &command.Error{Code: command.Canceled, Message: "not run: the person who was asked declined",
		Actions: []string{"ask the person what to do instead"}}
}

// askText asks for one value of a form.
func (x *round) askText(ctx context.Context, key, message, name string, p property) (string, error) {
	content, err := x.askForm(ctx, key, message, []field{{name, p}})
	if err != nil {
		return "", err
	}
	s, _ := content[name].(string) // a string, or Ask had asked again
	return s, nil
}

// askAction asks which action of a tool to run, and returns args with it.
func (x *round) askAction(ctx context.Context, tool string, actions []string, args jsontext.Value) (jsontext.Value, error) {
	action, err := x.askText(ctx, keyAction, "Which action of "+tool+"?", command.ActionParam,
		property{Type: "string", Title: "Action", Enum: actions})
	if err != nil {
		return nil, err
	}
	members := map[string]jsontext.Value{}
	if args != nil {
		if err := jsonv2.Unmarshal(args, &members, checked); err != nil {
			return nil, fmt.Errorf("read the arguments: %w", err)
		}
	}
	if members[command.ActionParam], err = jsontext.AppendQuote(nil, action); err != nil {
		return nil, fmt.Errorf("add the action: %w", err)
	}
	return jsonv2.Marshal(members, jsonv2.Deterministic(true))
}

// complete asks for what a call needs before its command may run: arguments that
// are required and missing, then, of a command that destroys, that it is meant.
// It makes call the one to run. The error is recorded.
func (s *Server) complete(ctx context.Context, x *round, call *command.Call) error {
	start := s.clock()
	c, planned, err := s.dispatcher.Plan(*call)
	if err != nil {
		return nil // the dispatcher says it, and records it
	}
	if err = x.askMissing(ctx, c, planned.Values); err == nil {
		err = x.confirm(ctx, c, planned.Values)
	}
	if err != nil {
		return s.dispatcher.Record(ctx, *call, c.Name(), start, command.AsError(err))
	}
	*call = planned
	return nil
}

// askMissing asks for the mandatory arguments that args lacks and adds them,
// unless one does not fit into a form: then it is as if nobody could be asked.
func (x *round) askMissing(ctx context.Context, c *command.Command, args map[string]any) error {
	missing := c.Missing(args)
	if missing == nil {
		return nil
	}
	fields := make([]field, len(missing))
	for i, n := range missing {
		f, ok := fieldOf(n)
		if !ok {
			return nil
		}
		fields[i] = f
	}
	content, err := x.askForm(ctx, keyArguments, "“"+c.Name()+"” needs more to run.", fields)
	if err != nil {
		return err
	}
	for _, f := range fields {
		args[f.name] = content[f.name]
	}
	return nil
}

// confirm asks whether a command that destroys is meant.
func (x *round) confirm(ctx context.Context, c *command.Command, args map[string]any) error {
	if c.Effect != command.EffectDestroy || len(c.Input.Check(args)) > 0 {
		return nil // of wrong arguments the dispatcher says what is wrong
	}
	message := "Run “" + c.Name() + "”?"
	if len(args) > 0 {
		shown, err := jsonv2.Marshal(c.Masked(args), jsonv2.Deterministic(true))
		if err != nil {
			return fmt.Errorf("encode the arguments: %w", err)
		}
		message = "Run “" + c.Name() + "” with " + beginning(string(shown)) + "?"
	}
	q, err := formQuestion(keyConfirm, message+" "+c.Description, []field{{"confirm", property{
		Type: "boolean", Title: "Run it", Description: "Whether it is meant."}}})
	if err != nil {
		return err
	}
	q.Bound = true
	content, err := x.elicit(ctx, q)
	if err != nil {
		return err
	}
	if content["confirm"] != true {
		return declined()
	}
	return nil
}

// missingAction reports whether args names no action.
func missingAction(args jsontext.Value) bool {
	var members struct {
		Action jsontext.Value `json:"action"`
	}
	return args == nil || jsonv2.Unmarshal(args, &members, checked) == nil && members.Action == nil
}

// beginning returns what a person is shown of a long text.
func beginning(s string) string {
	const most = 1000
	if r := []rune(s); len(r) > most {
		return string(slices.Concat(r[:most], []rune("…")))
	}
	return s
}
