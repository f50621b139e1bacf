package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	gobgp "github.com/osrg/gobgp/v4/pkg/server"

	"ze.internal/ze/appliance/bgp"
)

const (
	// The library counts all received routes at each update to hold a limit, so
	// limits above this are held by enforceLimits instead.
	maxLibraryLimit = 10_000
	limitInterval   = 5 * time.Second
)

func global(cfg *bgp.Config) *api.Global {
	g := &api.Global{Asn: cfg.Local.AS, RouterId: cfg.RouterID.String(), ListenPort: -1}
	if cfg.Listen.IP.IsValid() {
		g.ListenAddresses = []string{cfg.Listen.IP.String()}
		g.ListenPort = int32(cfg.Listen.Port)
	}
	return g
}

// peer translates one neighbour. Name and description stay here: the library
// would reset the session when they change. The source port is never set: a
// fixed one would make each reconnect wait for TIME_WAIT.
func peer(cfg *bgp.Config, p *bgp.PeerConfig) *api.Peer {
	out := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: p.Remote.IP.String(), PeerAsn: p.Remote.AS,
			LocalAsn: cfg.Local.AS, AuthPassword: p.Password,
		},
		Transport: &api.Transport{
			RemotePort: uint32(p.Remote.Port), PassiveMode: p.Passive,
		},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: uint64(p.Timer.Hold), ConnectRetry: uint64(p.Timer.ConnectRetry),
		}},
	}
	if p.Local.IP.IsValid() {
		out.Transport.LocalAddress = p.Local.IP.String()
	}
	if p.Multihop > 0 {
		out.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(p.Multihop)}
	}
	for _, f := range p.Families {
		family := apiFamily(f.Name)
		a := &api.AfiSafi{Config: &api.AfiSafiConfig{Family: family, Enabled: true}}
		if f.PrefixLimit > 0 && f.PrefixLimit <= maxLibraryLimit {
			a.PrefixLimits = &api.PrefixLimit{Family: family, MaxPrefixes: f.PrefixLimit}
		}
		out.AfiSafis = append(out.AfiSafis, a)
	}
	return out
}

func apiFamily(f bgp.Family) *api.Family {
	afi := api.Family_AFI_IP
	if f == bgp.IPv6Unicast {
		afi = api.Family_AFI_IP6
	}
	return &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}
}

// peerList is the library's last list of peers. Making one counts all received
// routes under the library's lock, so it is kept for ten times as long as it
// took: callers in a loop cost a tenth of the engine's time at most.
type peerList struct {
	byAddress map[netip.Addr]listed
	until     time.Time
}

type listed struct {
	*api.Peer
	updatesIn, updatesOut uint64 // its own and those of the peers it replaced
}

// forgetPeers makes the next peerStatus ask the library.
func (e *engine) forgetPeers() {
	e.listMu.Lock()
	e.list.until = time.Time{}
	e.listMu.Unlock()
}

func (e *engine) listPeers(ctx context.Context, s *gobgp.BgpServer) (map[netip.Addr]listed, error) {
	e.listMu.Lock()
	defer e.listMu.Unlock()
	began := time.Now()
	if began.Before(e.list.until) {
		return e.list.byAddress, nil
	}
	list := map[netip.Addr]listed{}
	err := s.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		if address, err := netip.ParseAddr(p.GetConf().GetNeighborAddress()); err == nil {
			before, m := e.sessions.get(address), p.GetState().GetMessages()
			list[address] = listed{p, before.updatesIn + m.GetReceived().GetUpdate(), before.updatesOut + m.GetSent().GetUpdate()}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the peers: %w", err)
	}
	now := time.Now()
	e.list = peerList{list, now.Add(10 * now.Sub(began))}
	return list, nil
}

// view returns what a query needs; the peers must not be changed.
func (e *engine) view() (*gobgp.BgpServer, []bgp.PeerConfig, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if !e.ready {
		return nil, nil, errNotStarted
	}
	return e.server, e.cfg.Peers, nil
}

