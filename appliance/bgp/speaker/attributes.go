package speaker

import (
	"fmt"
	"net/netip"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"ze.internal/ze/appliance/bgp"
)

// The origins in the order of their codes (RFC 4271 section 4.3).
var origins = [...]string{"igp", "egp", "incomplete"}

// encode builds the path attributes of an announcement, the next hop excepted:
// for IPv6 it is part of the route. The library keeps what it is given, so no
// slice of a is handed over.
func encode(a *bgp.Attributes) ([]packet.PathAttributeInterface, error) {
	origin := uint8(0)
	for code, name := range origins {
		if a.Origin == name {
			origin = uint8(code)
		}
	}
	out := []packet.PathAttributeInterface{packet.NewPathAttributeOrigin(origin)}
	if len(a.ASPath) > 0 {
		as := append([]uint32(nil), a.ASPath...)
		out = append(out, packet.NewPathAttributeAsPath([]packet.AsPathParamInterface{
			packet.NewAs4PathParam(packet.BGP_ASPATH_ATTR_TYPE_SEQ, as),
		}))
	}
	if a.MED != nil {
		out = append(out, packet.NewPathAttributeMultiExitDisc(*a.MED))
	}
	if a.LocalPreference != nil {
		out = append(out, packet.NewPathAttributeLocalPref(*a.LocalPreference))
	}
	if len(a.Communities) > 0 {
		values, err := parseAll("community", a.Communities, bgp.ParseCommunity)
		if err != nil {
			return nil, err
		}
		out = append(out, packet.NewPathAttributeCommunities(values))
	}
	if len(a.LargeCommunities) > 0 {
		values, err := parseAll("large-community", a.LargeCommunities, func(s string) (*packet.LargeCommunity, error) {
			c, err := bgp.ParseLargeCommunity(s)
			return packet.NewLargeCommunity(c[0], c[1], c[2]), err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, packet.NewPathAttributeLargeCommunities(values))
	}
	if len(a.ExtendedCommunities) > 0 {
		values, err := parseAll("extended-community", a.ExtendedCommunities, func(s string) (packet.ExtendedCommunityInterface, error) {
			c, err := bgp.ParseExtendedCommunity(s)
			if err != nil {
				return nil, err
			}
			return packet.ParseExtended(c[:])
		})
		if err != nil {
			return nil, err
		}
		out = append(out, packet.NewPathAttributeExtendedCommunities(values))
	}
	return out, nil
}

func parseAll[T any](field string, texts []string, parse func(string) (T, error)) ([]T, error) {
	out := make([]T, len(texts))
	for i, s := range texts {
		var err error
		if out[i], err = parse(s); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", bgp.ErrInvalid, field, err)
		}
	}
	return out, nil
}

// nextHop is the attribute that carries a's next hop for one prefix. "Self" is
// the unspecified address: the library fills in the session's own on export.
func nextHop(a *bgp.Attributes, p netip.Prefix, nlri packet.NLRI) (packet.PathAttributeInterface, error) {
	hop := a.NextHop
	if p.Addr().Is4() {
		if a.NextHopSelf {
			hop = netip.IPv4Unspecified()
		}
		if hop.Is4() {
			return packet.NewPathAttributeNextHop(hop)
		}
	}
	if a.NextHopSelf {
		hop = netip.IPv6Unspecified()
	}
	return packet.NewPathAttributeMpReachNLRI(packetFamily(bgp.FamilyOf(p.Addr())), []packet.PathNLRI{{NLRI: nlri}}, hop)
}

// decode is the inverse of encode and nextHop for any route. An AS_SET loses its
// braces: a path in ze's terms is one sequence.
func decode(attributes []packet.PathAttributeInterface) bgp.Attributes {
	var a bgp.Attributes
	for _, attribute := range attributes {
		switch v := attribute.(type) {
		case *packet.PathAttributeOrigin:
			if int(v.Value) < len(origins) {
				a.Origin = origins[v.Value]
			}
		case *packet.PathAttributeAsPath:
			for _, segment := range v.Value {
				a.ASPath = append(a.ASPath, segment.GetAS()...)
			}
		case *packet.PathAttributeNextHop:
			a.NextHop = v.Value
		case *packet.PathAttributeMpReachNLRI:
			a.NextHop = v.Nexthop
		case *packet.PathAttributeMultiExitDisc:
			a.MED = new(v.Value)
		case *packet.PathAttributeLocalPref:
			a.LocalPreference = new(v.Value)
		case *packet.PathAttributeCommunities:
			for _, c := range v.Value {
				a.Communities = append(a.Communities, bgp.FormatCommunity(c))
			}
		case *packet.PathAttributeLargeCommunities:
			for _, c := range v.Values {
				a.LargeCommunities = append(a.LargeCommunities, bgp.FormatLargeCommunity([3]uint32{c.ASN, c.LocalData1, c.LocalData2}))
			}
		case *packet.PathAttributeExtendedCommunities:
			for _, c := range v.Value {
				if b, err := c.Serialize(); err == nil && len(b) == 8 {
					a.ExtendedCommunities = append(a.ExtendedCommunities, bgp.FormatExtendedCommunity([8]byte(b)))
				}
			}
		}
	}
	if a.NextHop.IsUnspecified() {
		a.NextHop, a.NextHopSelf = netip.Addr{}, true
	}
	return a
}

func packetFamily(f bgp.Family) packet.Family {
	if f == bgp.IPv4Unicast {
		return packet.RF_IPv4_UC
	}
	return packet.RF_IPv6_UC
}
