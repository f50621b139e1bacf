package mcp

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

const surface = "mcp"

// runTool carries out a call of one tool. args is an object or nil, the result
// a JSON object.
type runTool func(ctx context.Context, r *request, args jsontext.Value) (jsontext.Value, error)

// toolCall is a tools/call that names a tool and fits its headers.
type toolCall struct {
	name string
	run  runTool
	args jsontext.Value
}

func (s *Server) toolsCall(ctx context.Context, r *request) ([]byte, *failure) {
	start := s.clock()
	r.recorded = true
	call, code, fail := s.parseCall(r)
	if fail == nil {
		return s.callTool(ctx, r, call)
	}
	// It reaches no command, and is recorded all the same.
	if code == command.Unknown {
		s.metrics.toolCalls.WithLabelValues(unknownLabel, string(code)).Inc()
	}
	if err := s.record(ctx, r, "", start, &command.Error{Code: code, Message: fail.message}); command.AsError(err).Code != code {
		return nil, internalFailure()
	}
	return nil, fail
}

// parseCall checks everything about a tools/call that is not the tool's own
// business. The code says how a refusal is recorded.
func (s *Server) parseCall(r *request) (call toolCall, code command.Code, fail *failure) {
	var params struct {
		Name      jsontext.Value `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	code = command.Invalid
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return call, code, invalidParams("params: %v", err)
	}
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
	return toolCall{name, run, params.Arguments}, "", nil
}

// tool returns what runs the tool called name and the parameters mirrored into
// headers; nil if there is no such tool, or none for p: the two look alike.
func (s *Server) tool(p *access.Principal, name string) (runTool, []*schema.Node) {
	if t := s.builtin[name]; t != nil {
		return t.run, nil
	}
	t := s.dispatcher.Registry().Tool(p, name)
	if t == nil {
		return nil, nil
	}
	return func(ctx context.Context, r *request, args jsontext.Value) (jsontext.Value, error) {
		start := s.clock()
		path, values, err := t.Resolve(r.principal, []byte(args))
		if err != nil {
			return nil, s.record(ctx, r, "", start, command.AsError(err))
		}
		return s.do(ctx, r, command.Call{Path: path, Values: values})
	}, t.Headers
}

// do hands a call to the dispatcher in the name of the request's sender.
func (s *Server) do(ctx context.Context, r *request, c command.Call) (jsontext.Value, error) {
	c.Principal, c.Surface, c.Remote = r.principal, surface, r.remote
	result, err := s.dispatcher.Do(ctx, c)
	if err != nil {
		return nil, err
	}
	return jsontext.Value(result.JSON), nil
}

// record leaves the traces of a call that reaches no command.
func (s *Server) record(ctx context.Context, r *request, name string, start time.Time, e *command.Error) error {
	return s.dispatcher.Record(ctx, command.Call{Principal: r.principal, Surface: surface, Remote: r.remote}, name, start, e)
}

// callTool runs a tool and encodes its answer. A command that fails is a result
// too: the model that called it is to read why and try again.
func (s *Server) callTool(ctx context.Context, r *request, call toolCall) (result []byte, fail *failure) {
	start, outcome := s.clock(), string(command.Internal) // unless the tool returns
	s.metrics.inFlight.Inc()
	defer func() {
		s.metrics.inFlight.Dec()
		s.finishCall(r, call.name, outcome, s.clock().Sub(start))
	}()
	value, err := call.run(ctx, r, call.args)
	if err == nil {
		if result, err = s.toolResult(value); err == nil {
			outcome = "ok"
		}
	} else {
		e := command.AsError(err)
		outcome = string(e.Code)
		result, err = s.toolError(e)
	}
	if err != nil {
		s.log.Error().Err(err).Str("tool", call.name).Msg("encode the result of a tool")
		return nil, internalFailure()
	}
	return result, nil
}

// toolResult encodes what a tool answers: once as text, for clients and models
// that read only that, and once as it is.
func (s *Server) toolResult(value jsontext.Value) ([]byte, error) {
	b := make([]byte, 0, 256+len(s.info)+2*len(value)+len(value)/4)
	b, err := jsontext.AppendQuote(append(b, `{"resultType":"complete","content":[{"type":"text","text":`...), value)
	if err != nil {
		return nil, err
	}
	b = append(append(b, `}],"structuredContent":`...), value...)
	b = append(append(b, `,"isError":false,"_meta":`...), s.info...)
	return append(b, '}'), nil
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
