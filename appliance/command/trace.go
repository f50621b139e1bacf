package command

import (
	"context"
	"regexp"
	"strings"
)

// Trace says which trace a call is a part of (W3C Trace Context).
type Trace struct {
	ID    string // 32 hexadecimal digits
	Span  string // 16 hexadecimal digits: the caller's
	State string // what the tracing systems in front carry along; "" for nothing
}

// traceparent is version, trace, parent and flags. Later versions may add to it
// (W3C Trace Context section 3.2).
var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// ParseTrace reads a traceparent and the tracestate with it. It is false for what
// is malformed, which is to be ignored.
func ParseTrace(parent, state string) (t Trace, ok bool) {
	const longest = 512 // octets of either
	m := traceparent.FindStringSubmatch(parent)
	switch {
	case m == nil || len(parent) > longest:
		return t, false
	case m[1] == "ff" || m[1] == "00" && m[4] != "":
		return t, false
	case strings.Trim(m[2], "0") == "" || strings.Trim(m[3], "0") == "":
		return t, false
	}
	t = Trace{ID: m[2], Span: m[3]}
	if len(state) <= longest && !strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.State = state
	}
	return t, true
}

type traceKey struct{}

// WithTrace returns a context in which calls are a part of t.
func WithTrace(ctx context.Context, t Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns what WithTrace has set.
func TraceOf(ctx context.Context) (t Trace, ok bool) {
	t, ok = ctx.Value(traceKey{}).(Trace)
	return t, ok
}
