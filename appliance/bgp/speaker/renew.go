package speaker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"ze.internal/ze/appliance/bgp"
)

// renewLost gives every peer that has lost its session a new one of the library,
// which begins at once where the old one would first wait.
//
// It must not keep the old one: at a loss the library puts an order to end into
// the peer's queue of updates, for the session's sender. If the sender ends by
// other means the order stays there whenever updates wait before it, and the
// next session's sender obeys it. That session is up and silent, without even
// keepalives. Only a new peer has a new queue. The library never frees an old
// queue that is not empty: a few kilobytes at a quiet loss, about 2 MB at one amid
// 50,000 announcements.
func (e *engine) renewLost(ctx context.Context) {
	for _, p := range slices.Clone(e.cfg.Peers) {
		if !e.sessions.takeLost(p.Remote.IP) {
			continue
		}
		if err := e.renew(ctx, &p, false); err != nil {
			e.log.Error().Err(err).Str("peer", p.Name).Msg("peer has lost its session and cannot be started again")
		}
	}
}

// renewIfLost does not let a long change delay renewLost.
func (e *engine) renewIfLost(ctx context.Context) {
	select {
	case <-e.sessions.lost:
		e.renewLost(ctx)
	default:
	}
}

// renew replaces the library's peer. One that its prefix limit holds down stays
// as it is unless forced.
func (e *engine) renew(ctx context.Context, p *bgp.PeerConfig, force bool) error {
	e.listMu.Lock() // a list made now would miss the peer or count its messages twice
	defer e.listMu.Unlock()
	var old *api.Peer
	address := p.Remote.IP.String()
	err := e.server.ListPeer(ctx, &api.ListPeerRequest{Address: address}, func(p *api.Peer) { old = p })
	if err != nil {
		return fmt.Errorf("read the state of peer %s: %w", p.Name, err)
	}
	if !force && adminState(old, e.sessions.get(p.Remote.IP)) != adminEnabled {
		return nil
	}
	e.list.until = time.Time{}
	if err := e.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: address}); err != nil {
		return fmt.Errorf("end peer %s: %w", p.Name, err)
	}
	e.sessions.renewed(p.Remote.IP, old.GetState().GetMessages())
	if err := e.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peer(&e.cfg, p)}); err != nil {
		e.mu.Lock() // applying the configuration again will find it missing
		e.cfg.Peers = slices.DeleteFunc(slices.Clone(e.cfg.Peers), func(c bgp.PeerConfig) bool { return c.Name == p.Name })
		e.mu.Unlock()
		return fmt.Errorf("start peer %s: %w", p.Name, err)
	}
	return nil
}
