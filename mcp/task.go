package mcp

import (
	"context"
	"encoding/json"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/task"
)

// taskCapability is what a client declares that can be given a task.
const taskCapability = `{"extensions":{"` + extensionTasks + `":{}}}`

// dispatch runs a command. A client that can be given a task gets one where the
// command allows that; every other one waits for the answer, unless the command
// is not to be waited for.
func (s *Server) dispatch(ctx context.Context, r *request, call *command.Call) (reply, error) {
	if s.tasks != nil {
		if answer, given, err := s.withoutWaiting(ctx, r, call); given {
			return answer, err
		}
	}
	result, err := s.dispatcher.Do(ctx, *call)
	if err != nil {
		return reply{}, err
	}
	return reply{value: jsontext.Value(result.JSON), answer: result.Answer}, nil
}

// withoutWaiting answers a call by a task, where the caller can be given one, or by
// why it would have to be; given says whether it has.
func (s *Server) withoutWaiting(ctx context.Context, r *request, call *command.Call) (answer reply, given bool, err error) {
	var c *command.Command
	if call.Path != nil {
		c = s.dispatcher.Registry().Find(call.Principal, call.Path)
	} else if planned, as, err := s.dispatcher.Plan(*call); err == nil {
		c, *call = planned, as
	}
	switch {
	case c == nil: // the dispatcher says it, and records it
	case !r.client.tasks && c.TaskOnly:
		cause := &lackingError{capabilityNeeds{"extensions": {extensionTasks: {}}}}
		e := &command.Error{Code: command.Conflict, Message: cause.Error(), Err: cause}
		return answer, true, s.dispatcher.Record(ctx, *call, c.Name(), s.clock(), e)
	case r.client.tasks && (c.Task == string(task.Required) || c.Task == string(task.Optional)):
		result, t, err := s.tasks.Run(ctx, *call, task.Mode(c.Task), r.client.answers())
		switch {
		case err != nil:
			return answer, true, err
		case t != nil:
			return reply{task: t}, true, nil
		}
		return reply{value: jsontext.Value(result.JSON), answer: result.Answer}, true, nil
	}
	return answer, false, nil
}

// maxCapabilities bounds what a task remembers of its caller's capabilities, in
// octets. They are short, unless somebody wants to fill the database.
const maxCapabilities = 4 << 10

// answers returns the capabilities that decide what can be asked, for CanAnswer.
func (c *capabilities) answers() json.RawMessage {
	var of struct {
		Elicitation jsontext.Value `json:"elicitation,omitzero"`
		Sampling    jsontext.Value `json:"sampling,omitzero"`
		Roots       jsontext.Value `json:"roots,omitzero"`
	}
	if err := jsonv2.Unmarshal(c.raw, &of, checked); err != nil {
		return json.RawMessage(`{}`)
	}
	b, err := jsonv2.Marshal(of)
	if err != nil || len(b) > maxCapabilities {
		return json.RawMessage(`{}`)
	}
	return b
}

// taskState is a task as it is sent (Tasks extension, its page tasks).
type taskState struct {
	ResultType string      `json:"resultType,omitzero"`
	ID         string      `json:"taskId"`
	Status     task.Status `json:"status"`
	Message    string      `json:"statusMessage,omitzero"`
	Created    string      `json:"createdAt"`
	Updated    string      `json:"lastUpdatedAt"`
	TTL        int64       `json:"ttlMs"`
	Poll       int64       `json:"pollIntervalMs"`

	Questions jsontext.Value `json:"inputRequests,omitzero"` // input_required
	Result    jsontext.Value `json:"result,omitzero"`        // completed: what tools/call would have returned
	Error     *taskError     `json:"error,omitzero"`         // failed

	Meta jsontext.Value `json:"_meta,omitzero"`
}

type taskError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s *Server) taskState(t task.Task) taskState {
	const form = "2006-01-02T15:04:05.000Z07:00"
	return taskState{
		ID: t.ID, Status: t.Status, Message: t.Message, Created: t.Created.UTC().Format(form), Updated: t.Updated.UTC().Format(form),
		TTL: t.TTL.Milliseconds(), Poll: s.tasks.Poll().Milliseconds(),
	}
}

// taskCreated encodes the result of a call that has become a task.
func (s *Server) taskCreated(t task.Task) ([]byte, error) {
	out := s.taskState(t)
	out.ResultType, out.Meta = "task", s.info
	return jsonv2.Marshal(out, jsontext.AllowInvalidUTF8(true))
}

