package command

import (
	"errors"
	"testing"

	"ze.internal/ze/appliance/access"
)

// TestProbe: a probe runs what only reads, and leaves no trace of it.
func TestProbe(t *testing.T) {
	g := newRig(t)
	call := func(words ...string) Call {
		return Call{Principal: &access.Principal{Name: "ze", Scope: access.Admin}, Surface: "watchdog", Path: words}
	}
	if err := g.Probe(t.Context(), call("show", "version")); err != nil {
		t.Error(err)
	}
	if len(g.ran) != 1 {
		t.Errorf("ran %q", g.ran)
	}
	if err := g.Probe(t.Context(), call("wipe")); err == nil || len(g.ran) != 1 {
		t.Errorf("%v, ran %q", err, g.ran)
	}
	for _, words := range [][]string{{"show", "crash"}, {"show", "nothing"}, {"show", "net", "rib", "sent"}} {
		var e *Error
		if err := g.Probe(t.Context(), call(words...)); !errors.As(err, &e) {
			t.Errorf("%q: %v", words, err)
		}
	}
	if n := len(g.audit.records) + len(g.audit.pending) + len(g.audit.refused); n != 0 {
		t.Errorf("%d records", n)
	}
}
