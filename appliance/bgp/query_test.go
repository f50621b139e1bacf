package bgp

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestPeers(t *testing.T) {
	r := newRoom(t)
	r.engine.peers = func(context.Context) ([]PeerStatus, error) {
		return []PeerStatus{{Name: "south", State: "established"}, {Name: "removed", State: "idle"}}, nil
	}
	peers, err := r.Peers(t.Context())
	if err != nil || len(peers) != 3 || peers[0].Name != "north" || peers[0].State != "idle" || peers[0].LastError != "" || peers[1].State != "established" {
		t.Errorf("%+v, %v", peers, err)
	}
	p, err := r.Peer(t.Context(), "south")
	if err != nil || p.State != "established" {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = r.Peer(t.Context(), "suoth")
	if fe := fieldError(t, err, "peer", ErrNotFound); fe.Allowed != "known are north, south, west" {
		t.Errorf("%q", fe.Allowed)
	}
	refuse := errors.New("refused")
	r.engine.peers = func(context.Context) ([]PeerStatus, error) { return nil, refuse }
	if _, err := r.Peers(t.Context()); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
}

// A speaker that hangs costs a bounded time, and the peers are listed all the same.
func TestPeersOfHangingSpeaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.engine.peers = func(ctx context.Context) ([]PeerStatus, error) { <-ctx.Done(); return nil, ctx.Err() }
		began := time.Now()
		peers, err := r.Peers(t.Context())
		if err != nil || len(peers) != 3 || !strings.Contains(peers[0].LastError, "does not answer") || time.Since(began) != readTimeout {
			t.Errorf("%+v, %v after %s", peers, err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Peers(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own deadline: %v", err)
		}
	})
}

