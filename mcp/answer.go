package mcp

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// answer runs the command behind a resource or a prompt; name and args are what
// the caller said of it. Without a result there is either the interim one, in
// which the command asks its caller something, or a failure, worded by explain.
func (s *Server) answer(ctx context.Context, r *request, name string, args jsontext.Value, call command.Call,
	explain func(*command.Error) *failure) (result *command.Result, interim []byte, fail *failure) {
	x, fail := s.newRound(r, name, args)
	if fail != nil {
		return nil, nil, fail
	}
	call.Principal, call.Surface, call.Remote = r.principal, surface, r.remote
	var err error
	if why := s.whileValid(ctx, r, func(ctx context.Context) {
		result, err = s.dispatcher.Do(command.WithAsker(s.reporting(ctx, r), x), call)
	}); why != nil {
		return nil, nil, refusal(http.StatusUnauthorized, why.Error())
	}
	if err == nil {
		return result, nil, nil
	}
	if questions := questionsOf(err); questions != nil {
		if interim, err = x.result(questions); err == nil {
			return nil, interim, nil
		}
		s.log.Error().Err(err).Str("method", r.method).Msg("encode the questions of a command")
		return nil, nil, internalFailure()
	}
	if lacking := (*lackingError)(nil); errors.As(err, &lacking) {
		return nil, nil, missingCapability(lacking.Error(), string(lacking.required.encode()))
	}
	return nil, nil, explain(command.AsError(err))
}

// commandFailure maps why a command failed where a result cannot say it.
func commandFailure(e *command.Error) *failure {
	switch e.Code {
	case command.Internal:
		return internalFailure()
	case command.Invalid, command.NotFound, command.Unknown:
		return refusedParams("%s", e.Error())
	}
	f := internalFailure()
	f.message = e.Error()
	f.data, _ = json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	return f
}

// named reads the parameter that a request names its object by, and holds the
// Mcp-Name header to it.
func (r *request) named(param, what string) (string, *failure) {
	var params map[string]jsontext.Value
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return "", invalidParams("params: %v", err)
	}
	name, isString := text(params[param])
	switch {
	case params[param] == nil:
		return "", invalidParams("params.%s is missing: it says %s", param, what)
	case !isString:
		return "", invalidParams("params.%s must be a string", param)
	}
	return name, r.checkName(param, name)
}

// refuse leaves the record of a request that reaches no command.
func (s *Server) refuse(ctx context.Context, r *request, code command.Code, fail *failure) *failure {
	if err := s.record(ctx, r, "", &command.Error{Code: code, Message: fail.message}); command.AsError(err).Code != code {
		return internalFailure()
	}
	return fail
}
