package speaker

import (
	"strings"
	"testing"
	"time"

	"ze.internal/ze/appliance/bgp"
)

// awaitReport returns the next report that is not about routes, or, of kind
// RoutesChanged, the sum of those that come until both counts are reached.
func (r *router) awaitReport(want bgp.Report) bgp.Report {
	r.t.Helper()
	sum := bgp.Report{Kind: want.Kind, Peer: want.Peer, Family: want.Family}
	for end := time.After(20 * time.Second); ; {
		select {
		case got := <-r.reports:
			switch {
			case want.Kind == bgp.RoutesChanged && got.Kind == want.Kind && got.Peer == want.Peer && got.Family == want.Family:
				sum.Announced, sum.Withdrawn = sum.Announced+got.Announced, sum.Withdrawn+got.Withdrawn
				if sum.Announced >= want.Announced && sum.Withdrawn >= want.Withdrawn {
					return sum
				}
			case want.Kind != bgp.RoutesChanged && got.Kind != bgp.RoutesChanged:
				return got
			}
		case <-end:
			r.t.Fatalf("%s reports no %+v; so far %+v", r.name, want, sum)
		}
	}
}

// Sessions that come up and end are told unasked, each once and with the reason,
// and how many routes came and went is.
func TestReports(t *testing.T) {
	a, b := pair(t)
	up := bgp.Report{Kind: bgp.PeerUp, Peer: "b"}
	if got := a.awaitReport(up); got != up {
		t.Fatalf("first %+v", got)
	}
	b.announce(self("10.1.0.0/24", "10.2.0.0/24"))
	came := bgp.Report{Kind: bgp.RoutesChanged, Peer: "b", Family: bgp.IPv4Unicast, Announced: 2}
	if got := a.awaitReport(came); got.Withdrawn != 0 { // a fresh session may send routes twice
		t.Errorf("%+v, want %+v", got, came)
	}
	b.withdraw("10.1.0.0/24")
	a.awaitReport(bgp.Report{Kind: bgp.RoutesChanged, Peer: "b", Family: bgp.IPv4Unicast, Withdrawn: 1}) // a fresh session says so twice, too

	b.do(methodTeardown, teardownParams{"a", "rack 7"}, nil)
	if got := a.awaitReport(bgp.Report{Kind: bgp.PeerDown}); got.Kind != bgp.PeerDown || got.Peer != "b" || !strings.Contains(got.Reason, "notification-received") {
		t.Errorf("after the teardown: %+v", got)
	}
	if got := a.awaitReport(up); got != up {
		t.Errorf("after it came back: %+v", got)
	}
	cfg := a.config(b)
	cfg.Peers = nil
	a.do(methodApply, cfg, nil)
	if got := a.awaitReport(bgp.Report{Kind: bgp.PeerDown}); got.Kind != bgp.PeerDown || got.Peer != "b" || got.Reason == "" {
		t.Errorf("after its removal: %+v", got)
	}
	a.do(methodApply, a.config(b), nil)
	if got := a.awaitReport(up); got != up {
		t.Errorf("after it was configured again: %+v", got)
	}
}

// Reports that nobody fetches are bounded.
func TestReportsAreBounded(t *testing.T) {
	r := newReports()
	for range maxReports + 10 {
		r.up("b")
	}
	if got := r.take(true); len(got) != maxReports {
		t.Errorf("%d reports wait", len(got))
	}
	if got := r.take(true); len(got) != 0 {
		t.Errorf("%d reports are told twice", len(got))
	}
}
