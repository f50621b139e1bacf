package command

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
)

// commit does what the store does with the records of a call that changes it.
func commit(ctx context.Context, seq uint64) bool {
	p := audit.PendingFrom(ctx)
	if p == nil {
		return false
	}
	if _, ok := p.Take(); !ok {
		return false
	}
	p.Committed(seq)
	return true
}

// What is committed with the change, what is written before and what after it,
// for each kind of command and each way it can go.
func TestRecordsOfChanges(t *testing.T) {
	broken := errors.New("broken")
	done := map[string]bool{"ok": true}
	ways := map[string]func(ctx context.Context) (any, error){
		"changes":             func(ctx context.Context) (any, error) { commit(ctx, 41); return done, nil },
		"changes twice":       func(ctx context.Context) (any, error) { commit(ctx, 41); commit(ctx, 43); return done, nil },
		"changes nothing":     func(context.Context) (any, error) { return done, nil },
		"fails":               func(context.Context) (any, error) { return nil, broken },
		"changes, fails":      func(ctx context.Context) (any, error) { commit(ctx, 41); return nil, broken },
		"cannot be encoded":   func(ctx context.Context) (any, error) { commit(ctx, 41); return func() {}, nil },
		"panics":              func(ctx context.Context) (any, error) { commit(ctx, 41); panic("boom") },
		"transaction fails":   func(ctx context.Context) (any, error) { rollback(ctx); return nil, broken },
		"fails, then is kept": func(ctx context.Context) (any, error) { rollback(ctx); commit(ctx, 41); return done, nil },
	}
	type want struct{ pending, after string }
	for line, rows := range map[string]map[string]want{
		"keep": {
			"changes": {"begin end:ok", ""}, "changes twice": {"begin end:ok", ""}, "changes nothing": {"begin end:ok", "call:ok"},
			"fails": {"begin end:ok", "call:internal"}, "changes, fails": {"begin end:ok", "end:internal of 41"},
			"cannot be encoded": {"begin end:ok", "end:internal of 41"}, "panics": {"begin end:ok", "end:internal of 41"},
			"transaction fails": {"begin end:ok", "call:internal"}, "fails, then is kept": {"begin end:ok", ""},
		},
		"spread": {
			"changes": {"begin", "end:ok of 41"}, "changes twice": {"begin", "end:ok of 41"}, "changes nothing": {"begin", "call:ok"},
			"fails": {"begin", "call:internal"}, "changes, fails": {"begin", "end:internal of 41"},
			"cannot be encoded": {"begin", "end:internal of 41"}, "panics": {"begin", "end:internal of 41"},
			"transaction fails": {"begin", "call:internal"}, "fails, then is kept": {"begin", "end:ok of 41"},
		},
		"wipe": {
			"changes": {"", "begin end:ok of 1"}, "changes nothing": {"", "begin end:ok of 1"}, "fails": {"", "begin end:internal of 1"},
			"panics": {"", "begin end:internal of 1"},
		},
		"show version": {"changes nothing": {"", "call:ok"}, "fails": {"", "call:internal"}},
	} {
		for way, want := range rows {
			g := newRig(t)
			g.act = ways[way]
			_, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: line})
			if failed := strings.Contains(want.after, "internal"); (err != nil) != failed {
				t.Errorf("%s, %s: %v", line, way, err)
			}
			var pending string
			for _, p := range g.audit.pending {
				pending += describeRecords(p)
			}
			if got := describeRecords(g.audit.records); pending != want.pending || got != want.after {
				t.Errorf("%s, %s: with the change %q, besides %q\nwant %q and %q", line, way, pending, got, want.pending, want.after)
			}
			for _, r := range g.audit.records {
				if r.Command != line || r.Principal != "admin" {
					t.Errorf("%s, %s: %+v", line, way, r)
				}
			}
		}
	}
}

func rollback(ctx context.Context) {
	p := audit.PendingFrom(ctx)
	p.Take()
	p.Release()
}