// wholeTask adds to the state of a task what that state brings along.
func (s *Server) wholeTask(t task.Task) (out taskState, err error) {
	out = s.taskState(t)
	switch t.Status {
	case task.InputRequired:
		out.Questions, err = inputRequests(t.Questions)
	case task.Failed:
		out.Error = &taskError{codeInternal, t.Error.Message}
	case task.Completed:
		if t.Error != nil {
			out.Result, err = s.toolError(t.Error)
		} else {
			out.Result, err = s.toolResult(reply{value: jsontext.Value(t.Result), answer: t.Answer})
		}
	}
	return out, err
}

// theTask returns the task that a request names, if it is the sender's.
func (s *Server) theTask(ctx context.Context, r *request) (t task.Task, fail *failure) {
	id, fail := r.named("taskId", "which task is meant")
	if fail != nil {
		return t, s.refuse(ctx, r, command.Invalid, fail)
	}
	if !r.client.tasks {
		return t, s.refuse(ctx, r, command.Invalid,
			missingCapability(r.method+" is part of the Tasks extension, which the request did not declare", taskCapability))
	}
	t, err := s.tasks.Get(ctx, r.principal.Owner(), id)
	return t, s.taskFailure(ctx, r, id, err)
}

// taskFailure says why a task cannot be had. One that is another's is answered
// like one that does not exist.
func (s *Server) taskFailure(ctx context.Context, r *request, id string, err error) *failure {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, task.ErrNoTask):
		return s.refuse(ctx, r, command.NotFound, refusedParams("no task %s; it may have been forgotten when its time was over", quoted(id)))
	}
	return commandFailure(command.AsError(err))
}

// tasksGet answers how a task is. It leaves no record: the call that the task is
// has left its own, and callers ask once a second.
func (s *Server) tasksGet(ctx context.Context, r *request) ([]byte, *failure) {
	t, fail := s.theTask(ctx, r)
	if fail != nil {
		return nil, fail
	}
	out, err := s.wholeTask(t)
	if err == nil {
		out.ResultType, out.Meta = "complete", s.info
		var b []byte
		if b, err = jsonv2.Marshal(out, jsontext.AllowInvalidUTF8(true)); err == nil {
			return b, nil
		}
	}
	s.log.Error().Err(err).Str("task", t.ID).Msg("encode a task")
	return nil, internalFailure()
}

// tasksUpdate hands a task the answers to what it asks.
func (s *Server) tasksUpdate(ctx context.Context, r *request) ([]byte, *failure) {
	t, fail := s.theTask(ctx, r)
	if fail != nil {
		return nil, fail
	}
	answers, fail := r.answersTo(t)
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	return s.acknowledge(ctx, r, t.ID, s.tasks.Answer(t.Owner, t.ID, answers))
}

// answersTo returns the answers in a request that are to questions of t.
func (r *request) answersTo(t task.Task) (map[string]json.RawMessage, *failure) {
	var params struct {
		Responses jsontext.Value `json:"inputResponses"`
	}
	if err := jsonv2.Unmarshal(r.params, &params, checked); err != nil {
		return nil, invalidParams("params: %v", err)
	}
	if params.Responses.Kind() != '{' {
		return nil, invalidParams("params.inputResponses must be an object of answers by the key of the question")
	}
	var sent map[string]jsontext.Value
	if err := jsonv2.Unmarshal(params.Responses, &sent, checked); err != nil {
		return nil, invalidParams("params.inputResponses: %v", err)
	}
	answers := map[string]json.RawMessage{}
	for _, q := range t.Questions {
		a, ok := sent[q.Key]
		if !ok {
			continue
		}
		if a.Kind() != '{' {
			return nil, refusedParams("params.inputResponses: the answer to %s must be an object", quoted(q.Key))
		}
		if q.Method == elicitationMethod {
			problem, err := checkElicitation(q.Params, a)
			if err != nil || problem != "" {
				return nil, refusedParams("params.inputResponses: the answer to %s does not fit: %s", quoted(q.Key), problem)
			}
		}
		answers[q.Key] = json.RawMessage(a)
	}
	return answers, nil
}

// tasksCancel asks a task to end; see task.Manager.Cancel.
func (s *Server) tasksCancel(ctx context.Context, r *request) ([]byte, *failure) {
	t, fail := s.theTask(ctx, r)
	if fail != nil {
		return nil, fail
	}
	return s.acknowledge(ctx, r, t.ID, s.tasks.Cancel(t.Owner, t.ID))
}

// acknowledge answers that a task has been told something, unless err says that
// it has not.
func (s *Server) acknowledge(ctx context.Context, r *request, id string, err error) ([]byte, *failure) {
	if fail := s.taskFailure(ctx, r, id, err); fail != nil {
		return nil, fail
	}
	if err := s.record(ctx, r, r.method, nil); err != nil {
		return nil, commandFailure(command.AsError(err))
	}
	return append(append([]byte(`{"resultType":"complete","_meta":`), s.info...), '}'), nil
}
