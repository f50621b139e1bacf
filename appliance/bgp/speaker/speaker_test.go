package speaker

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ze.internal/ze/appliance/bgp"
)

// pair starts two routers that peer with each other.
func pair(t *testing.T) (a, b *router) {
	t.Helper()
	a, b = newRouter(t, "a", "127.0.0.1", 64512), newRouter(t, "b", "127.0.0.2", 64513)
	a.run(a.config(b))
	b.run(b.config(a))
	a.awaitUp(b)
	b.awaitUp(a)
	return a, b
}

var compareAttributes = cmp.Options{
	cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}),
	cmpopts.IgnoreFields(bgp.Route{}, "Age"),
}

func TestAttributesReachThePeer(t *testing.T) {
	a, b := pair(t)
	full := bgp.Attributes{
		Origin: "incomplete", NextHop: netip.MustParseAddr("192.0.2.1"),
		MED: new(uint32(50)), LocalPreference: new(uint32(200)), ASPath: []uint32{4200000001, 64999},
		Communities:         []string{"64512:10", "no-export", "blackhole"},
		LargeCommunities:    []string{"4200000001:1:2"},
		ExtendedCommunities: []string{"target:64512:300", "origin:4200000001:7", "target:192.0.2.1:9"},
	}
	six := full
	six.NextHop = netip.MustParseAddr("2001:db8::1")
	a.announce(
		bgp.Path{Prefixes: prefixList("203.0.113.1/32", "198.51.100.0/24"), Attributes: full},
		bgp.Path{Prefixes: prefixList("2001:db8:1::/48", "2001:db8::1/128"), Attributes: six},
	)
	b.awaitReceived(a, bgp.IPv4Unicast, "198.51.100.0/24", "203.0.113.1/32")
	b.awaitReceived(a, bgp.IPv6Unicast, "2001:db8::1/128", "2001:db8:1::/48")

	atPeer := func(at bgp.Attributes) bgp.Attributes { // over an external session
		at.ASPath = append([]uint32{64512}, at.ASPath...)
		at.LocalPreference = nil
		return at
	}
	for _, c := range []struct {
		f    bgp.Family
		want bgp.Attributes
	}{{bgp.IPv4Unicast, atPeer(full)}, {bgp.IPv6Unicast, atPeer(six)}} {
		got := b.received(a, c.f)
		for _, r := range got {
			if diff := cmp.Diff(c.want, r.Attributes, compareAttributes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.Prefix, diff)
			}
			if r.Peer != "a" || !r.Best || r.Age < 0 || r.Age > time.Minute {
				t.Errorf("route = %+v, want best, from a, fresh", r)
			}
		}
		// What we say we sent is what the peer has.
		sent := a.sent(b, c.f)
		for i := range sent {
			sent[i].Peer = "a"
		}
		if diff := cmp.Diff(got, sent, compareAttributes); diff != "" {
			t.Errorf("sent differs from what the peer received (-received +sent):\n%s", diff)
		}
	}
	inside := func(table bgp.RIBTable, prefix string, longer bool) []string {
		routes, _ := a.table(bgp.RIBQuery{Table: table, Peer: "b", Family: bgp.IPv4Unicast, Prefix: netip.MustParsePrefix(prefix), Longer: longer})
		return texts(routes)
	}
	for _, table := range []bgp.RIBTable{bgp.TableSent, bgp.TableBest} {
		if got := inside(table, "198.51.0.0/16", true); !slices.Equal(got, []string{"198.51.100.0/24"}) {
			t.Errorf("%s inside 198.51.0.0/16 = %v", table, got)
		}
		if got := inside(table, "198.51.0.0/16", false); len(got) > 0 {
			t.Errorf("%s exactly 198.51.0.0/16 = %v", table, got)
		}
		if got := inside(table, "203.0.113.1/32", false); len(got) != 1 {
			t.Errorf("%s exactly 203.0.113.1/32 = %v", table, got)
		}
	}
	best, _ := a.table(bgp.RIBQuery{Table: bgp.TableBest, Family: bgp.IPv4Unicast, Prefix: netip.MustParsePrefix("203.0.113.1/32")})
	if len(best) != 1 || best[0].Peer != "" || !best[0].Best {
		t.Fatalf("our best table = %+v, want our route", best)
	}
	if diff := cmp.Diff(full, best[0].Attributes, compareAttributes); diff != "" {
		t.Errorf("own route (-want +got):\n%s", diff)
	}

	eventually(t, func() error { // the library's counts are kept for a moment, a longer one when it was slow
		s := a.peer("b")
		if s.RouterID != netip.MustParseAddr("10.0.252.1") || s.HoldTime != 9*time.Second || s.Uptime <= 0 || s.Admin != "enabled" || s.UpdatesOut == 0 {
			return fmt.Errorf("status = %+v", s)
		}
		if want := []bgp.FamilyStatus{{Family: bgp.IPv4Unicast, Sent: 2}, {Family: bgp.IPv6Unicast, Sent: 2}}; !slices.Equal(s.Families, want) {
			return fmt.Errorf("families = %v, want %v", s.Families, want)
		}
		if got := b.peer("a").Families; got[0].Received != 2 || got[1].Received != 2 {
			return fmt.Errorf("families at the peer = %v, want 2 received each", got)
		}
		return nil
	})

	a.withdraw("203.0.113.1/32", "2001:db8::1/128", "100.64.0.0/24" /* never announced */)
	b.awaitReceived(a, bgp.IPv4Unicast, "198.51.100.0/24")
	b.awaitReceived(a, bgp.IPv6Unicast, "2001:db8:1::/48")
}

