package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/schema"
)

// trail is what one call leaves behind: audit records, metrics and a log line.
type trail struct {
	*Dispatcher
	command *Command // nil if the call reaches none
	surface string
	start   time.Time
	record  audit.Record
	began   uint64         // Seq of the Begin record on disk, 0 if there is none
	pending *audit.Pending // records that wait for the first change of the store, nil if none do
	refused bool           // the Begin record could not be written
}

func (d *Dispatcher) trail(call *Call, start time.Time) *trail {
	t := &trail{Dispatcher: d, surface: call.Surface, start: start}
	r := &t.record
	r.Time, r.Surface, r.Remote = start, call.Surface, call.Remote
	r.Principal, r.Accessor = call.Principal.Name, call.Principal.Accessor
	return t
}

// begin leaves the record of a call that is about to act, or has it wait for the
// call's first change of the store. The context is what the command runs with.
func (t *trail) begin(ctx context.Context) (context.Context, error) {
	if t.command.Effect == EffectRead {
		return ctx, nil
	}
	begin, end := t.record, t.record
	begin.Phase, end.Phase, end.Outcome = audit.Begin, audit.End, "ok"
	switch {
	case t.command.Offline && !t.command.Outside:
		t.pending = t.Audit.Pending(begin, end)
	case t.command.StoreFirst:
		t.pending = t.Audit.Pending(begin)
	default:
		var err error
		t.began, err = t.Audit.Begin(ctx, begin)
		t.refused = err != nil
		return ctx, err
	}
	return audit.WithPending(ctx, t.pending), nil
}

// finish leaves the last audit record, the metrics and a log line of a call.
// It returns what the caller is told: e, or why the record could not be kept.
func (t *trail) finish(ctx context.Context, e *Error) error {
	if t.command != nil {
		t.record.Command = t.command.path
	}
	t.record.Outcome = "ok"
	if e != nil {
		t.record.Outcome = string(e.Code)
	}
	t.record.Duration = t.Clock().Sub(t.start)
	if failed := t.close(ctx, e); failed != nil && e == nil {
		e = failed
	}
	t.metrics.observe(t.record.Command, t.surface, t.record.Outcome, t.record.Duration)
	t.log(ctx, e)
	if e == nil {
		return nil
	}
	return e
}

// close leaves the last audit record.
func (t *trail) close(ctx context.Context, e *Error) *Error {
	committed := false
	if t.pending != nil {
		t.began, committed = t.pending.Seq()
	}
	switch {
	case t.refused:
		// The begin record could not be written, so neither can this one.
		return nil
	case committed && t.command.Offline && e == nil:
		return nil // it lies on disk together with the change
	case t.began != 0:
		// The work is done: its record must not depend on the caller still waiting.
		if err := t.Audit.End(context.WithoutCancel(ctx), t.began, t.record); err != nil {
			failed := auditFailed(err)
			failed.Message = "done, but the audit log does not take the record of it"
			return failed
		}
		return nil
	}
	if err := t.Audit.Note(t.record); err != nil {
		return auditFailed(err)
	}
	return nil
}

func (t *trail) log(ctx context.Context, e *Error) {
	level := zerolog.DebugLevel
	if t.command != nil && t.command.Effect != EffectRead {
		level = zerolog.InfoLevel
	}
	if e != nil && e.Code == Internal {
		level = zerolog.ErrorLevel
	}
	ev := t.Logger.WithLevel(level)
	if !ev.Enabled() {
		return
	}
	ev.Str("command", t.record.Command).Str("principal", t.record.Principal).Str("surface", t.record.Surface).
		Str("outcome", t.record.Outcome).Dur("duration-ms", t.record.Duration)
	if trace, ok := TraceOf(ctx); ok {
		ev.Str("trace-id", trace.ID).Str("span-id", trace.Span)
		if trace.State != "" {
			ev.Str("trace-state", trace.State)
		}
	}
	switch {
	case e == nil:
	case t.command != nil && t.command.secretive() && e.Code != Internal:
		// What is wrong with the arguments may quote them; the outcome says enough.
	default:
		ev.AnErr("error", logError(e))
	}
	ev.Msg("call")
}

// secretive reports whether the command's arguments can hold a secret.
func (c *Command) secretive() bool {
	return c.Conceal != nil || slices.ContainsFunc(c.Input.Params, func(n *schema.Node) bool { return n.Sensitive })
}

// logError is what the log says of e: the cause where the caller is not told it.
func logError(e *Error) error {
	if e.Code == Internal && e.Err != nil {
		return e.Err
	}
	return e
}

func auditFailed(err error) *Error {
	var outage outage
	if errors.As(err, &outage) {
		// The store knows what is wrong with it.
		message, next := outage.Outage()
		return &Error{Code: Unavailable, Message: "refused: the audit log cannot be written: " + message, Actions: []string{next, auditStop}, Err: err}
	}
	return &Error{Code: Unavailable, Message: "refused: the audit log cannot be written",
		Actions: []string{"make room on the disk under the data directory, or check its health; the daemon's log has the cause",
			auditStop}, Err: err}
}

const auditStop = "if something must end at once: stopping the daemon ends everything it does outside"

// describe records command and arguments: a digest for every call, and for calls
// that change something the values too. Sensitive ones are masked in both: the
// digest of a short one could be guessed.
func (t *trail) describe(raw json.RawMessage, args map[string]any) {
	t.record.Command = t.command.path
	if len(args) > 0 {
		if masked, hit := t.command.mask(args); hit {
			var err error
			if raw, err = json.Marshal(masked); err != nil {
				return // it was decoded from JSON, so it cannot be
			}
		}
		sum := sha256.Sum256(raw)
		t.record.Digest = hex.EncodeToString(sum[:])
	}
	if t.command.Effect != EffectRead {
		t.record.Args = beginning(string(raw))
	}
}

// maxArgs bounds what an audit record repeats of the arguments, in octets; the
// digest stands for all of them. Begin and end both have them: who asks how a
// call ended wants to see what it was.
const maxArgs = 8 << 10

func beginning(s string) string {
	if len(s) <= maxArgs {
		return s
	}
	return strings.ToValidUTF8(s[:maxArgs], "") + "…"
}

// mask returns args with sensitive values replaced, and whether there were any.
func mask(params []*schema.Node, args map[string]any) (map[string]any, bool) {
	out, hit := make(map[string]any, len(args)), false
	for _, n := range params {
		v, ok := args[n.Name]
		if !ok {
			continue
		}
		masked, h := maskValue(n, v)
		out[n.Name], hit = masked, hit || h
	}
	return out, hit
}

func maskValue(n *schema.Node, v any) (any, bool) {
	if n.Sensitive {
		return "***", true
	}
	switch v := v.(type) {
	case map[string]any:
		return mask(n.Children, v)
	case []any:
		if n.Kind != schema.List {
			return v, false
		}
		out, hit := make([]any, len(v)), false
		for i, entry := range v {
			masked, h := maskValue(n, entry)
			out[i], hit = masked, hit || h
		}
		return out, hit
	}
	return v, false
}
