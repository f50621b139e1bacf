package appliance_test

import (
	"strings"
	"testing"
)

// TestPulse: a daemon that lives says how it is doing, and the question is in no
// audit log; one whose store is closed does not live.
func TestPulse(t *testing.T) {
	l := newLab(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	eventually(t, "the speaker", func() string {
		line, err := d.Pulse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "ready; configuration: store, revision 1; ") && strings.HasSuffix(line, "0 of 1 BGP sessions established") {
			return ""
		}
		return line
	})
	n := l.neighbour(t)
	d.established(t, "north")
	if line, err := d.Pulse(t.Context()); err != nil || !strings.HasSuffix(line, "1 of 1 BGP sessions established") {
		t.Errorf("%q %v", line, err)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Records []struct{ Command string } `json:"record"`
	}
	d.execute(t, "show audit count 100", &log)
	for _, r := range log.Records {
		if r.Command == "show status" {
			t.Error("a pulse is in the audit log")
		}
	}
	if len(log.Records) == 0 {
		t.Error("the audit log is empty")
	}
	d.stop(t)
	if line, err := d.Pulse(t.Context()); err == nil {
		t.Errorf("after its end: %q", line)
	}
}
