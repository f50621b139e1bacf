package command

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/schema"
)

// Auditor is where the dispatcher leaves its records. Begin and End are durable
// when they return; Note and Refused may be grouped with others; what Pending
// returns is committed with the first change of the store.
type Auditor interface {
	Begin(ctx context.Context, r audit.Record) (seq uint64, err error)
	End(ctx context.Context, begin uint64, r audit.Record) error
	Note(r audit.Record) error
	Pending(records ...audit.Record) *audit.Pending
	Refused(r audit.Record)
}

// Options of a Dispatcher; every field is required.
type Options struct {
	Registry *Registry
	Audit    Auditor
	Clock    func() time.Time
	Logger   zerolog.Logger
}

// Dispatcher is the only door to a command. Every surface calls Do.
type Dispatcher struct {
	Options
	metrics *metrics
}

// NewDispatcher returns a dispatcher for the commands of o.Registry.
func NewDispatcher(o Options) *Dispatcher {
	return &Dispatcher{Options: o, metrics: newMetrics()}
}

// Registry returns the commands the dispatcher runs.
func (d *Dispatcher) Registry() *Registry { return d.Options.Registry }

// Collectors returns the dispatcher's metrics.
func (d *Dispatcher) Collectors() []prometheus.Collector { return d.metrics.collectors() }

// Do runs one call: look up, permission, arguments, audit, run, audit. The
// error is always an *Error.
func (d *Dispatcher) Do(ctx context.Context, call Call) (*Result, error) {
	t := d.trail(&call, d.Clock())
	c, args, err := d.resolve(&call)
	t.command = c
	if err != nil {
		return nil, t.finish(ctx, AsError(err))
	}
	raw, err := checkArgs(c, args)
	if err != nil {
		return nil, t.finish(ctx, AsError(err))
	}
	t.describe(raw, args)
	running, err := t.begin(ctx)
	if gone := ctx.Err(); err != nil && gone != nil {
		t.refused = false // the log is not to blame
		return nil, t.finish(ctx, AsError(gone))
	}
	if err != nil {
		return nil, t.finish(ctx, auditFailed(err))
	}
	value, err := d.run(running, &Request{Command: c, Principal: call.Principal, Surface: call.Surface, Args: raw})
	if err != nil {
		return nil, t.finish(ctx, AsError(err))
	}
	result := &Result{Command: c}
	if answer, ok := value.(*Answer); ok {
		result.Answer, result.JSON = answer, answer.Structured
	} else if result.JSON, err = jsonv2.Marshal(value, jsonv2.Deterministic(true)); err != nil {
		return nil, t.finish(ctx, AsError(fmt.Errorf("encode the result of %q: %w", c.path, err)))
	}
	if err := t.finish(ctx, nil); err != nil {
		return nil, err
	}
	return result, nil
}

// Probe takes a call that only reads the way of Do, to find out whether that is
// open. It leaves no trace, so it is for nobody's wishes but the daemon's own.
func (d *Dispatcher) Probe(ctx context.Context, call Call) error {
	c, args, err := d.resolve(&call)
	if err != nil {
		return AsError(err)
	}
	if c.Effect != EffectRead {
		return fmt.Errorf("probe with %q: it does not only read", c.path)
	}
	raw, err := checkArgs(c, args)
	if err != nil {
		return AsError(err)
	}
	if _, err := d.run(ctx, &Request{Command: c, Principal: call.Principal, Surface: call.Surface, Args: raw}); err != nil {
		return AsError(err)
	}
	return nil
}

// Plan reads a call without running it or leaving a trace: it returns the command
// and the call in the form of a path and values, which Do may be given in place
// of the first. The values are not checked. The error is what Do would return.
func (d *Dispatcher) Plan(call Call) (*Command, Call, error) {
	c, args, err := d.resolve(&call)
	if err != nil {
		return nil, call, AsError(err)
	}
	call.Path, call.Values, call.Line, call.Args = c.Path, args, "", nil
	return c, call, nil
}

// Record leaves the traces of a call that a surface answered without a command:
// one it refused, with e, or one that name, a fixed word of the surface, stands
// for. It returns what the caller is told: e, or why no record could be kept.
func (d *Dispatcher) Record(ctx context.Context, call Call, name string, start time.Time, e *Error) error {
	t := d.trail(&call, start)
	t.record.Command = name
	return t.finish(ctx, e)
}

// Refused leaves the traces of a request that a surface turned away before it
// was a call; of call it needs Surface and Remote, and the Principal if one was
// recognised. why is a fixed word of the surface. A flood of them is summed up.
func (d *Dispatcher) Refused(call Call, why string) {
	r := audit.Record{Time: d.Clock(), Surface: call.Surface, Remote: call.Remote, Outcome: why}
	if p := call.Principal; p != nil {
		r.Principal, r.Accessor = p.Name, p.Accessor
	}
	d.Audit.Refused(r)
	d.metrics.count("", call.Surface, why)
}

// resolve finds the command and its arguments, not yet checked.
func (d *Dispatcher) resolve(call *Call) (*Command, map[string]any, error) {
	s := d.Options.Registry.state.Load()
	if call.Path == nil {
		return s.parseLine(call.Principal, call.Line)
	}
	n := s.root.at(call.Path)
	if n == nil || n.command == nil || !n.command.permitted(call.Principal) {
		return nil, nil, s.unknownPath(call.Principal, call.Path)
	}
	if call.Values != nil {
		return n.command, call.Values, nil
	}
	args, err := decodeArgs(call.Args)
	return n.command, args, err
}

var emptyObject = json.RawMessage("{}")

// checkArgs holds args against the command's input schema, fills in defaults
// and returns them as JSON with sorted names.
func checkArgs(c *Command, args map[string]any) (json.RawMessage, error) {
	if problems := c.Input.Check(args); len(problems) > 0 {
		return nil, invalid(c, problems)
	}
	c.Input.FillDefaults(args)
	if len(args) == 0 {
		return emptyObject, nil
	}
	return json.Marshal(args)
}

func invalid(c *Command, problems []schema.Problem) error {
	p := problems[0]
	e := &Error{Code: Invalid, Field: p.Field, Message: p.Message, Allowed: p.Allowed}
	if p.Suggest != "" {
		e.Actions = append(e.Actions, "did you mean "+p.Suggest+"?")
	}
	const shown = 10
	for i, p := range problems[1:] {
		if i == shown {
			e.Actions = append(e.Actions, fmt.Sprintf("and %d more problems", len(problems)-1-shown))
			break
		}
		e.Actions = append(e.Actions, "also "+p.Field+": "+p.Message)
	}
	e.Actions = append(e.Actions, "show command help "+c.path)
	return e
}

// run calls the command; a panic becomes an error and the daemon lives on.
func (d *Dispatcher) run(ctx context.Context, r *Request) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			d.Logger.Error().Str("command", r.Command.path).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("command panicked")
			err = fmt.Errorf("command %q panicked: %v", r.Command.path, p)
		}
	}()
	return r.Command.Run(ctx, r)
}