func TestReplaceWithoutWithdrawal(t *testing.T) {
	a, b := pair(t)
	a.announce(self("203.0.113.0/24"))
	b.awaitReceived(a, bgp.IPv4Unicast, "203.0.113.0/24")
	if hop := b.received(a, bgp.IPv4Unicast)[0].Attributes.NextHop; hop != a.addr.Addr() {
		t.Errorf("next hop = %s, want a's own address", hop)
	}
	again := self("203.0.113.0/24")
	again.Attributes.Communities = []string{"64512:1"}
	a.announce(again)
	eventually(t, func() error {
		got := b.received(a, bgp.IPv4Unicast)
		if len(got) != 1 {
			t.Fatalf("the route was withdrawn in between: %v", got)
		}
		if !slices.Equal(got[0].Attributes.Communities, []string{"64512:1"}) {
			return fmt.Errorf("communities = %v", got[0].Attributes.Communities)
		}
		return nil
	})
}

func TestRestrictedToPeers(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 64512)
	b, c := newRouter(t, "b", "127.0.0.2", 64513), newRouter(t, "c", "127.0.0.3", 64514)
	only := func(p bgp.Path, peers ...string) bgp.Path { p.Peers = peers; return p }
	// Before the session: the first dump obeys the restriction as well.
	a.run(a.config(b, c), only(self("10.1.0.0/24"), "b"), self("10.2.0.0/24"))
	b.run(b.config(a))
	c.run(c.config(a))
	a.awaitUp(b, c)
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24")
	c.awaitReceived(a, bgp.IPv4Unicast, "10.2.0.0/24")

	six := bgp.Attributes{Origin: "igp", NextHop: netip.MustParseAddr("2001:db8::1")}
	a.announce(
		only(self("10.3.0.0/24"), "c"),
		only(bgp.Path{Prefixes: prefixList("2001:db8:9::/48"), Attributes: six}, "c"),
		only(self("10.4.0.0/24"), "nobody-yet"),
	)
	c.awaitReceived(a, bgp.IPv4Unicast, "10.2.0.0/24", "10.3.0.0/24")
	c.awaitReceived(a, bgp.IPv6Unicast, "2001:db8:9::/48")
	// The same attributes to other peers: lost here, gained there.
	a.announce(only(self("10.1.0.0/24"), "c"), only(self("10.2.0.0/24"), "b"))
	b.awaitReceived(a, bgp.IPv4Unicast, "10.2.0.0/24")
	c.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24", "10.3.0.0/24")
	if got := b.received(a, bgp.IPv6Unicast); len(got) > 0 {
		t.Errorf("b received %v, which is for c alone", texts(got))
	}
	// To everyone again.
	a.announce(self("10.1.0.0/24", "10.2.0.0/24"))
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24")
	c.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")

	for _, peer := range []struct {
		r    *router
		want []string
	}{{b, []string{"10.1.0.0/24", "10.2.0.0/24"}}, {c, []string{"10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"}}} {
		if got := texts(a.sent(peer.r, bgp.IPv4Unicast)); !slices.Equal(got, peer.want) {
			t.Errorf("sent to %s = %v, want %v", peer.r.name, got, peer.want)
		}
		if got := a.peer(peer.r.name).Families[0].Sent; got != uint64(len(peer.want)) {
			t.Errorf("sent to %s counts %d, want %d", peer.r.name, got, len(peer.want))
		}
	}
	a.withdraw("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
	b.awaitReceived(a, bgp.IPv4Unicast)
	c.awaitReceived(a, bgp.IPv4Unicast)
}