func TestRIB(t *testing.T) {
	r := newRoom(t)
	var asked RIBQuery
	r.engine.rib = func(q RIBQuery) ([]Route, bool, error) { asked = q; return nil, true, nil }
	p := netip.MustParsePrefix
	for _, tc := range []struct{ query, want RIBQuery }{
		{RIBQuery{Table: TableBest}, RIBQuery{Table: TableBest, Family: IPv4Unicast, Limit: 1000}},
		{RIBQuery{Table: TableSent, Peer: "west", Limit: 10000}, RIBQuery{Table: TableSent, Peer: "west", Family: IPv6Unicast, Limit: 10000}},
		{
			RIBQuery{Table: TableReceived, Peer: "north", Prefix: p("2001:db8::/32"), Longer: true, After: p("2001:db8:1::/48"), Limit: 1},
			RIBQuery{Table: TableReceived, Peer: "north", Prefix: p("2001:db8::/32"), Longer: true, After: p("2001:db8:1::/48"), Limit: 1, Family: IPv6Unicast},
		},
	} {
		routes, more, err := r.RIB(t.Context(), tc.query)
		if err != nil || !more || routes == nil || asked != tc.want {
			t.Errorf("%+v: %v, %v, %v, asked %+v", tc.query, routes, more, err, asked)
		}
	}
	for field, q := range map[string]RIBQuery{
		"table":  {Table: "local"},
		"family": {Table: TableSent, Peer: "south", Family: IPv6Unicast},
		"limit":  {Table: TableBest, Limit: 10001},
		"prefix": {Table: TableBest, Prefix: p("10.0.0.1/8")},
		"after":  {Table: TableBest, After: p("::/0")},
		"longer": {Table: TableBest, Longer: true},
	} {
		_, _, err := r.RIB(t.Context(), q)
		fieldError(t, err, field, ErrInvalid)
	}
	for _, tc := range []struct {
		query RIBQuery
		kind  error
	}{
		{RIBQuery{Table: TableBest, Peer: "north"}, ErrInvalid},
		{RIBQuery{Table: TableSent}, ErrInvalid},
		{RIBQuery{Table: TableSent, Peer: "east"}, ErrNotFound},
	} {
		_, _, err := r.RIB(t.Context(), tc.query)
		fieldError(t, err, "peer", tc.kind)
	}
	_, _, err := r.RIB(t.Context(), RIBQuery{Table: TableBest, Family: "ipv4/flowspec"})
	fieldError(t, err, "family", ErrInvalid)
	r.engine.rib = func(RIBQuery) ([]Route, bool, error) { return nil, false, ErrUnavailable }
	if _, _, err := r.RIB(t.Context(), RIBQuery{Table: TableBest}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestTeardown(t *testing.T) {
	r := newRoom(t)
	var told string
	r.engine.teardown = func(peer, reason string) error { told = peer + ": " + reason; return nil }
	if err := r.Teardown(t.Context(), "north", "maintenance"); err != nil || told != "north: maintenance" {
		t.Errorf("%q, %v", told, err)
	}
	fieldError(t, r.Teardown(t.Context(), "", "x"), "peer", ErrNotFound) // never all peers
	fieldError(t, r.Teardown(t.Context(), "north", strings.Repeat("x", 256)), "reason", ErrInvalid)
	fieldError(t, r.Teardown(t.Context(), "north", "a\x00b"), "reason", ErrInvalid)
	fieldError(t, r.Teardown(t.Context(), "north", "\xff"), "reason", ErrInvalid)
	r.engine.teardown = func(string, string) error { return ErrState }
	if err := r.Teardown(t.Context(), "north", ""); !errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16"}})
		var asked atomic.Int32
		r.engine.peers = func(context.Context) ([]PeerStatus, error) {
			asked.Add(1)
			return []PeerStatus{
				{Name: "north", State: "established", Flaps: 2, UpdatesIn: 5, UpdatesOut: 7, Families: []FamilyStatus{{IPv4Unicast, 30, 2}, {IPv6Unicast, 4, 0}}},
				{Name: "south", State: "active", Admin: "prefix-limit"}, {Name: "west", State: "active"},
			}, nil
		}
		registry := prometheus.NewPedanticRegistry()
		for _, c := range r.Collectors() {
			registry.MustRegister(c)
		}
		compare := func(text string) {
			t.Helper()
			if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
				t.Error(err)
			}
		}
		const counts = `
# HELP ze_bgp_peer_flaps_total Sessions with a peer that were established and lost, since the BGP speaker started.
# TYPE ze_bgp_peer_flaps_total counter
ze_bgp_peer_flaps_total{peer="north"} 2
ze_bgp_peer_flaps_total{peer="south"} 0
ze_bgp_peer_flaps_total{peer="west"} 0
# HELP ze_bgp_peer_over_prefix_limit Whether a peer is kept down because it sent more prefixes than allowed.
# TYPE ze_bgp_peer_over_prefix_limit gauge
ze_bgp_peer_over_prefix_limit{peer="north"} 0
ze_bgp_peer_over_prefix_limit{peer="south"} 1
ze_bgp_peer_over_prefix_limit{peer="west"} 0
# HELP ze_bgp_peer_received_prefixes Prefixes received from a peer (Adj-RIB-In).
# TYPE ze_bgp_peer_received_prefixes gauge
ze_bgp_peer_received_prefixes{family="ipv4/unicast",peer="north"} 30
ze_bgp_peer_received_prefixes{family="ipv6/unicast",peer="north"} 4
# HELP ze_bgp_peer_sent_prefixes Prefixes of ours that a peer should have (Adj-RIB-Out).
# TYPE ze_bgp_peer_sent_prefixes gauge
ze_bgp_peer_sent_prefixes{family="ipv4/unicast",peer="north"} 2
ze_bgp_peer_sent_prefixes{family="ipv6/unicast",peer="north"} 0
# HELP ze_bgp_peer_updates_total BGP UPDATE messages exchanged with a peer.
# TYPE ze_bgp_peer_updates_total counter
ze_bgp_peer_updates_total{direction="in",peer="north"} 5
ze_bgp_peer_updates_total{direction="in",peer="south"} 0
ze_bgp_peer_updates_total{direction="in",peer="west"} 0
ze_bgp_peer_updates_total{direction="out",peer="north"} 7
ze_bgp_peer_updates_total{direction="out",peer="south"} 0
ze_bgp_peer_updates_total{direction="out",peer="west"} 0
`
		const states = `
# HELP ze_bgp_announced_prefixes Prefixes announced here.
# TYPE ze_bgp_announced_prefixes gauge
ze_bgp_announced_prefixes 2
# HELP ze_bgp_peer_up Whether the session with a peer is established.
# TYPE ze_bgp_peer_up gauge
ze_bgp_peer_up{peer="north"} 1
ze_bgp_peer_up{peer="south"} 0
ze_bgp_peer_up{peer="west"} 0
# HELP ze_bgp_peers Configured BGP peers by session state.
# TYPE ze_bgp_peers gauge
ze_bgp_peers{state="active"} 2
ze_bgp_peers{state="connect"} 0
ze_bgp_peers{state="established"} 1
ze_bgp_peers{state="idle"} 0
ze_bgp_peers{state="open-confirm"} 0
ze_bgp_peers{state="open-sent"} 0
# HELP ze_bgp_speaker_up Whether the BGP speaker answers.
# TYPE ze_bgp_speaker_up gauge
ze_bgp_speaker_up 1
`
		compare(states + counts)
		compare(states + counts)
		if n := asked.Load(); n != 1 {
			t.Errorf("two scrapes asked the speaker %d times", n)
		}
		fewer := testConfig()
		fewer.Peers = fewer.Peers[:1]
		if err := r.Configure(t.Context(), fewer); err != nil {
			t.Fatal(err)
		}
		if n := testutil.CollectAndCount(r.metrics, "ze_bgp_peer_up"); n != 1 {
			t.Errorf("%d peers right after two were removed", n)
		}
		if err := r.Configure(t.Context(), testConfig()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(scrapeCache)
		r.engine.peers = func(ctx context.Context) ([]PeerStatus, error) { <-ctx.Done(); return nil, ctx.Err() }
		began := time.Now()
		silent := strings.NewReplacer(
			"speaker_up 1", "speaker_up 0", `{peer="north"} 1`, `{peer="north"} 0`,
			`"active"} 2`, `"active"} 0`, `"established"} 1`, `"established"} 0`, `"idle"} 0`, `"idle"} 3`,
		).Replace(states)
		compare(regexp.MustCompile(`(?m)^.*ze_bgp_peer_up.*\n`).ReplaceAllString(silent, "")) // nobody knows
		if waited := time.Since(began); waited != scrapeTimeout {
			t.Errorf("a scrape of a hanging speaker took %s", waited)
		}
		time.Sleep(scrapeCache)
		r.engine.peers = func(context.Context) ([]PeerStatus, error) { return nil, ErrUnavailable }
		compare(silent) // with the speaker the sessions are gone
		if err := r.Configure(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if n := testutil.CollectAndCount(r.metrics, "ze_bgp_peer_up"); n != 0 {
			t.Errorf("%d peers without a bgp block", n)
		}
	})
}
