package mcp

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/task"
)

const surface = "mcp"

// runTool carries out a call of one tool. args is an object or nil.
type runTool func(ctx context.Context, r *request, x *round, args jsontext.Value) (reply, error)

// reply is what a tool answers: one of the three.
type reply struct {
	value  jsontext.Value // a JSON object
	answer *command.Answer
	task   *task.Task // that the call has become
}

// toolCall is a tools/call that names a tool and fits its headers.
type toolCall struct {
	name  string
	run   runTool
	args  jsontext.Value
	round *round
}

func (s *Server) toolsCall(ctx context.Context, r *request) ([]byte, *failure) {
	r.recorded = true
	call, code, fail := s.parseCall(r)
	if fail == nil {
		return s.callTool(ctx, r, call)
	}
	// It reaches no command, and is recorded all the same.
	if code == command.Unknown {
		s.metrics.toolCalls.WithLabelValues(unknownLabel, string(code)).Inc()
	}
	if err := s.record(ctx, r, "", &command.Error{Code: code, Message: fail.message}); command.AsError(err).Code != code {
		return nil, internalFailure()
	}
	return nil, fail
}

// parseCall checks everything about a tools/call that is not the tool's own
// business. The code says how a refusal is recorded.
func (s *Server) parseCall(r *request) (call toolCall, code command.Code, fail *failure) {
	code = command.Invalid
	params := &r.given
	name, isString := text(params.Name)
	switch {
	case params.Name == nil:
		return call, code, invalidParams("params.name is missing: it says which tool to call")
	case !isString:
		return call, code, invalidParams("params.name must be a string")
	case params.Arguments != nil && params.Arguments.Kind() != '{':
		return call, code, invalidParams("params.arguments must be an object; leave it out for none")
	}
	if fail := r.checkName("name", name); fail != nil {
		return call, code, fail
	}
	run, headers := s.tool(r.principal, name)
	if run == nil {
		return call, command.Unknown, refusedParams("no tool %s; tools/list has the tools", quoted(name))
	}
	if fail := checkParamHeaders(r.header, headers, params.Arguments); fail != nil {
		return call, code, fail
	}
	x, fail := s.newRound(r, name, params.Arguments)
	return toolCall{name, run, params.Arguments, x}, code, fail
}

// tool returns what runs the tool called name and the parameters mirrored into
// headers; nil if there is no such tool, or none for p: the two look alike.
func (s *Server) tool(p *access.Principal, name string) (runTool, []command.Header) {
	if t := s.builtin[name]; t != nil {
		return t.run, nil
	}
	t := s.dispatcher.Registry().Tool(p, name)
	if t == nil {
		return nil, nil
	}
	return func(ctx context.Context, r *request, x *round, args jsontext.Value) (reply, error) {
		var err error
		if actions, required := t.Actions(); required && r.client.form && missingAction(args) {
			args, err = x.askAction(ctx, t.Name, actions, args)
		}
		if err != nil {
			return reply{}, s.record(ctx, r, "", command.AsError(err))
		}
		path, values, err := t.Resolve(r.principal, []byte(args))
		if err != nil {
			return reply{}, s.record(ctx, r, "", command.AsError(err))
		}
		return s.do(ctx, r, x, &command.Call{Path: path, Values: values})
	}, t.Headers
}

// do hands a call to the dispatcher in the name of the request's sender, who is
// asked first for what is missing. It and what it calls share the call: with a
// copy in every frame the stack would not fit into 8 KiB, and would have to be
// grown again after every garbage collection.
func (s *Server) do(ctx context.Context, r *request, x *round, c *command.Call) (reply, error) {
	c.Principal, c.Surface, c.Remote = r.principal, surface, r.remote
	if r.client.form {
		if err := s.complete(ctx, x, c); err != nil {
			return reply{}, err
		}
	}
	return s.dispatch(command.WithAsker(ctx, x), r, c)
}

// record leaves the traces of a call that reaches no command.
func (s *Server) record(ctx context.Context, r *request, name string, e *command.Error) error {
	return s.dispatcher.Record(ctx, command.Call{Principal: r.principal, Surface: surface, Remote: r.remote}, name, r.begun, e)
}