func TestLearnedRoutesAreNotPassedOn(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 64512)
	b, c := newRouter(t, "b", "127.0.0.2", 64513), newRouter(t, "c", "127.0.0.3", 64514)
	a.run(a.config(b, c))
	b.run(b.config(a), self("10.1.0.0/24"))
	c.run(c.config(a))
	a.awaitUp(b, c)
	a.awaitReceived(b, bgp.IPv4Unicast, "10.1.0.0/24")
	// A route that follows the learned one through the same session is the proof
	// that the learned one was not merely late.
	a.announce(self("10.2.0.0/24"))
	c.awaitReceived(a, bgp.IPv4Unicast, "10.2.0.0/24")
}

func TestTeardownComesBack(t *testing.T) {
	a, b := pair(t)
	a.announce(self("10.1.0.0/24"))
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	a.do(methodTeardown, teardownParams{"b", "maintenance of rack 7"}, nil)
	eventually(t, func() error {
		if s := a.peer("b"); s.Flaps == 0 || s.State == established {
			return fmt.Errorf("still up: %+v", s)
		}
		return nil
	})
	if got := a.sent(b, bgp.IPv4Unicast); len(got) > 0 {
		t.Errorf("sent while down = %v, want nothing", texts(got))
	}
	err := a.call(t.Context(), methodTeardown, teardownParams{"b", ""}, nil)
	if !errors.Is(err, bgp.ErrState) {
		t.Errorf("teardown without a session: %v, want ErrState", err)
	}
	a.awaitUp(b)
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	if s := a.peer("b"); s.Flaps != 1 || s.LastDown == "" {
		t.Errorf("status = %+v, want one flap with a reason", s)
	}
	if s := b.peer("a"); !strings.Contains(s.LastDown, "notification-received") {
		t.Errorf("the peer's reason = %q, want a received notification", s.LastDown)
	}
}

// A peer may be removed or changed before its lost session is attended to.
func TestSessionLostDuringApply(t *testing.T) {
	a, b := newRouter(t, "a", "127.0.0.1", 64512), newRouter(t, "b", "127.0.0.2", 64513)
	cfg := a.config(b)
	a.run(cfg, self("10.1.0.0/24"))
	b.run(b.config(a))
	for hold := range uint16(2) {
		a.awaitUp(b)
		a.do(methodTeardown, teardownParams{Peer: "b"}, nil)
		gone := cfg
		gone.Peers = nil
		a.do(methodApply, gone, nil)
		changed := a.config(b)
		changed.Peers[0].Timer.Hold = 9 + hold
		a.do(methodApply, changed, nil)
		b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
		changed.Peers[0].Timer.Hold++
		a.do(methodTeardown, teardownParams{Peer: "b"}, nil)
		a.do(methodApply, changed, nil)
		a.awaitUp(b)
		b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	}
}

func TestUnknownPeer(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 64512)
	if err := a.call(t.Context(), methodPeers, nil, nil); !errors.Is(err, bgp.ErrUnavailable) {
		t.Errorf("peers before start: %v, want ErrUnavailable", err)
	}
	a.run(a.config())
	for m, params := range map[method]any{
		methodTeardown: teardownParams{Peer: "nobody"},
		methodRIB:      bgp.RIBQuery{Table: bgp.TableReceived, Peer: "nobody", Family: bgp.IPv4Unicast, Limit: 1},
	} {
		err := a.call(t.Context(), m, params, nil)
		if fe, ok := errors.AsType[*bgp.FieldError](err); !ok || fe.Field != "peer" || !errors.Is(err, bgp.ErrNotFound) {
			t.Errorf("%s: %v, want a FieldError of peer, not found", m, err)
		}
	}
	bad := self("10.0.0.0/24")
	bad.Attributes.Communities = []string{"134800:666"}
	if err := a.call(t.Context(), methodAnnounce, []bgp.Path{bad}, nil); !errors.Is(err, bgp.ErrInvalid) {
		t.Errorf("announce: %v, want ErrInvalid", err)
	}
}

func TestLastError(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 64512)
	absent := &router{name: "absent", addr: freePort(t, "127.0.0.2"), as: 64513}
	a.run(a.config(absent))
	eventually(t, func() error {
		if s := a.peer("absent"); !strings.Contains(s.LastError, "refused") {
			return fmt.Errorf("status = %+v, want a refused connection", s)
		}
		return nil
	})
}