// peerStatus answers in configuration order.
func (e *engine) peerStatus(ctx context.Context) ([]bgp.PeerStatus, error) {
	server, peers, err := e.view()
	if err != nil {
		return nil, err
	}
	known, err := e.listPeers(ctx, server)
	if err != nil {
		return nil, err
	}
	out := make([]bgp.PeerStatus, len(peers))
	for i := range peers {
		c := &peers[i]
		p, s := known[c.Remote.IP], e.sessions.get(c.Remote.IP)
		out[i] = bgp.PeerStatus{
			Name: c.Name, Address: c.Remote.IP, AS: c.Remote.AS,
			State: s.state, Admin: adminState(p.Peer, s),
			Flaps: s.flaps, LastDown: s.lastDown, LastError: s.lastError,
			UpdatesIn: p.updatesIn, UpdatesOut: p.updatesOut,
		}
		if out[i].Admin == adminPrefixLimit && !s.overLimit {
			out[i].LastDown = "prefix limit: the peer sent more routes than it may" // the library says read-failed
		}
		up := s.state == established
		if up {
			out[i].Uptime = time.Since(s.since)
			out[i].RouterID = s.routerID
			out[i].HoldTime = time.Duration(p.GetTimers().GetState().GetNegotiatedHoldTime()) * time.Second
		}
		for _, f := range c.Families {
			fs := bgp.FamilyStatus{Family: f.Name, Received: received(p.Peer, f.Name)}
			if up {
				fs.Sent = e.deliverable(f.Name, c)
			}
			out[i].Families = append(out[i].Families, fs)
		}
	}
	return out, nil
}

// deliverable counts the announced routes of a family a peer should have.
func (e *engine) deliverable(f bgp.Family, p *bgp.PeerConfig) uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	n := 0
	for a := range e.routes.live {
		if delivers(a, f, p) {
			n += a.prefixes[slot(f)]
		}
	}
	return uint64(n)
}

func received(p *api.Peer, f bgp.Family) uint64 {
	want := apiFamily(f)
	for _, a := range p.GetAfiSafis() {
		if a.GetConfig().GetFamily().GetAfi() == want.Afi && a.GetConfig().GetFamily().GetSafi() == want.Safi {
			return a.GetState().GetReceived()
		}
	}
	return 0
}

const (
	adminEnabled = "enabled"
	// adminPrefixLimit is the state of a peer that has sent too many routes. It
	// stays down until it is started again by teardown or by a new configuration.
	adminPrefixLimit = "prefix-limit"
)

func adminState(p *api.Peer, s session) string {
	switch state := p.GetState().GetAdminState(); {
	case s.overLimit, state == api.PeerState_ADMIN_STATE_PFX_CT:
		return adminPrefixLimit
	case state == api.PeerState_ADMIN_STATE_DOWN:
		return "disabled"
	default:
		return adminEnabled
	}
}

// enforceLimits disables peers beyond a limit too high for the library to hold.
func (e *engine) enforceLimits(ctx context.Context, s *gobgp.BgpServer) {
	tick := time.NewTicker(limitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, peers, err := e.view()
		if err != nil {
			continue
		}
		for i := range peers {
			e.enforceLimit(ctx, s, &peers[i])
		}
	}
}

func (e *engine) enforceLimit(ctx context.Context, s *gobgp.BgpServer, p *bgp.PeerConfig) {
	for _, f := range p.Families {
		if f.PrefixLimit <= maxLibraryLimit || e.sessions.get(p.Remote.IP).state != established {
			continue
		}
		t, err := s.GetTable(ctx, &api.GetTableRequest{
			TableType: api.TableType_TABLE_TYPE_ADJ_IN, Family: apiFamily(f.Name), Name: p.Remote.IP.String(),
		})
		if err != nil || t.GetNumPath() <= uint64(f.PrefixLimit) {
			continue
		}
		reason := fmt.Sprintf("%d %s routes, limit %d", t.GetNumPath(), f.Name, f.PrefixLimit)
		if err := s.DisablePeer(ctx, &api.DisablePeerRequest{Address: p.Remote.IP.String(), Communication: reason}); err != nil {
			e.log.Error().Err(err).Str("peer", p.Name).Msg("peer exceeds its prefix limit and could not be disabled")
			continue
		}
		e.sessions.exceeded(p.Remote.IP, reason)
		e.log.Warn().Str("peer", p.Name).Str("reason", reason).Msg("peer exceeds its prefix limit; disabled")
	}
}
