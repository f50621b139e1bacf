package builtin

import (
	"context"
	"net/netip"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/command"
)

// BGP is what the commands need of the BGP room.
type BGP interface {
	Config() *bgp.Config // nil: no bgp block
	Peers(ctx context.Context) ([]bgp.PeerStatus, error)
	Peer(ctx context.Context, name string) (bgp.PeerStatus, error)
	RIB(ctx context.Context, q bgp.RIBQuery) (routes []bgp.Route, more bool, err error)
	Teardown(ctx context.Context, peer, reason string) error
	Announce(ctx context.Context, r bgp.AnnounceRequest) (bgp.AnnounceResult, error)
	Withdraw(ctx context.Context, r bgp.WithdrawRequest) (bgp.WithdrawResult, error)
	Announcements(ctx context.Context, f bgp.AnnouncementFilter) ([]bgp.Announcement, error)
}

type peerSummary struct {
	Name          string     `json:"name"`
	Address       netip.Addr `json:"address"`
	RemoteAS      uint32     `json:"remote-as"`
	Description   string     `json:"description,omitempty"`
	State         string     `json:"state"`
	Admin         string     `json:"admin"`
	UptimeSeconds int64      `json:"uptime-seconds"`
	Received      uint64     `json:"received"`
	Sent          uint64     `json:"sent"`
	LastError     string     `json:"last-error,omitempty"`
}

type peerDetail struct {
	peerSummary     `json:",inline"`
	RouterID        netip.Addr         `json:"router-id,omitzero"`
	HoldTimeSeconds int64              `json:"hold-time-seconds"`
	Flaps           uint32             `json:"flaps"`
	LastDown        string             `json:"last-down,omitempty"`
	UpdatesIn       uint64             `json:"updates-in"`
	UpdatesOut      uint64             `json:"updates-out"`
	Families        []bgp.FamilyStatus `json:"family"`
}

type routeEntry struct {
	Prefix              netip.Prefix `json:"prefix"`
	Peer                string       `json:"peer,omitempty"`
	Best                bool         `json:"best"`
	AgeSeconds          int64        `json:"age-seconds"`
	NextHop             string       `json:"next-hop,omitempty"`
	Origin              string       `json:"origin,omitempty"`
	ASPath              []uint32     `json:"as-path,omitempty"`
	MED                 *uint32      `json:"med,omitempty"`
	LocalPreference     *uint32      `json:"local-preference,omitempty"`
	Communities         []string     `json:"community,omitempty"`
	LargeCommunities    []string     `json:"large-community,omitempty"`
	ExtendedCommunities []string     `json:"extended-community,omitempty"`
}

type tablePage struct {
	Table  bgp.RIBTable `json:"table"`
	Peer   string       `json:"peer,omitempty"`
	Family bgp.Family   `json:"family"`
	Count  int          `json:"count"`
	More   bool         `json:"more"`
	Next   string       `json:"next,omitempty"`
	Routes []routeEntry `json:"route"`
}

