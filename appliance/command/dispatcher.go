package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
// when they return; Note may be grouped with others.
type Auditor interface {
	Begin(ctx context.Context, r audit.Record) (seq uint64, err error)
	End(ctx context.Context, begin uint64, r audit.Record) error
	Note(r audit.Record) error
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
	start := d.Clock()
	c, args, err := d.resolve(call)
	var raw json.RawMessage
	if err == nil {
		raw, err = checkArgs(c, args)
	}
	rec := record(call, start)
	if c != nil {
		rec.Command = c.path
	}
	if err != nil {
		return nil, d.finish(ctx, c, call, rec, start, 0, AsError(err))
	}
	describeArgs(&rec, c, raw, args)

	var begin uint64
	if c.Effect != EffectRead {
		rec.Phase = audit.Begin
		if begin, err = d.Audit.Begin(ctx, rec); err != nil {
			return nil, d.finish(ctx, c, call, rec, start, 0, auditFailed(err))
		}
	}
	value, err := d.run(ctx, &Request{Command: c, Principal: call.Principal, Surface: call.Surface, Args: raw})
	if err == nil {
		var out json.RawMessage
		if out, err = jsonv2.Marshal(value, jsonv2.Deterministic(true)); err == nil {
			if err := d.finish(ctx, c, call, rec, start, begin, nil); err != nil {
				return nil, err
			}
			return &Result{Command: c, JSON: out}, nil
		}
		err = fmt.Errorf("encode the result of %q: %w", c.path, err)
	}
	return nil, d.finish(ctx, c, call, rec, start, begin, AsError(err))
}

// Record leaves the traces of a call that a surface answered without a command:
// one it refused, with e, or one that name, a fixed word of the surface, stands
// for. It returns what the caller is told: e, or why no record could be kept.
func (d *Dispatcher) Record(ctx context.Context, call Call, name string, start time.Time, e *Error) error {
	rec := record(call, start)
	rec.Command = name
	return d.finish(ctx, nil, call, rec, start, 0, e)
}

func record(call Call, start time.Time) audit.Record {
	return audit.Record{
		Time:      start,
		Principal: call.Principal.Name,
		Accessor:  call.Principal.Accessor,
		Surface:   call.Surface,
		Remote:    call.Remote,
	}
}

// resolve finds the command and its arguments, not yet checked.
func (d *Dispatcher) resolve(call Call) (*Command, map[string]any, error) {
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

// finish leaves the last audit record, the metrics and a log line of a call.
// It returns what the caller is told: e, or why the record could not be kept.
func (d *Dispatcher) finish(ctx context.Context, c *Command, call Call, rec audit.Record, start time.Time, begin uint64, e *Error) error {
	rec.Outcome = "ok"
	if e != nil {
		rec.Outcome = string(e.Code)
	}
	rec.Duration = d.Clock().Sub(start)
	if rec.Phase == audit.Begin && begin == 0 {
		// The begin record could not be written, so neither can this one.
	} else if begin != 0 {
		rec.Phase = audit.End
		// The work is done: its record must not depend on the caller still waiting.
		if err := d.Audit.End(context.WithoutCancel(ctx), begin, rec); err != nil && e == nil {
			e = auditFailed(err)
			e.Message = "done, but the audit log does not take the record of it"
		}
	} else {
		rec.Phase = audit.Call
		if err := d.Audit.Note(rec); err != nil && e == nil {
			e = auditFailed(err)
		}
	}
	d.metrics.observe(rec.Command, call.Surface, rec.Outcome, rec.Duration)
	level := zerolog.DebugLevel
	if c != nil && c.Effect != EffectRead {
		level = zerolog.InfoLevel
	}
	if e != nil && e.Code == Internal {
		level = zerolog.ErrorLevel
	}
	if ev := d.Logger.WithLevel(level); ev.Enabled() {
		ev.Str("command", rec.Command).Str("principal", rec.Principal).Str("surface", rec.Surface).
			Str("outcome", rec.Outcome).Dur("duration-ms", rec.Duration)
		if e != nil {
			ev.AnErr("error", logError(e))
		}
		ev.Msg("call")
	}
	if e == nil {
		return nil
	}
	return e
}

// logError is what the log says of e: the cause where the caller is not told it.
func logError(e *Error) error {
	if e.Code == Internal && e.Err != nil {
		return e.Err
	}
	return e
}

func auditFailed(err error) *Error {
	return &Error{Code: Unavailable, Message: "refused: the audit log cannot be written",
		Actions: []string{"make room on the disk under the data directory, or check its health; the daemon's log has the cause",
			"if something must end at once: stopping the daemon ends everything it does outside"}, Err: err}
}

// describeArgs records the arguments: a digest for every call, and for calls
// that change something the values too, sensitive ones masked.
func describeArgs(rec *audit.Record, c *Command, raw json.RawMessage, args map[string]any) {
	if len(args) > 0 {
		sum := sha256.Sum256(raw)
		rec.Digest = hex.EncodeToString(sum[:])
	}
	if c.Effect == EffectRead {
		return
	}
	masked, hit := mask(c.Input.Params, args)
	if !hit {
		rec.Args = string(raw)
		return
	}
	if b, err := json.Marshal(masked); err == nil {
		rec.Args = string(b)
	}
}

// mask returns args with sensitive values replaced, and whether there were any.
func mask(params []*schema.Node, args map[string]any) (map[string]any, bool) {
	out, hit := make(map[string]any, len(args)), false
	for _, n := range params {
		v, ok := args[n.Name]
		switch sub, isObject := v.(map[string]any); {
		case !ok:
		case n.Sensitive:
			out[n.Name], hit = "***", true
		case isObject:
			m, h := mask(n.Children, sub)
			out[n.Name], hit = m, hit || h
		default:
			out[n.Name] = v
		}
	}
	return out, hit
}
