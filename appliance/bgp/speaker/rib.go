package speaker

import (
	"container/heap"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	gobgp "github.com/osrg/gobgp/v4/pkg/server"

	"ze.internal/ze/appliance/bgp"
)

// defaultLocalPreference is what the library gives routes without one towards
// internal peers.
const defaultLocalPreference = 100

// rib answers one page of a table.
func (e *engine) rib(q bgp.RIBQuery) ([]bgp.Route, bool, error) {
	server, peers, err := e.view()
	if err != nil {
		return nil, false, err
	}
	names := make(map[netip.Addr]string, len(peers))
	var peer *bgp.PeerConfig
	for i := range peers {
		names[peers[i].Remote.IP] = peers[i].Name
		if peers[i].Name == q.Peer {
			peer = &peers[i]
		}
	}
	if q.Table != bgp.TableBest && peer == nil {
		return nil, false, unknownPeer(q.Peer)
	}
	switch q.Table {
	case bgp.TableBest:
		return page(server, q, apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL}, names)
	case bgp.TableReceived:
		// Never with EnableFiltered: that read rewrites the table.
		routes, more, err := page(server, q, apiutil.ListPathRequest{
			TableType: api.TableType_TABLE_TYPE_ADJ_IN, Name: peer.Remote.IP.String(),
		}, names)
		if err != nil && e.sessions.get(peer.Remote.IP).state != established {
			return nil, false, nil // renewLost has it just now
		}
		if err != nil {
			return nil, false, err
		}
		return routes, more, markBest(server, q.Family, peer.Remote.IP, routes)
	case bgp.TableSent:
		return e.sent(server, q, peer)
	default:
		return nil, false, fmt.Errorf("%w: no table is named %q", bgp.ErrInvalid, q.Table)
	}
}

// selects reports whether a query's page may hold a prefix.
func selects(q *bgp.RIBQuery, p netip.Prefix) bool {
	if q.After.IsValid() && comparePrefixes(p, q.After) <= 0 {
		return false
	}
	switch {
	case !q.Prefix.IsValid():
		return true
	case q.Longer:
		return p.Bits() >= q.Prefix.Bits() && q.Prefix.Contains(p.Addr())
	default:
		return p == q.Prefix
	}
}

// page reads a table the library keeps. The library hands over all of it in no
// order; only the page's routes are kept while it does.
func page(s *gobgp.BgpServer, q bgp.RIBQuery, list apiutil.ListPathRequest, names map[netip.Addr]string) ([]bgp.Route, bool, error) {
	list.Family = packetFamily(q.Family)
	if q.Prefix.IsValid() && !q.Longer {
		list.Prefixes = []*apiutil.LookupPrefix{{Prefix: q.Prefix.String()}}
	}
	var first smallest
	err := s.ListPath(list, func(nlri packet.NLRI, paths []*apiutil.Path) {
		if p := prefixOf(nlri); len(paths) > 0 && selects(&q, p) {
			first.offer(found{p, paths[0]}, q.Limit+1)
		}
	})
	if err != nil {
		return nil, false, fmt.Errorf("read the %s table: %w", q.Table, err)
	}
	slices.SortFunc(first, func(a, b found) int { return comparePrefixes(a.prefix, b.prefix) })
	more := len(first) > q.Limit
	now := time.Now()
	routes := make([]bgp.Route, 0, min(len(first), q.Limit))
	for _, f := range first[:cap(routes)] {
		routes = append(routes, bgp.Route{
			Prefix: f.prefix, Peer: names[f.path.PeerAddress], Best: f.path.Best, Stale: f.path.Stale,
			Age: age(now, f.path), Attributes: decode(f.path.Attrs),
		})
	}
	return routes, more, nil
}

// sent answers from what is announced. The library does not record what it
// sent: it would compute its whole answer anew, under its lock, for each page.
func (e *engine) sent(s *gobgp.BgpServer, q bgp.RIBQuery, peer *bgp.PeerConfig) ([]bgp.Route, bool, error) {
	session := e.sessions.get(peer.Remote.IP)
	if session.state != established {
		return nil, false, nil
	}
	e.mu.RLock()
	localAS := e.cfg.Local.AS
	e.mu.RUnlock()
	now := time.Now()
	var routes []bgp.Route
	for after := q; len(routes) <= q.Limit; {
		want := q.Limit + 1 - len(routes)
		prefixes, owners := e.deliveries(&after, peer, want)
		best, err := bestPaths(s, q.Family, prefixes)
		if err != nil {
			return nil, false, err
		}
		for i, p := range prefixes {
			// A learned path that is preferred to ours hides it from every peer.
			path := best[p]
			if path == nil || path.PeerAddress.IsValid() {
				continue
			}
			routes = append(routes, bgp.Route{
				Prefix: p, Best: true, Age: age(now, path),
				Attributes: exported(owners[i].attributes, localAS, peer, session.local),
			})
		}
		if len(prefixes) < want {
			return routes, false, nil
		}
		after.After = prefixes[len(prefixes)-1]
	}
	return routes[:q.Limit], true, nil
}

