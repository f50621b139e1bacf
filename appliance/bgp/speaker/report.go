package speaker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"ze.internal/ze/appliance/bgp"
)

const (
	reportInterval = time.Second // between reports about the routes of a peer
	maxReports     = 4096        // that wait to be sent; those above are lost
)

// reports gathers what the parent is told unasked. Its methods only note: they
// are called where the library must not wait.
type reports struct {
	wake chan struct{} // holds a value when a report waits

	mu      sync.Mutex
	waiting []bgp.Report
	routes  map[tableKey]tally
}

// tableKey names the routes of one family of one peer.
type tableKey struct {
	peer   string
	family bgp.Family
}

// tally counts changes.
type tally struct{ announced, withdrawn uint64 }

func newReports() *reports {
	return &reports{wake: make(chan struct{}, 1), routes: map[tableKey]tally{}}
}

func (r *reports) up(peer string) { r.add(bgp.Report{Kind: bgp.PeerUp, Peer: peer}) }

// down also ends the count of the peer's routes, which went with the session.
func (r *reports) down(peer, reason string) {
	r.mu.Lock()
	maps.DeleteFunc(r.routes, func(k tableKey, _ tally) bool { return k.peer == peer })
	r.mu.Unlock()
	r.add(bgp.Report{Kind: bgp.PeerDown, Peer: peer, Reason: reason})
}

func (r *reports) add(report bgp.Report) {
	r.mu.Lock()
	if len(r.waiting) < maxReports {
		r.waiting = append(r.waiting, report)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reports) count(k tableKey, t tally) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := r.routes[k]
	r.routes[k] = tally{sum.announced + t.announced, sum.withdrawn + t.withdrawn}
}

// take returns the reports to be sent, with the counts if they are due.
func (r *reports) take(counts bool) []bgp.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.waiting
	r.waiting = nil
	if !counts {
		return out
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.routes), func(a, b tableKey) int {
		return cmp.Or(cmp.Compare(a.peer, b.peer), cmp.Compare(a.family, b.family))
	}) {
		t := r.routes[k]
		out = append(out, bgp.Report{Kind: bgp.RoutesChanged, Peer: k.peer, Family: k.family, Announced: t.announced, Withdrawn: t.withdrawn})
	}
	clear(r.routes)
	return out
}

// report sends reports until ctx ends.
func (s *server) report(ctx context.Context) {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		counts := false
		select {
		case <-ctx.Done():
			return
		case <-s.engine.sessions.reports.wake:
		case <-tick.C:
			counts = true
		}
		for _, r := range s.engine.sessions.reports.take(counts) {
			s.send(response{Report: &r})
		}
	}
}

// received counts the routes of one update of a peer, which are of one family.
func (s *sessions) received(paths []*apiutil.Path, _ time.Time) {
	if len(paths) == 0 {
		return
	}
	family, ok := familyOf(paths[0].Family)
	peer := s.name(paths[0].PeerAddress.Unmap().WithZone(""))
	if !ok || peer == "" {
		return
	}
	var t tally
	for _, p := range paths {
		switch {
		case p.Nlri == nil: // the end of the initial routes
		case p.Withdrawal:
			t.withdrawn++
		default:
			t.announced++
		}
	}
	if t != (tally{}) {
		s.reports.count(tableKey{peer, family}, t)
	}
}

// familyOf returns a family in ze's own words, if it is one of ours.
func familyOf(f packet.Family) (bgp.Family, bool) {
	switch f {
	case packetFamily(bgp.IPv4Unicast):
		return bgp.IPv4Unicast, true
	case packetFamily(bgp.IPv6Unicast):
		return bgp.IPv6Unicast, true
	}
	return "", false
}
