package mcp

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// maxCompletions is how many values one answer may have (page
// server/utilities/completion).
const maxCompletions = 100

// completionComplete offers values for an argument of a prompt or a variable of
// a resource template.
func (s *Server) completionComplete(ctx context.Context, r *request) ([]byte, *failure) {
	c, param, begin, chosen, fail := s.parseCompletion(r)
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	values, err := s.dispatcher.Complete(ctx, command.Call{Principal: r.principal, Surface: surface, Remote: r.remote}, c, param, begin, chosen)
	if err != nil {
		return nil, commandFailure(command.AsError(err))
	}
	type completion struct {
		Values  []string `json:"values"`
		Total   int      `json:"total"`
		HasMore bool     `json:"hasMore"`
	}
	out := completion{Values: values[:min(len(values), maxCompletions)], Total: len(values), HasMore: len(values) > maxCompletions}
	if out.Values == nil {
		out.Values = []string{}
	}
	b, err := json.Marshal(struct {
		ResultType string         `json:"resultType"`
		Completion completion     `json:"completion"`
		Meta       jsontext.Value `json:"_meta"`
	}{"complete", out, s.info}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		s.log.Error().Err(err).Msg("encode completions")
		return nil, internalFailure()
	}
	return b, nil
}

// parseCompletion reads what is to be completed.
func (s *Server) parseCompletion(r *request) (c *command.Command, param, begin string, chosen map[string]string, fail *failure) {
	var params struct {
		Ref struct {
			Type jsontext.Value `json:"type"`
			Name jsontext.Value `json:"name"`
			URI  jsontext.Value `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  jsontext.Value `json:"name"`
			Value jsontext.Value `json:"value"`
		} `json:"argument"`
		Context struct {
			Arguments jsontext.Value `json:"arguments"`
		} `json:"context"`
	}
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return nil, "", "", nil, invalidParams("params: ref, argument and context must be objects")
	}
	param, hasName := text(params.Argument.Name)
	begin, hasValue := text(params.Argument.Value)
	if !hasName || !hasValue {
		return nil, "", "", nil, invalidParams("params.argument must have the strings name and value")
	}
	if chosen, fail = textMap("params.context.arguments", params.Context.Arguments); fail != nil {
		return nil, "", "", nil, fail
	}
	registry := s.dispatcher.Registry()
	kind, _ := text(params.Ref.Type)
	switch kind {
	case "ref/prompt":
		name, ok := text(params.Ref.Name)
		if !ok {
			return nil, "", "", nil, invalidParams("params.ref.name must be the name of a prompt")
		}
		if c = registry.Prompt(r.principal, name); c == nil {
			return nil, "", "", nil, refusedParams("no prompt %s; prompts/list has the prompts", quoted(name))
		}
	case "ref/resource":
		uri, ok := text(params.Ref.URI)
		if !ok {
			return nil, "", "", nil, invalidParams("params.ref.uri must be the URI or template of a resource")
		}
		for _, res := range registry.Resources(r.principal) {
			if res.Text == uri {
				c = res.Command
			}
		}
		if c == nil {
			return nil, "", "", nil, noResource(uri, "no such resource; resources/templates/list has the templates")
		}
	default:
		return nil, "", "", nil, invalidParams(`params.ref.type must be "ref/prompt" or "ref/resource"`)
	}
	if c.Input.Param(param) == nil {
		return nil, "", "", nil, refusedParams("%s takes no argument %s", kind[len("ref/"):], quoted(param))
	}
	return c, param, begin, chosen, nil
}