// deliveries returns the first prefixes a query selects of those a peer should
// have, at most limit, and their announcements.
func (e *engine) deliveries(q *bgp.RIBQuery, peer *bgp.PeerConfig, limit int) (prefixes []netip.Prefix, owners []*announcement) {
	e.mu.Lock() // not for reading: the order may have to be made
	defer e.mu.Unlock()
	for _, p := range e.routes.candidates(q) {
		if q.Longer && !q.Prefix.Contains(p.Addr()) {
			break // they are in order
		}
		a := e.routes.byPrefix[p]
		if a == nil || !selects(q, p) || !delivers(a, q.Family, peer) {
			continue
		}
		if prefixes, owners = append(prefixes, p), append(owners, a); len(prefixes) == limit {
			break
		}
	}
	return prefixes, owners
}

// candidates are the announced prefixes a query may select, in order, and what
// follows them.
func (r *routes) candidates(q *bgp.RIBQuery) []netip.Prefix {
	if q.Prefix.IsValid() && !q.Longer {
		return []netip.Prefix{q.Prefix}
	}
	all := r.inOrder(q.Family)
	from := q.After
	if q.Longer && (!from.IsValid() || comparePrefixes(from, q.Prefix) < 0) {
		from = q.Prefix
	}
	if !from.IsValid() {
		return all
	}
	i, _ := slices.BinarySearchFunc(all, from, comparePrefixes)
	return all[i:]
}

// exported is what the library does to a local route on its way to a peer
// (RFC 4271 section 5.1).
func exported(a bgp.Attributes, localAS uint32, peer *bgp.PeerConfig, local netip.Addr) bgp.Attributes {
	if a.Origin == "" {
		a.Origin = origins[0]
	}
	if a.NextHopSelf {
		a.NextHop, a.NextHopSelf = local, false
	}
	if peer.Remote.AS != localAS {
		a.ASPath = append([]uint32{localAS}, a.ASPath...)
		a.LocalPreference = nil
	} else if a.LocalPreference == nil {
		a.LocalPreference = new(uint32(defaultLocalPreference))
	}
	return a
}

// markBest sets Best on those routes of a peer that are the selected path.
func markBest(s *gobgp.BgpServer, f bgp.Family, peer netip.Addr, routes []bgp.Route) error {
	prefixes := make([]netip.Prefix, len(routes))
	for i := range routes {
		prefixes[i] = routes[i].Prefix
	}
	best, err := bestPaths(s, f, prefixes)
	if err != nil {
		return err
	}
	for i := range routes {
		path := best[routes[i].Prefix]
		routes[i].Best = path != nil && path.PeerAddress == peer
	}
	return nil
}

// bestPaths returns the selected path to each prefix that has one.
func bestPaths(s *gobgp.BgpServer, f bgp.Family, prefixes []netip.Prefix) (map[netip.Prefix]*apiutil.Path, error) {
	best := make(map[netip.Prefix]*apiutil.Path, len(prefixes))
	for some := range slices.Chunk(prefixes, sliceSize) {
		list := apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: packetFamily(f)}
		for _, p := range some {
			list.Prefixes = append(list.Prefixes, &apiutil.LookupPrefix{Prefix: p.String()})
		}
		err := s.ListPath(list, func(nlri packet.NLRI, paths []*apiutil.Path) {
			if len(paths) > 0 {
				best[prefixOf(nlri)] = paths[0]
			}
		})
		if err != nil {
			return nil, fmt.Errorf("read the best paths: %w", err)
		}
	}
	return best, nil
}

func prefixOf(nlri packet.NLRI) netip.Prefix {
	if p, ok := nlri.(*packet.IPAddrPrefix); ok {
		return p.Prefix
	}
	return netip.Prefix{}
}

func age(now time.Time, p *apiutil.Path) time.Duration { return now.Sub(time.Unix(p.Age, 0)) }

// found is a prefix and its first path.
type found struct {
	prefix netip.Prefix
	path   *apiutil.Path
}

// smallest keeps the first prefixes in order of all it is offered: a heap with
// the largest on top.
type smallest []found

func (s *smallest) offer(f found, limit int) {
	if len(*s) < limit {
		heap.Push(s, f)
	} else if comparePrefixes(f.prefix, (*s)[0].prefix) < 0 {
		(*s)[0] = f
		heap.Fix(s, 0)
	}
}

func (s smallest) Len() int           { return len(s) }
func (s smallest) Less(i, j int) bool { return comparePrefixes(s[i].prefix, s[j].prefix) > 0 }
func (s smallest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *smallest) Push(v any)        { *s = append(*s, v.(found)) }
func (s *smallest) Pop() any {
	last := len(*s) - 1
	v := (*s)[last]
	*s = (*s)[:last]
	return v
}
