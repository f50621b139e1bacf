// Package task runs commands that take longer than a caller waits. It owns their
// states, limits and lifetimes, and what becomes of them after a crash. A task is
// durable before anybody hears of it. The package must not know any surface or
// command: it hands calls to the dispatcher, and declares as Store the little it
// needs kept.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ze.internal/ze/appliance/command"
)

// Status is the state of a task (Tasks extension of the Model Context Protocol).
type Status string

// The states. The last three are final.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed" // the command answered, be it with an error of its own
	Failed        Status = "failed"    // there is no answer: a defect, or the daemon ended meanwhile
	Cancelled     Status = "cancelled"
)

// Final reports whether the state never changes again.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is a command's run as it is kept.
type Task struct {
	ID       string          `json:"id"`    // 128 random bits or more, ASCII
	Owner    string          `json:"owner"` // who may know of it: access.Principal.Owner
	Call     Call            `json:"call"`
	Status   Status          `json:"status"`
	Message  string          `json:"message,omitempty"` // how far it is, or why it failed
	Created  time.Time       `json:"created"`
	Updated  time.Time       `json:"updated"`
	TTL      time.Duration   `json:"ttl"`              // from Created; it may be forgotten after
	Deadline time.Time       `json:"deadline"`         // a run that lasts longer is ended
	Result   json.RawMessage `json:"result,omitempty"` // Completed: see command.Result.JSON
	Answer   *command.Answer `json:"answer,omitempty"` // Completed: see command.Result.Answer
	Error    *command.Error  `json:"error,omitempty"`  // Completed or Failed

	Questions []command.Question `json:"-"`      // InputRequired: those not answered yet; a run that begins again asks again
	Starts    int                `json:"starts"` // how often it was begun
}

// Call is what a task runs, kept so that it can run again.
type Call struct {
	Path      []string        `json:"path"`
	Args      json.RawMessage `json:"args,omitempty"` // an object while it can run again, else nil
	Surface   string          `json:"surface"`
	Remote    string          `json:"remote,omitempty"`
	Principal string          `json:"principal"` // name
	Accessor  string          `json:"accessor"`
	Client    json.RawMessage `json:"client,omitempty"` // while it has not ended: what the surface must know of the caller when the command asks
}

// ErrNoTask says that there is no such task for whoever asks.
var ErrNoTask = errors.New("no such task")

// Store is what this package needs kept. Every method is one atomic step and
// durable when it returns.
type Store interface {
	Tasks(ctx context.Context) ([]Task, error)         // all that can be read, by creation
	Task(ctx context.Context, id string) (Task, error) // ErrNoTask
	PutTask(ctx context.Context, t Task) error         // new, or in place of the one with its ID
	DeleteTask(ctx context.Context, id string) error   // one that is not there is none
}
