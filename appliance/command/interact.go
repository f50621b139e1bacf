package command

import (
	"context"
	"encoding/json"
)

// Question is something a command needs from the person behind its caller, or
// from the caller's program, before it can go on. It has the form that the Model
// Context Protocol embeds in results (page basic/patterns/mrtr of revision
// 2026-07-28); other surfaces may ask it in their own way.
type Question struct {
	Key    string          `json:"key"`    // names it within one run of the command; never used for another one
	Method string          `json:"method"` // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage `json:"params"` // an object; nil: none
	// Bound says that the answer counts only for this very call, which the
	// surface must make sure of: a confirmation, for example.
	Bound bool `json:"bound,omitzero"`
}

// Asker asks questions in the name of a running command.
type Asker interface {
	// Ask returns the answers by key, each a JSON object as the method of its
	// question defines it. The error is an *Error, of code InputRequired if the
	// caller has to come back with answers: then the command returns it, and runs
	// again from its beginning. So nothing may have happened before a question.
	// What the caller has said it cannot answer is left out of the answers; if
	// that is everything, the error says so.
	Ask(ctx context.Context, questions []Question) (map[string]json.RawMessage, error)
}

// InputNeeded is the cause of an Error of code InputRequired.
type InputNeeded struct{ Questions []Question }

// Error implements error.
func (n *InputNeeded) Error() string { return "the command asks something" }

type askerKey struct{}

// WithAsker returns a context in which Ask reaches a.
func WithAsker(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// CanAsk reports whether there is anybody to ask.
func CanAsk(ctx context.Context) bool { return ctx.Value(askerKey{}) != nil }

// Ask asks the caller. Without anybody to ask the error says so.
func Ask(ctx context.Context, questions ...Question) (map[string]json.RawMessage, error) {
	a, ok := ctx.Value(askerKey{}).(Asker)
	if !ok {
		return nil, &Error{Code: Conflict, Message: "the command asks its caller something, and this caller cannot be asked",
			Actions: []string{"call it from a client that can be asked"}}
	}
	return a.Ask(ctx, questions)
}

// Progress is how far a command has come.
type Progress struct {
	Done, Total float64 // in any unit; Total 0: not known
	Message     string  // for people, "" for none
}

type progressKey struct{}

// WithProgress returns a context in which Report calls f, from one goroutine at
// a time and never after the command has returned.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// Report tells whoever waits how far the command has come. It costs nothing when
// nobody listens; the surface limits how often it passes one on.
func Report(ctx context.Context, p Progress) {
	if f, ok := ctx.Value(progressKey{}).(func(Progress)); ok {
		f(p)
	}
}

type endingKey struct{}

// WithEnding returns a context in which Ending returns soon.
func WithEnding(ctx context.Context, soon <-chan struct{}) context.Context {
	return context.WithValue(ctx, endingKey{}, soon)
}

// Ending returns a channel that is closed when those who wait for an answer will
// be cut off before long, as by the end of the daemon. A command that only waits
// for something then answers with what there is. It is nil, and so never closed,
// where nobody tells.
func Ending(ctx context.Context) <-chan struct{} {
	soon, _ := ctx.Value(endingKey{}).(<-chan struct{})
	return soon
}

// Answer is what a Run may return instead of a value: the result of a command
// whose answer is not ours to shape.
type Answer struct {
	Content    json.RawMessage `json:"content,omitempty"`    // array of content blocks (page server/tools); nil: the structured value as text
	Structured json.RawMessage `json:"structured,omitempty"` // any JSON value; nil: none
	Failed     bool            `json:"failed,omitempty"`     // the command reports a failure of its own
}
