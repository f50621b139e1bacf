package command

import (
	"context"
	"errors"
	"time"

	"ze.internal/ze/appliance/access"
)

// Code classifies an Error. Each surface maps codes in one table.
type Code string

// The codes.
const (
	Invalid              Code = "invalid"               // an argument or the command line is wrong
	Unknown              Code = "unknown"               // no such command, or not permitted: the two look alike
	InvalidConfiguration Code = "invalid-configuration" // a whole configuration is wrong
	NotFound             Code = "not-found"             // something the arguments name does not exist
	Conflict             Code = "conflict"              // not possible in the present state
	Unavailable          Code = "unavailable"           // a part of the daemon cannot answer now; try again
	Limit                Code = "limit"                 // a limit of the caller or the daemon is reached
	Canceled             Code = "canceled"              // the caller went away before the answer, or the person asked said no
	Damaged              Code = "damaged"               // what is kept cannot be trusted
	Forbidden            Code = "forbidden"             // the caller, or the daemon, may not do this
	Internal             Code = "internal"              // a defect or a failure the caller cannot mend

	InputRequired Code = "input-required" // the caller has to answer questions first; see InputNeeded
)

// Error is a failure as the caller sees it: what went wrong, where, what is
// allowed, and what to do next.
type Error struct {
	Code    Code     `json:"code"`
	Message string   `json:"message"`           // lower case, no full stop
	Field   string   `json:"field,omitempty"`   // "prefixes[3]", "next-hop"
	Allowed string   `json:"allowed,omitempty"` // the allowed form, with an example
	Actions []string `json:"actions,omitempty"` // what to do next: command lines or short sentences
	Err     error    `json:"-"`                 // the cause, for the log

	RetryAfter time.Duration `json:"-"` // Limit: when to try again; 0: nobody knows
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// Unwrap implements errors.Unwrap.
func (e *Error) Unwrap() error { return e.Err }

// outage is implemented by errors that mean that a part of the daemon cannot do
// its work now: what is the matter, and what the user can do.
type outage interface {
	error
	Outage() (message, next string)
}

// AsError returns err as an Error. What carries no code is Internal: the caller
// sees a fixed sentence, the log sees the cause.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var limit *access.LimitError
	var outage outage
	switch {
	case errors.As(err, &limit):
		return &Error{Code: Limit, Message: limit.Message, RetryAfter: limit.RetryAfter, Err: err}
	case errors.As(err, &outage):
		message, next := outage.Outage()
		e := &Error{Code: Unavailable, Message: message, Err: err}
		if next != "" {
			e.Actions = []string{next}
		}
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: Canceled, Message: "the call was canceled before it was answered", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Unavailable, Message: "a part of the daemon did not answer in time", Actions: []string{"try again", "show status"}, Err: err}
	}
	return &Error{Code: Internal, Message: "internal error; the daemon's log has the cause", Err: err}
}
