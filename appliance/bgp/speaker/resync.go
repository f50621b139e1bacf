package speaker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"ze.internal/ze/appliance/bgp"
)

const (
	resyncDelay   = time.Second     // after a session is up: by then its first dump has begun
	resyncWindow  = 5 * time.Second // a change this close to a new session may have missed it
	maxRemembered = 100_000         // withdrawn prefixes kept for that
)

// recent is what changed lately.
type recent struct {
	changed   time.Time                  // when a change last began or ended
	withdrawn map[netip.Prefix]time.Time // when
}

func (r *recent) withdrew(p netip.Prefix, now time.Time) {
	if r.withdrawn == nil {
		r.withdrawn = map[netip.Prefix]time.Time{}
	}
	if len(r.withdrawn) < maxRemembered {
		r.withdrawn[p] = now
	}
}

// mark notes that a change begins or ends, and forgets what is too old to matter.
func (r *recent) mark(now time.Time) {
	r.changed = now
	maps.DeleteFunc(r.withdrawn, func(_ netip.Prefix, at time.Time) bool { return now.Sub(at) > 2*resyncWindow })
}

// resync repeats to peers whose session has just come up what changed around
// that moment. The library's first dump to a peer and its updates of the same
// moment are not ordered: a route announced in between can be in neither, and
// one withdrawn can stay with the peer. Both are harmless to say twice.
func (e *engine) resync(ctx context.Context) {
	again := false
	for _, p := range e.cfg.Peers {
		up, fresh := e.sessions.takeFresh(p.Remote.IP)
		if !fresh || up.Sub(e.recent.changed) > resyncWindow {
			continue
		}
		again = true
		err := e.server.ResetPeer(ctx, &api.ResetPeerRequest{Address: p.Remote.IP.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT})
		if err != nil {
			e.log.Error().Err(err).Str("peer", p.Name).Msg("routes could not be sent again to a new session")
		}
	}
	if again {
		if err := e.withdrawAgain(ctx); err != nil {
			e.log.Error().Err(err).Msg("withdrawals could not be sent again to a new session")
		}
	}
}

// withdrawAgain has withdrawals sent once more. The library forgets a route
// with its withdrawal, so each is first announced to nobody; the withdrawal of
// such a route goes to every peer, as all do.
func (e *engine) withdrawAgain(ctx context.Context) error {
	var gone []netip.Prefix
	for p := range e.recent.withdrawn {
		if e.routes.byPrefix[p] == nil {
			gone = append(gone, p)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.SortFunc(gone, comparePrefixes)
	nobody := bgp.Path{Prefixes: gone, Attributes: bgp.Attributes{Origin: "igp", NextHopSelf: true}, Peers: []string{""}} // no peer has this name
	if err := e.announce(ctx, []bgp.Path{nobody}); err != nil {
		return fmt.Errorf("repeat withdrawals: %w", err)
	}
	return e.withdraw(ctx, gone)
}
