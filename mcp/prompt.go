package mcp

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// promptEntry is a prompt as a list shows it (page server/prompts).
type promptEntry struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Arguments   []promptArgument `json:"arguments,omitzero"`
}

type promptArgument struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Required    bool   `json:"required,omitzero"`
}

func (s *Server) promptsList(_ context.Context, r *request) ([]byte, *failure) {
	if fail := r.onePage(); fail != nil {
		return nil, fail
	}
	list := []promptEntry{}
	for _, c := range s.dispatcher.Registry().Prompts(r.principal) {
		p := promptEntry{Name: c.Prompt, Description: c.Description}
		for _, n := range c.Input.Params {
			p.Arguments = append(p.Arguments, promptArgument{n.Name, n.Description, n.Mandatory})
		}
		list = append(list, p)
	}
	return s.encodeEntries("prompts", list)
}

func (s *Server) promptsGet(ctx context.Context, r *request) ([]byte, *failure) {
	name, fail := r.named("name", "which prompt to get")
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	c := s.dispatcher.Registry().Prompt(r.principal, name)
	if c == nil {
		return nil, s.refuse(ctx, r, command.Unknown, refusedParams("no prompt %s; prompts/list has the prompts", quoted(name)))
	}
	texts, fail := textMap("params.arguments", r.given.Arguments)
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	values, err := c.Values(texts)
	if err != nil {
		return nil, s.refuse(ctx, r, command.Invalid, refusedParams("%s", command.AsError(err).Error()))
	}
	result, interim, fail := s.answer(ctx, r, name, r.given.Arguments, command.Call{Path: c.Path, Values: values}, commandFailure)
	if result == nil {
		return interim, fail
	}
	b, err := json.Marshal(struct {
		ResultType string         `json:"resultType"`
		Answer     jsontext.Value `json:",embed"`
		Meta       jsontext.Value `json:"_meta"`
	}{"complete", jsontext.Value(result.JSON), s.info})
	if err != nil {
		s.log.Error().Err(err).Str("prompt", name).Msg("encode a prompt")
		return nil, internalFailure()
	}
	return b, nil
}

// textMap reads an object of strings; one that is absent is empty.
func textMap(where string, v jsontext.Value) (map[string]string, *failure) {
	if v == nil {
		return nil, nil
	}
	if v.Kind() != '{' {
		return nil, invalidParams("%s must be an object; leave it out for none", where)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v, &members, checked); err != nil {
		return nil, invalidParams("%s: %v", where, err)
	}
	texts := make(map[string]string, len(members))
	for name, value := range members {
		t, ok := text(value)
		if !ok {
			return nil, invalidParams("%s.%s must be a string", where, name)
		}
		texts[name] = t
	}
	return texts, nil
}