// callTool runs a tool and encodes its answer. A command that fails is a result
// too: the model that called it is to read why and try again.
func (s *Server) callTool(ctx context.Context, r *request, call toolCall) (result []byte, fail *failure) {
	outcome := string(command.Internal) // unless the tool returns
	running := s.metrics.running(call.name)
	running.Inc()
	defer func() {
		running.Dec()
		s.finishCall(r, call.name, outcome, s.clock().Sub(r.begun))
	}()
	var (
		value reply
		err   error
	)
	if why := s.whileValid(ctx, r, func(ctx context.Context) {
		value, err = call.run(s.reporting(ctx, r), r, call.round, call.args)
	}); why != nil {
		outcome = "unauthenticated"
		return nil, refusal(http.StatusUnauthorized, why.Error())
	}
	if err == nil {
		if result, err = s.toolResult(value); err == nil {
			outcome = "ok"
			return result, nil
		}
		s.log.Error().Err(err).Str("tool", call.name).Msg("encode the result of a tool")
		return nil, internalFailure()
	}
	e := command.AsError(err)
	outcome = string(e.Code)
	if result, fail, err = s.notDone(call.round, e); err != nil {
		s.log.Error().Err(err).Str("tool", call.name).Msg("encode the error of a tool")
		return nil, internalFailure()
	}
	return result, fail
}

// notDone encodes why a call has no answer: questions to the caller, a failure
// of the protocol, or an error that is a result.
func (s *Server) notDone(x *round, e *command.Error) (result []byte, fail *failure, err error) {
	var lacking *lackingError
	switch questions := questionsOf(e); {
	case questions != nil:
		result, err = x.result(questions)
		return result, nil, err
	case errors.As(e, &lacking):
		return nil, missingCapability(lacking.Error(), string(lacking.required.encode())), nil
	case e.Code == command.Internal:
		return nil, internalFailure(), nil
	}
	result, err = s.toolError(e)
	return result, nil, err
}

// toolResult encodes what a tool answers: once as text, for clients and models
// that read only that, and once as it is.
func (s *Server) toolResult(r reply) ([]byte, error) {
	switch {
	case r.answer != nil:
		return s.answerResult(r.answer)
	case r.task != nil:
		return s.taskCreated(*r.task)
	}
	value := r.value
	b := make([]byte, 0, 128+len(s.info)+2*len(value)+len(value)/4)
	b, err := jsontext.AppendQuote(append(b, `{"resultType":"complete","content":[{"type":"text","text":`...), value)
	if err != nil {
		return nil, err
	}
	b = append(append(b, `}],"structuredContent":`...), value...)
	b = append(append(b, `,"isError":false,"_meta":`...), s.info...)
	return append(b, '}'), nil
}

// answerResult encodes an answer that is not ours to shape. One that reports a
// failure has no structuredContent, as toolError has none.
func (s *Server) answerResult(a *command.Answer) ([]byte, error) {
	content := jsontext.Value(a.Content)
	if content == nil {
		text := a.Structured
		if text == nil {
			text = []byte("{}")
		}
		quoted, err := jsontext.AppendQuote([]byte(`[{"type":"text","text":`), text)
		if err != nil {
			return nil, err
		}
		content = append(quoted, `}]`...)
	}
	out := struct {
		ResultType string         `json:"resultType"`
		Content    jsontext.Value `json:"content"`
		Structured jsontext.Value `json:"structuredContent,omitzero"`
		IsError    bool           `json:"isError"`
		Meta       jsontext.Value `json:"_meta"`
	}{"complete", content, jsontext.Value(a.Structured), a.Failed, s.info}
	if a.Failed {
		out.Structured = nil
	}
	return json.Marshal(out)
}

// toolError encodes why a tool failed. It has no structuredContent: clients hold
// that against the output schema even here.
func (s *Server) toolError(e *command.Error) ([]byte, error) {
	value, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 256+len(s.info)+len(value)+len(value)/4)
	if b, err = jsontext.AppendQuote(append(b, `{"resultType":"complete","content":[{"type":"text","text":`...), value); err != nil {
		return nil, err
	}
	b = append(append(b, `}],"isError":true,"_meta":`...), s.info...)
	return append(b, '}'), nil
}