func (d Deps) bgp(r runs) {
	r["show-bgp"] = d.showBGP
	r["show-bgp-peer"] = d.showPeer
	r["show-bgp-rib-best"] = d.showRIB(bgp.TableBest)
	r["show-bgp-rib-received"] = d.showRIB(bgp.TableReceived)
	r["show-bgp-rib-sent"] = d.showRIB(bgp.TableSent)
	r["request-bgp-wait-established"] = d.waitEstablished
	r["request-peer-teardown"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Peer   string `json:"peer"`
			Reason string `json:"reason"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := d.BGP.Teardown(ctx, in.Peer, in.Reason); err != nil {
			return nil, bgpError(err)
		}
		return struct {
			Peer string `json:"peer"`
			Note string `json:"note"`
		}{in.Peer, "session reset; it comes back by itself after some seconds"}, nil
	}
}

func (d Deps) showBGP(ctx context.Context, _ *command.Request) (any, error) {
	var out struct {
		Enabled           bool          `json:"enabled"`
		LocalAS           uint32        `json:"local-as,omitzero"`
		RouterID          netip.Addr    `json:"router-id,omitzero"`
		PeersConfigured   int           `json:"peers-configured"`
		PeersEstablished  int           `json:"peers-established"`
		AnnouncedPrefixes int           `json:"announced-prefixes"`
		Peers             []peerSummary `json:"peer"`
	}
	cfg := d.BGP.Config()
	if cfg == nil {
		return out, nil
	}
	peers, err := d.BGP.Peers(ctx)
	if err != nil {
		return nil, bgpError(err)
	}
	announced, err := d.BGP.Announcements(ctx, bgp.AnnouncementFilter{})
	if err != nil {
		return nil, err
	}
	out.Enabled, out.LocalAS, out.RouterID, out.PeersConfigured = true, cfg.Local.AS, cfg.RouterID, len(peers)
	for _, a := range announced {
		out.AnnouncedPrefixes += len(a.Prefixes)
	}
	for _, p := range peers {
		if p.State == bgp.StateEstablished {
			out.PeersEstablished++
		}
		out.Peers = append(out.Peers, d.summarize(p))
	}
	return out, nil
}

func (d Deps) showPeer(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Peer string `json:"peer"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	var out struct {
		Peers []peerDetail `json:"peer"`
	}
	if in.Peer != "" {
		p, err := d.BGP.Peer(ctx, in.Peer)
		if err != nil {
			return nil, bgpError(err)
		}
		out.Peers = append(out.Peers, d.detail(p))
		return out, nil
	}
	peers, err := d.BGP.Peers(ctx)
	if err != nil {
		return nil, bgpError(err)
	}
	for _, p := range peers {
		out.Peers = append(out.Peers, d.detail(p))
	}
	return out, nil
}

func (d Deps) summarize(p bgp.PeerStatus) peerSummary {
	s := peerSummary{Name: p.Name, Address: p.Address, RemoteAS: p.AS, State: p.State,
		Admin: p.Admin, UptimeSeconds: seconds(p.Uptime), LastError: p.LastError}
	for _, f := range p.Families {
		s.Received += f.Received
		s.Sent += f.Sent
	}
	if cfg := d.BGP.Config(); cfg != nil {
		for _, c := range cfg.Peers {
			if c.Name == p.Name {
				s.Description = c.Description
			}
		}
	}
	return s
}

func (d Deps) detail(p bgp.PeerStatus) peerDetail {
	return peerDetail{peerSummary: d.summarize(p), RouterID: p.RouterID, HoldTimeSeconds: seconds(p.HoldTime), Flaps: p.Flaps,
		LastDown: p.LastDown, UpdatesIn: p.UpdatesIn, UpdatesOut: p.UpdatesOut, Families: p.Families}
}

// showRIB returns the command that pages through one table.
func (d Deps) showRIB(table bgp.RIBTable) command.Run {
	return func(ctx context.Context, r *command.Request) (any, error) {
		q := bgp.RIBQuery{Table: table}
		if err := r.Bind(&q); err != nil {
			return nil, err
		}
		q.Table = table
		if q.Family == "" {
			q.Family = bgp.IPv4Unicast
			if q.Prefix.Addr().Is6() || q.After.Addr().Is6() {
				q.Family = bgp.IPv6Unicast
			}
		}
		routes, more, err := d.BGP.RIB(ctx, q)
		if err != nil {
			return nil, bgpError(err)
		}
		page := tablePage{Table: table, Peer: q.Peer, Family: q.Family, Count: len(routes), More: more, Routes: make([]routeEntry, len(routes))}
		for i, rt := range routes {
			page.Routes[i] = routeView(rt)
		}
		if more && len(routes) > 0 {
			page.Next = routes[len(routes)-1].Prefix.String()
		}
		return page, nil
	}
}

func routeView(r bgp.Route) routeEntry {
	a := r.Attributes
	e := routeEntry{Prefix: r.Prefix, Peer: r.Peer, Best: r.Best, AgeSeconds: seconds(r.Age), Origin: a.Origin, ASPath: a.ASPath, MED: a.MED,
		LocalPreference: a.LocalPreference, Communities: a.Communities, LargeCommunities: a.LargeCommunities, ExtendedCommunities: a.ExtendedCommunities}
	switch {
	case a.NextHopSelf:
		e.NextHop = "self"
	case a.NextHop.IsValid():
		e.NextHop = a.NextHop.String()
	}
	return e
}