func describeRecords(records []audit.Record) string {
	var out []string
	for _, r := range records {
		s := string(r.Phase)
		if r.Outcome != "" {
			s += ":" + r.Outcome
		}
		if r.Begin != 0 {
			s += " of " + json.Number(fmtUint(r.Begin)).String()
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func fmtUint(n uint64) string { b, _ := json.Marshal(n); return string(b) }

// Sensitive values are in no record, however deep they are, and not in the
// digest, from which a short one could be guessed.
func TestSensitiveArguments(t *testing.T) {
	g := newRig(t)
	digest := map[string]bool{}
	for _, key := range []string{"hunter2", "hunter3"} {
		args := json.RawMessage(`{"how":"well","who":[{"name":"a","key":"` + key + `"},{"name":"b"}]}`)
		if _, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Path: []string{"keep"}, Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	for _, records := range append(g.audit.pending, g.audit.records) {
		for _, r := range records {
			if strings.Contains(r.Args, "hunter") || !strings.Contains(r.Args, `"key":"***","name":"a"`) || !strings.Contains(r.Args, `"how":"well"`) {
				t.Errorf("%s", r.Args)
			}
			digest[r.Digest] = true
		}
	}
	if len(digest) != 1 || digest[""] {
		t.Errorf("digests tell two secrets apart: %v", digest)
	}
	if !strings.Contains(g.ran[0], "hunter2") {
		t.Errorf("the command was given %s", g.ran[0])
	}
}

// The scope a command asks for is the one declared, where it is declared.
func TestDeclaredScope(t *testing.T) {
	g := newRig(t)
	writer := &access.Principal{Name: "writer", Scope: access.Write}
	for line, may := range map[string]bool{"say hi": true, "spread": true, "keep": false} {
		if _, err := g.Do(t.Context(), Call{Principal: writer, Surface: "test", Line: line}); (err == nil) != may {
			t.Errorf("%s: %v", line, err)
		}
	}
	if g.Registry().Tool(writer, "ze_keep") != nil || g.Registry().Tool(writer, "ze_spread") == nil {
		t.Error("the tools of a writer do not follow the scopes")
	}
}

func TestRefused(t *testing.T) {
	g := newRig(t)
	g.Refused(Call{Surface: "mcp", Remote: "192.0.2.1:5"}, "unauthenticated")
	g.Refused(Call{Surface: "mcp", Remote: "192.0.2.1:5", Principal: reader}, "limit")
	if r := g.audit.refused; len(r) != 2 || r[0].Principal != "" || r[0].Remote != "192.0.2.1:5" || r[0].Outcome != "unauthenticated" ||
		r[1].Principal != "reader" || r[1].Surface != "mcp" || r[1].Time.IsZero() {
		t.Errorf("%+v", r)
	}
	if n := testutil.ToFloat64(g.metrics.calls.WithLabelValues("", "mcp", "limit")); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// The first failure that no caller can mend is seen as an increase.
func TestInternalErrorsAreCounted(t *testing.T) {
	g := newRig(t)
	for i, line := range []string{"show nothing", "show crash", "show crash"} {
		if n := testutil.ToFloat64(g.metrics.internal); n != float64(max(0, i-1)) {
			t.Errorf("before %q: %v", line, n)
		}
		if _, err := g.Do(t.Context(), Call{Principal: admin, Surface: "test", Line: line}); err == nil {
			t.Errorf("%s succeeds", line)
		}
	}
	if n := testutil.ToFloat64(g.metrics.internal); n != 2 {
		t.Errorf("%v after two", n)
	}
}

type noSpace struct{}

func (noSpace) Error() string               { return "open /secret/path: no space" }
func (noSpace) Outage() (message, n string) { return "the store: no space", "free some" }

func TestErrorsOfOthers(t *testing.T) {
	e := AsError(errors.Join(errors.New("keep it"), noSpace{}))
	if e.Code != Unavailable || e.Message != "the store: no space" || len(e.Actions) != 1 || !errors.Is(e, noSpace{}) {
		t.Errorf("%+v", e)
	}
	e = AsError(&access.LimitError{Message: "slower", RetryAfter: 5})
	if e.Code != Limit || e.RetryAfter != 5 || e.Message != "slower" {
		t.Errorf("%+v", e)
	}
}
