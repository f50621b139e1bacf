package speaker

import (
	"cmp"
	"net/netip"
	"slices"

	"ze.internal/ze/appliance/bgp"
)

// announcement is what the prefixes of one bgp.Path share.
type announcement struct {
	attributes bgp.Attributes
	peers      []string // empty: every peer
	prefixes   [2]int   // how many it still has: IPv4, IPv6
}

func slot(f bgp.Family) int {
	if f == bgp.IPv4Unicast {
		return 0
	}
	return 1
}

// routes is everything announced here: one announcement a prefix.
type routes struct {
	byPrefix map[netip.Prefix]*announcement
	live     map[*announcement]struct{} // those that have a prefix
	sorted   [2][]netip.Prefix          // nil: must be rebuilt
}

func newRoutes() *routes {
	return &routes{byPrefix: map[netip.Prefix]*announcement{}, live: map[*announcement]struct{}{}}
}

func (r *routes) set(p netip.Prefix, a *announcement) {
	r.drop(p)
	r.byPrefix[p] = a
	a.prefixes[slot(bgp.FamilyOf(p.Addr()))]++
	r.live[a] = struct{}{}
}

func (r *routes) drop(p netip.Prefix) {
	f := slot(bgp.FamilyOf(p.Addr()))
	r.sorted[f] = nil
	if old := r.byPrefix[p]; old != nil {
		delete(r.byPrefix, p)
		old.prefixes[f]--
		if old.prefixes == [2]int{} {
			delete(r.live, old)
		}
	}
}

// inOrder returns the prefixes of a family by address, then length.
func (r *routes) inOrder(f bgp.Family) []netip.Prefix {
	i := slot(f)
	if r.sorted[i] == nil {
		list := []netip.Prefix{}
		for p := range r.byPrefix {
			if bgp.FamilyOf(p.Addr()) == f {
				list = append(list, p)
			}
		}
		slices.SortFunc(list, comparePrefixes)
		r.sorted[i] = list
	}
	return r.sorted[i]
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// permits reports whether an announcement's routes of a family may go to a peer.
// "Self" exists only where the session runs over the family of the route.
func permits(a *announcement, f bgp.Family, peer *bgp.PeerConfig) bool {
	if len(a.peers) > 0 && !slices.Contains(a.peers, peer.Name) {
		return false
	}
	return !a.attributes.NextHopSelf || (f == bgp.IPv4Unicast) == peer.Remote.IP.Is4()
}

// delivers reports whether a peer should have an announcement's routes of a
// family, given the families of its session.
func delivers(a *announcement, f bgp.Family, peer *bgp.PeerConfig) bool {
	return permits(a, f, peer) &&
		!slices.Contains(a.attributes.ASPath, peer.Remote.AS) && // the peer would see a loop
		slices.ContainsFunc(peer.Families, func(c bgp.FamilyConfig) bool { return c.Name == f })
}