func TestApplyTouchesOnlyWhatChanged(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 64512)
	b, c, d := newRouter(t, "b", "127.0.0.2", 64513), newRouter(t, "c", "127.0.0.3", 64514), newRouter(t, "d", "127.0.0.4", 64515)
	cfg := a.config(b, c)
	a.run(cfg, self("10.1.0.0/24"))
	for _, r := range []*router{b, c, d} {
		r.run(r.config(a))
	}
	a.awaitUp(b, c)

	next := a.config(b, d) // c goes, d comes, b gets a description
	next.Peers[0].Description = "the north rack"
	a.do(methodApply, next, nil)
	a.awaitUp(d)
	d.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	if s := a.peer("b"); s.Flaps != 0 || s.State != established {
		t.Errorf("b's session was touched: %+v", s)
	}
	eventually(t, func() error {
		if s := c.peer("a"); s.State == established {
			return errors.New("c still has a session")
		}
		return nil
	})

	next.Peers[0].Timer.Hold = 12
	a.do(methodApply, next, nil)
	eventually(t, func() error {
		if s := a.peer("b"); s.State != established || s.HoldTime != 9*time.Second {
			return fmt.Errorf("status = %+v, want a new session", s)
		}
		return nil
	})
	if s := b.peer("a"); s.Flaps != 1 {
		t.Errorf("b saw %d flaps, want the one of the new session", s.Flaps)
	}
	if s := a.peer("d"); s.Flaps != 0 || s.State != established {
		t.Errorf("d's session was touched: %+v", s)
	}

	next.RouterID = netip.MustParseAddr("10.9.9.9") // a new server, the same routes
	a.do(methodApply, next, nil)
	a.awaitUp(b, d)
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	if s := b.peer("a"); s.RouterID != next.RouterID {
		t.Errorf("router id at b = %s, want %s", s.RouterID, next.RouterID)
	}
}

func TestIPv6Session(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Logf("no IPv6 here: %v", err)
		return
	} else {
		l.Close()
	}
	// Only one IPv6 loopback address exists, so one side listens and the other
	// connects, and both carry IPv4 sessions to a third for the mixture.
	a, b := newRouter(t, "a", "::1", 64512), newRouter(t, "b", "127.0.0.2", 64513)
	c := newRouter(t, "c", "127.0.0.3", 64514)
	four := netip.MustParseAddr("127.0.0.1")
	cfg := a.config(b)
	cfg.Peers[0].Remote.IP, cfg.Peers[0].Passive = netip.IPv6Loopback(), true
	cfg.Peers = append(cfg.Peers, peerOf(four, "c", c.addr, c.as))
	a.run(cfg, self("10.1.0.0/24"), self("2001:db8:1::/48"))
	bcfg := b.config(a)
	bcfg.Listen = bgp.ListenConfig{}
	bcfg.Peers[0].Local.IP = netip.IPv6Loopback()
	b.run(bcfg)
	ccfg := c.config()
	ccfg.Peers = []bgp.PeerConfig{peerOf(c.addr.Addr(), "a", netip.AddrPortFrom(four, a.addr.Port()), a.as)}
	ccfg.Peers[0].Passive = true
	c.run(ccfg)
	a.awaitUp(b, c)
	// "Self" goes only where the session has an address of the route's family.
	b.awaitReceived(a, bgp.IPv6Unicast, "2001:db8:1::/48")
	c.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24")
	if hop := b.received(a, bgp.IPv6Unicast)[0].Attributes.NextHop; hop != netip.IPv6Loopback() {
		t.Errorf("next hop = %s, want ::1", hop)
	}
	b.awaitReceived(a, bgp.IPv4Unicast)
	c.awaitReceived(a, bgp.IPv6Unicast)
}

func TestPrefixLimit(t *testing.T) {
	a, b := newRouter(t, "a", "127.0.0.1", 64512), newRouter(t, "b", "127.0.0.2", 64513)
	cfg := a.config(b)
	cfg.Peers[0].Families[0].PrefixLimit = 2
	a.run(cfg)
	b.run(b.config(a), self("10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24"))
	eventually(t, func() error {
		if s := a.peer("b"); s.Admin != "prefix-limit" || s.State == established {
			return fmt.Errorf("status = %+v, want prefix-limit", s)
		}
		return nil
	})
	// With fewer routes a teardown brings the peer back.
	b.do(methodWithdraw, []netip.Prefix{netip.MustParsePrefix("10.3.0.0/24")}, nil)
	a.do(methodTeardown, teardownParams{Peer: "b"}, nil)
	a.awaitReceived(b, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24")
	b.do(methodAnnounce, []bgp.Path{self("10.3.0.0/24")}, nil)
	eventually(t, func() error {
		if s := a.peer("b"); s.Admin != "prefix-limit" || !strings.HasPrefix(s.LastDown, "prefix limit") {
			return fmt.Errorf("status = %+v, want prefix-limit", s)
		}
		return nil
	})
	cfg.Peers = slices.Clone(cfg.Peers)
	cfg.Peers[0].Families = []bgp.FamilyConfig{{Name: bgp.IPv4Unicast, PrefixLimit: 10}}
	a.do(methodApply, cfg, nil)
	a.awaitReceived(b, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/24")
}
