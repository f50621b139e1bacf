package bgp

import (
	"fmt"
	"net/netip"
	"slices"
)

// refuses says why p must not be sent a route of family f with attributes a,
// or "". A peer that gets such a route logs it and treats it as withdrawn while
// our side shows it as sent, so it is never sent.
func (p *PeerConfig) refuses(f Family, a *Attributes) string {
	if a.NextHopSelf && FamilyOf(p.Remote.IP) != f {
		return fmt.Sprintf("self is no %s next hop on the session with peer %s, which runs over %s", f, p.Name, p.Remote.IP)
	}
	if a.NextHop == p.Remote.IP {
		return fmt.Sprintf("%q is the address of peer %s itself", a.NextHop, p.Name)
	}
	return ""
}

// skips says why p will not have a route of family f with attributes a although
// nothing is wrong with it, or "".
func (p *PeerConfig) skips(f Family, a *Attributes) string {
	if !p.carries(f) {
		return fmt.Sprintf("%s is not configured on its session", f)
	}
	if slices.Contains(a.ASPath, p.Remote.AS) {
		return fmt.Sprintf("as-path contains its AS %d, so it would discard the route as a loop", p.Remote.AS)
	}
	return ""
}

// selected returns the configured peers that names select; none selects all.
func (c *Config) selected(names []string) []*PeerConfig {
	var peers []*PeerConfig
	for i := range c.Peers {
		if len(names) == 0 || slices.Contains(names, c.Peers[i].Name) {
			peers = append(peers, &c.Peers[i])
		}
	}
	return peers
}

// reach is where the routes of one family of an announcement go. It is worked
// out anew for each configuration: a peer configured later may be one that
// cannot take the announcement's next hop.
type reach struct {
	peers []string // as in Path
	none  bool     // no peer may have it
}

func (c *Config) reach(f Family, a *Announcement) reach {
	var may []string
	all := true
	for _, p := range c.selected(a.Peers) {
		if p.carries(f) && p.refuses(f, &a.Attributes) != "" {
			all = false
		} else {
			may = append(may, p.Name)
		}
	}
	if all {
		return reach{peers: a.Peers}
	}
	return reach{peers: may, none: len(may) == 0}
}

func (r reach) equal(o reach) bool { return r.none == o.none && slices.Equal(r.peers, o.peers) }

// paths returns what the speaker is to have for prefixes of a, one path per
// family, and the prefixes that no peer may have.
func (c *Config) paths(a *Announcement, prefixes []netip.Prefix) (paths []Path, none []netip.Prefix) {
	byFamily := map[Family][]netip.Prefix{}
	for _, p := range prefixes {
		f := FamilyOf(p.Addr())
		byFamily[f] = append(byFamily[f], p)
	}
	for _, f := range [...]Family{IPv4Unicast, IPv6Unicast} {
		if len(byFamily[f]) == 0 {
			continue
		}
		if r := c.reach(f, a); r.none {
			none = append(none, byFamily[f]...)
		} else {
			paths = append(paths, Path{Prefixes: byFamily[f], Attributes: a.Attributes, Peers: r.peers})
		}
	}
	return paths, none
}
