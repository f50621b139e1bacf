package command

import "testing"

func TestParseTrace(t *testing.T) {
	const id, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, parent := range []string{
		"00-" + id + "-" + span + "-01",
		"cc-" + id + "-" + span + "-01-what-the-future-will-be-like",
	} {
		if got, ok := ParseTrace(parent, "a=1"); !ok || got != (Trace{ID: id, Span: span, State: "a=1"}) {
			t.Errorf("%s: %+v, %t", parent, got, ok)
		}
	}
	for _, parent := range []string{
		"", "00", "00-" + id + "-" + span, "ff-" + id + "-" + span + "-01", "00-" + id + "-" + span + "-01-more",
		"00-00000000000000000000000000000000-" + span + "-01", "00-" + id + "-0000000000000000-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" + span + "-01", "00-" + id + "-" + span + "-01\n",
	} {
		if got, ok := ParseTrace(parent, ""); ok {
			t.Errorf("%q passes as %+v", parent, got)
		}
	}
	if got, ok := ParseTrace("00-"+id+"-"+span+"-01", "a=\n"); !ok || got.State != "" {
		t.Errorf("a malformed state is kept, or costs the trace: %+v, %t", got, ok)
	}
}
