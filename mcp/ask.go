package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// inputs are the members of params with which a caller comes back with answers.
type inputs struct {
	Responses jsontext.Value // inputResponses
	State     jsontext.Value // requestState
}

// round is one of possibly several requests that make a call (page
// basic/patterns/mrtr). It answers the questions of a command out of what the
// caller sent and what the rounds before it carried here, or has the call end
// with those that are open. It is a command.Asker.
type round struct {
	server  *Server
	client  *capabilities
	subject subject
	sent    map[string]jsontext.Value // inputResponses

	mu      sync.Mutex
	carried map[string]json.RawMessage // answers that count, by key
	bound   []string                   // keys whose answer in sent was asked for this very call
}

// newRound returns the round that a request is. name and args are those of what
// is called.
func (s *Server) newRound(r *request, name string, args jsontext.Value) (*round, *failure) {
	in := &r.given.inputs
	x := &round{server: s, client: &r.client, subject: subject{principal: r.principal, method: r.method, name: name, args: args}}
	if in.Responses != nil {
		if in.Responses.Kind() != '{' {
			return nil, refusedParams("params.inputResponses must be an object of answers by the key of the question")
		}
		if err := jsonv2.Unmarshal(in.Responses, &x.sent, checked); err != nil {
			return nil, refusedParams("params.inputResponses: %v", err)
		}
	}
	if in.State != nil {
		sealed, isString := text(in.State)
		if !isString {
			return nil, refusedParams("params.requestState must be the string that came with the questions; %s", startOver)
		}
		st, err := s.sealer.open(x.subject, sealed)
		if err != nil {
			return nil, refusedParams("%v", err)
		}
		x.carried, x.bound = st.Answers, st.Bound
	}
	return x, nil
}

// lackingError says that a command cannot do without capabilities that the
// caller has not declared.
type lackingError struct{ required capabilityNeeds }

// Error implements error.
func (e *lackingError) Error() string {
	return "the call needs a client that declares " + string(e.required.encode())
}

// Ask implements command.Asker.
func (x *round) Ask(_ context.Context, questions []command.Question) (map[string]json.RawMessage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	answers := make(map[string]json.RawMessage, len(questions))
	var open []command.Question
	lacking := capabilityNeeds{}
	for _, q := range questions {
		if a, ok := x.carried[q.Key]; ok {
			answers[q.Key] = a
			continue
		}
		needs, err := needsOf(q)
		if err != nil {
			return nil, err
		}
		if !x.client.satisfy(needs) {
			lacking.add(needs)
			continue
		}
		a, err := x.accept(&q)
		if err != nil {
			return nil, err
		}
		if a == nil {
			open = append(open, q)
			continue
		}
		answers[q.Key] = a
		if x.carried == nil {
			x.carried = make(map[string]json.RawMessage)
		}
		x.carried[q.Key] = a
	}
	switch {
	case len(open) > 0:
		return nil, &command.Error{Code: command.InputRequired, Message: "the call needs answers first",
			Err: &command.InputNeeded{Questions: open}}
	case len(answers) == 0 && len(lacking) > 0:
		cause := &lackingError{lacking}
		return nil, &command.Error{Code: command.Conflict, Message: cause.Error(), Err: cause}
	}
	return answers, nil
}

// accept returns the answer to q that the caller has sent, nil if there is none
// that counts. What is wrong with one is added to the question.
func (x *round) accept(q *command.Question) (json.RawMessage, error) {
	a, ok := x.sent[q.Key]
	if !ok || q.Bound && !slices.Contains(x.bound, q.Key) {
		return nil, nil
	}
	if a.Kind() != '{' {
		return nil, nil
	}
	if q.Method != elicitationMethod {
		return json.RawMessage(a), nil
	}
	problem, err := checkElicitation(q.Params, a)
	if err != nil {
		return nil, err
	}
	if problem != "" {
		q.Params, err = withProblem(q.Params, problem)
		return nil, err
	}
	return json.RawMessage(a), nil
}

// elicited is the result of an elicitation (page client/elicitation).
type elicited struct {
	Action  string          `json:"action"` // accept, decline or cancel
	Content json.RawMessage `json:"content"`
}

const (
	elicitationMethod = "elicitation/create"
	actionAccept      = "accept"
)

// checkElicitation returns what is wrong with an answer to an elicitation, ""
// if nothing is: the client has checked it, but that is not our check.
func checkElicitation(params json.RawMessage, answer jsontext.Value) (problem string, err error) {
	var a elicited
	if err := jsonv2.Unmarshal(answer, &a, checked); err != nil {
		return "action must be accept, decline or cancel", nil
	}
	switch a.Action {
	case "decline", "cancel":
		return "", nil
	case actionAccept:
	default:
		return "action must be accept, decline or cancel", nil
	}
	var form struct {
		Mode   string          `json:"mode"`
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &form); err != nil {
		return "", fmt.Errorf("read the question: %w", err)
	}
	if form.Mode == "url" {
		return "", nil
	}
	content, err := command.DecodeArgs(a.Content)
	if err != nil {
		return "content must be an object", nil
	}
	object, err := schema.FromJSON(form.Schema)
	if err != nil {
		return "", fmt.Errorf("read the form of the question: %w", err)
	}
	if problems := object.Check(content); len(problems) > 0 {
		return problems[0].Field + ": " + problems[0].Message, nil
	}
	return "", nil
}

// withProblem returns the params of an elicitation that is asked again.
func withProblem(params json.RawMessage, problem string) (json.RawMessage, error) {
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(params, &members); err != nil {
		return nil, fmt.Errorf("read the question: %w", err)
	}
	message, _ := text(members["message"])
	var err error
	if members["message"], err = jsontext.AppendQuote(nil, message+" (The last answer does not fit: "+problem+")"); err != nil {
		return nil, fmt.Errorf("ask again: %w", err)
	}
	return jsonv2.Marshal(members, jsonv2.Deterministic(true))
}

// questionsOf returns the questions that a call ended with; nil if it did not.
func questionsOf(err error) []command.Question {
	var n *command.InputNeeded
	if e := command.AsError(err); e.Code != command.InputRequired || !errors.As(e, &n) {
		return nil
	}
	return n.Questions
}

// result encodes the result that asks questions.
func (x *round) result(questions []command.Question) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := state{Answers: x.carried}
	var b bytes.Buffer
	requests, err := inputRequests(questions)
	if err != nil {
		return nil, err
	}
	b.WriteString(`{"resultType":"input_required","inputRequests":`)
	b.Write(requests)
	for _, q := range questions {
		if q.Bound {
			st.Bound = append(st.Bound, q.Key)
		}
	}
	if len(st.Answers) > 0 || len(st.Bound) > 0 {
		sealed, err := x.server.sealer.seal(x.subject, st)
		if err != nil {
			return nil, fmt.Errorf("seal the state of a call: %w", err)
		}
		b.WriteString(`,"requestState":"` + sealed + `"`)
	}
	b.WriteString(`,"_meta":`)
	b.Write(x.server.info)
	b.WriteByte('}')
	return b.Bytes(), nil
}

// inputRequests encodes questions as the caller is sent them, by key.
func inputRequests(questions []command.Question) (jsontext.Value, error) {
	type inputRequest struct {
		Method string         `json:"method"`
		Params jsontext.Value `json:"params,omitzero"`
	}
	requests := make(map[string]inputRequest, len(questions))
	for _, q := range questions {
		requests[q.Key] = inputRequest{q.Method, jsontext.Value(q.Params)}
	}
	b, err := jsonv2.Marshal(requests, jsonv2.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode questions: %w", err)
	}
	return b, nil
}
