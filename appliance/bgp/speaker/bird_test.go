package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/bgp/birdtest"
)

// bird is a real BIRD 2 as the peer, on an address and port of its own.
type bird struct {
	*birdtest.Bird
	*router
}

// startBird runs BIRD against peer, to which it announces routes.
func startBird(t *testing.T, peer *router, routes []netip.Prefix, password string) *bird {
	t.Helper()
	own := &router{name: "bird", addr: freePort(t, "127.0.0.9"), as: 65002}
	return &bird{router: own, Bird: birdtest.Start(t, birdtest.Options{
		Local: own.addr, AS: own.as, Peer: peer.addr, PeerAS: peer.as, Password: password, Announce: routes,
	})}
}

func TestBird(t *testing.T) {
	for _, password := range []string{"", "opensesame"} {
		t.Run("password="+password, func(t *testing.T) {
			a := newRouter(t, "a", "127.0.0.1", 65001)
			theirs := birdtest.Hosts("10.20.0.0", 1000)
			b := startBird(t, a, theirs, password)
			cfg := a.config(b.router)
			cfg.Peers[0].Families = []bgp.FamilyConfig{{Name: bgp.IPv4Unicast}}
			cfg.Peers[0].Password = password
			a.run(cfg)
			a.awaitUp(b.router)

			one := self("203.0.113.1/32")
			one.Attributes.MED = new(uint32(7))
			one.Attributes.Communities = []string{"65001:100"}
			one.Attributes.LargeCommunities = []string{"4200000001:1:2"}
			a.announce(one)
			b.AwaitCount(1)
			seen := b.Control("show", "route", "protocol", "peer", "all")
			for _, want := range []string{
				"203.0.113.1/32", "BGP.as_path: 65001\n", "BGP.next_hop: 127.0.0.1", "BGP.med: 7",
				"BGP.community: (65001,100)", "BGP.large_community: (4200000001, 1, 2)",
			} {
				if !strings.Contains(seen, want) {
					t.Errorf("bird does not have %q:\n%s", want, seen)
				}
			}
			many := bgp.Path{Prefixes: birdtest.Hosts("10.40.0.0", 10_000), Attributes: one.Attributes}
			a.announce(many)
			b.AwaitCount(10_001)
			a.do(methodWithdraw, many.Prefixes, nil)
			b.AwaitCount(1)

			eventually(t, func() error { // BIRD may send its first update late
				if got := a.peer("bird").Families[0].Received; got != 1000 {
					return fmt.Errorf("received %d routes from bird, want 1000", got)
				}
				return nil
			})
			q := bgp.RIBQuery{Table: bgp.TableReceived, Peer: "bird", Family: bgp.IPv4Unicast, Limit: 300}
			var got []netip.Prefix
			for more := true; more; {
				var routes []bgp.Route
				if routes, more = a.table(q); len(routes) == 0 {
					t.Fatal("an empty page")
				}
				for _, r := range routes {
					got = append(got, r.Prefix)
				}
				q.After = got[len(got)-1]
			}
			if len(got) != len(theirs) {
				t.Fatalf("paging gave %d routes, want %d", len(got), len(theirs))
			}
			for i := range got {
				if got[i] != theirs[i] {
					t.Fatalf("route %d is %s, want %s", i, got[i], theirs[i])
				}
			}
			inside, _ := a.table(bgp.RIBQuery{
				Table: bgp.TableReceived, Peer: "bird", Family: bgp.IPv4Unicast,
				Prefix: netip.MustParsePrefix("10.20.1.0/24"), Longer: true,
			})
			if len(inside) != 256 {
				t.Errorf("10.20.1.0/24 and longer = %d routes, want 256", len(inside))
			}
		})
	}
}

// Limits too high for the library are held by ze itself.
func TestHighPrefixLimit(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 65001)
	b := startBird(t, a, birdtest.Hosts("10.20.0.0", 12_000), "")
	cfg := a.config(b.router)
	cfg.Peers[0].Families = []bgp.FamilyConfig{{Name: bgp.IPv4Unicast, PrefixLimit: 11_000}}
	a.run(cfg)
	eventually(t, func() error {
		s := a.peer("bird")
		if s.Admin != "prefix-limit" || s.State == established || !strings.Contains(s.LastDown, "limit 11000") {
			return fmt.Errorf("status = %+v, want prefix-limit", s)
		}
		return nil
	})
	cfg.Peers[0].Families[0].PrefixLimit = 20_000
	a.do(methodApply, cfg, nil)
	eventually(t, func() error {
		if s := a.peer("bird"); s.Admin != "enabled" || s.Families[0].Received != 12_000 {
			return fmt.Errorf("status = %+v, want all routes", s)
		}
		return nil
	})
}

// A session that is lost while updates wait to be sent comes back, each time,
// and with all of them.
func TestSessionLostDuringAnnounce(t *testing.T) {
	a := newRouter(t, "a", "127.0.0.1", 65001)
	b := startBird(t, a, nil, "")
	cfg := a.config(b.router)
	cfg.Peers[0].Families = []bgp.FamilyConfig{{Name: bgp.IPv4Unicast}}
	cfg.Peers[0].Timer.Hold = 90 // a session that is up and silent does not end in time to pass
	a.run(cfg)
	prefixes := birdtest.Hosts("10.40.0.0", 20_000)
	for round := range uint32(5) {
		a.awaitUp(b.router)
		before := a.peer("bird")
		announced := make(chan error, 1)
		go func() {
			var paths []bgp.Path // each of some prefixes, so that many updates wait
			for some := range slices.Chunk(prefixes, 5) {
				path := self()
				path.Prefixes, path.Attributes.MED = some, new(round*uint32(len(prefixes))+uint32(len(paths)))
				paths = append(paths, path)
			}
			announced <- a.call(t.Context(), methodAnnounce, paths, nil)
		}()
		eventually(t, func() error { // the first updates are there, the others on their way
			med := fmt.Sprintf("bgp_med >= %d", round*uint32(len(prefixes)))
			if b.has(med, 0) {
				return errors.New("bird has none of the routes")
			}
			return nil
		})
		b.Control("restart", "peer")
		began := time.Now()
		eventually(t, func() error {
			if s := a.peer("bird"); s.Flaps == before.Flaps {
				return fmt.Errorf("status = %+v, want a lost session", s)
			}
			return nil
		})
		if err := <-announced; err != nil {
			t.Fatal(err)
		}
		a.awaitUp(b.router)
		up := time.Since(began)
		eventually(t, func() error {
			if !b.has("true", len(prefixes)) {
				return fmt.Errorf("round %d: bird's session is up without all routes: %s%+v", round, b.Control("show", "route", "protocol", "peer", "count"), a.peer("bird"))
			}
			return nil
		})
		s := a.peer("bird")
		if s.Flaps != before.Flaps+1 || s.LastDown == "" || s.UpdatesOut <= before.UpdatesOut {
			t.Errorf("round %d: status = %+v after %+v, want one flap more and the counts kept", round, s, before)
		}
		t.Logf("round %d: up after %s, all routes after %s", round, up.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	}
}

// has reports whether n routes of the session meet a condition.
func (b *bird) has(condition string, n int) bool {
	got := b.Control("show", "route", "protocol", "peer", "where", condition, "count")
	return strings.Contains(got, fmt.Sprintf("\n%d of ", n))
}
