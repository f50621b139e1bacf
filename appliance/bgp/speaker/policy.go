package speaker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"

	"ze.internal/ze/appliance/bgp"
)

const exportPolicy = "announced-here"

// never stands in every "restricted" set: a set takes its family from its
// prefixes, and one without a family matches nothing even when inverted.
var never = [2]netip.Prefix{
	netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 32),
	netip.MustParsePrefix("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"),
}

func restrictedSet(f bgp.Family) string { return fmt.Sprintf("restricted%d", 4+2*slot(f)) }

func allowSet(f bgp.Family, peer *bgp.PeerConfig) string {
	return fmt.Sprintf("allow%d-%s", 4+2*slot(f), peer.Remote.IP)
}

// membership returns the sets a prefix is in because of its announcement; none
// when every peer may have it.
func membership(a *announcement, f bgp.Family, peers []bgp.PeerConfig) []string {
	if a == nil || len(a.peers) == 0 && !a.attributes.NextHopSelf {
		return nil
	}
	forbids := func(p bgp.PeerConfig) bool { return !permits(a, f, &p) }
	if len(a.peers) == 0 && !slices.ContainsFunc(peers, forbids) { // names hold against later peers too
		return nil
	}
	sets := []string{restrictedSet(f)}
	for i := range peers {
		if permits(a, f, &peers[i]) {
			sets = append(sets, allowSet(f, &peers[i]))
		}
	}
	return sets
}

// exportPolicies compiles the whole policy for a configuration and the routes.
func exportPolicies(peers []bgp.PeerConfig, r *routes) *api.SetPoliciesRequest {
	members := map[string][]netip.Prefix{}
	for p, a := range r.byPrefix {
		for _, set := range membership(a, bgp.FamilyOf(p.Addr()), peers) {
			members[set] = append(members[set], p)
		}
	}
	req := &api.SetPoliciesRequest{}
	policy := &api.Policy{Name: exportPolicy}
	accept := func(name string, c *api.Conditions) {
		c.RouteType = api.Conditions_ROUTE_TYPE_LOCAL
		policy.Statements = append(policy.Statements, &api.Statement{
			Name: name, Conditions: c, Actions: &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
		})
	}
	for _, f := range []bgp.Family{bgp.IPv4Unicast, bgp.IPv6Unicast} {
		set := restrictedSet(f)
		req.DefinedSets = append(req.DefinedSets, prefixSet(set, append(members[set], never[slot(f)])))
		accept("not-"+set, &api.Conditions{PrefixSet: &api.MatchSet{Type: api.MatchSet_TYPE_INVERT, Name: set}})
	}
	for i := range peers {
		peer := &peers[i]
		neighbor := "peer-" + peer.Remote.IP.String()
		req.DefinedSets = append(req.DefinedSets, &api.DefinedSet{
			DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: neighbor,
			List: []string{netip.PrefixFrom(peer.Remote.IP, peer.Remote.IP.BitLen()).String()},
		})
		for _, f := range []bgp.Family{bgp.IPv4Unicast, bgp.IPv6Unicast} {
			set := allowSet(f, peer)
			req.DefinedSets = append(req.DefinedSets, prefixSet(set, members[set]))
			accept(set, &api.Conditions{
				PrefixSet:   &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: set},
				NeighborSet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: neighbor},
			})
		}
	}
	req.Policies = []*api.Policy{policy}
	return req
}

// assignment makes the policy the one global export policy, closed by default.
func assignment() *api.SetPolicyAssignmentRequest {
	return &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: "global", Direction: api.PolicyDirection_POLICY_DIRECTION_EXPORT,
		Policies:      []*api.Policy{{Name: exportPolicy}},
		DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
	}}
}

func prefixSet(name string, prefixes []netip.Prefix) *api.DefinedSet {
	s := &api.DefinedSet{DefinedType: api.DefinedType_DEFINED_TYPE_PREFIX, Name: name}
	for _, p := range prefixes {
		bits := uint32(p.Bits())
		s.Prefixes = append(s.Prefixes, &api.Prefix{IpPrefix: p.String(), MaskLengthMin: bits, MaskLengthMax: bits})
	}
	return s
}

// setChange collects prefixes that enter and leave sets.
type setChange struct{ enter, leave map[string][]netip.Prefix }

func (c *setChange) move(p netip.Prefix, from, to []string) {
	if c.enter == nil {
		c.enter, c.leave = map[string][]netip.Prefix{}, map[string][]netip.Prefix{}
	}
	for _, set := range to {
		if !slices.Contains(from, set) {
			c.enter[set] = append(c.enter[set], p)
		}
	}
	for _, set := range from {
		if !slices.Contains(to, set) {
			c.leave[set] = append(c.leave[set], p)
		}
	}
}

// changeSets applies c to the sets the running policy refers to. Names sort
// "allow" before "restricted": a prefix enters what permits it before what
// forbids it, and leaves in the opposite order, so no peer that may have it
// is refused in between.
func (e *engine) changeSets(ctx context.Context, c *setChange) error {
	for _, set := range slices.Sorted(maps.Keys(c.enter)) {
		if err := e.server.AddDefinedSet(ctx, &api.AddDefinedSetRequest{DefinedSet: prefixSet(set, c.enter[set])}); err != nil {
			return fmt.Errorf("restrict prefixes: %w", err)
		}
	}
	names := slices.Sorted(maps.Keys(c.leave))
	slices.Reverse(names)
	for _, set := range names {
		if err := e.server.DeleteDefinedSet(ctx, &api.DeleteDefinedSetRequest{DefinedSet: prefixSet(set, c.leave[set])}); err != nil {
			return fmt.Errorf("restrict prefixes: %w", err)
		}
	}
	return nil
}
