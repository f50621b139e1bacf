package appliance_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"ze.internal/ze/appliance/bgp/birdtest"
)

// TestBird drives a session with BIRD over MCP: one prefix, ten thousand in one
// call, their withdrawal, and a thousand received, page by page.
func TestBird(t *testing.T) {
	l := newLab(t)
	theirs := birdtest.Hosts("10.20.0.0", 1000)
	bird := birdtest.Start(t, birdtest.Options{Local: l.theirs, AS: 64999, Peer: l.ours, PeerAS: 64512, Announce: theirs})
	d := startDaemon(t, daemonOptions{config: l.config("")})
	d.established(t, "north")

	d.call(t, "ze_announce", map[string]any{"prefixes": []string{"203.0.113.0/24"}, "next-hop": "192.0.2.99", "origin": "incomplete",
		"med": 50, "as-path": []int{64600}, "community": []string{"64512:10", "no-export"}, "large-community": []string{"64512:1:2"},
		"extended-community": []string{"target:64512:300"}}, nil)
	bird.AwaitCount(1)
	seen := bird.Control("show", "route", "all", "203.0.113.0/24")
	for _, want := range []string{"BGP.origin: Incomplete", "BGP.as_path: 64512 64600", "BGP.next_hop: 192.0.2.99", "BGP.med: 50",
		"(64512,10) (65535,65281)", "(64512, 1, 2)", "(rt, 64512, 300)"} {
		if !strings.Contains(seen, want) {
			t.Errorf("bird does not have %q:\n%s", want, seen)
		}
	}

	many := make([]string, 10_000)
	for i, p := range birdtest.Hosts("10.64.0.0", len(many)) {
		many[i] = p.String()
	}
	var a struct {
		ID        string
		Announced int
	}
	d.call(t, "ze_announce", map[string]any{"prefixes": many, "next-hop": "self"}, &a)
	if a.Announced != len(many) {
		t.Errorf("announced %d", a.Announced)
	}
	bird.AwaitCount(len(many) + 1)
	d.call(t, "ze_withdraw", map[string]any{"id": a.ID}, nil)
	bird.AwaitCount(1)
	d.call(t, "ze_withdraw", map[string]any{"prefixes": []string{"203.0.113.0/24"}}, nil)
	bird.AwaitCount(0)

	type page struct {
		Count int
		More  bool
		Next  string
		Route []struct{ Prefix string }
	}
	// BIRD may take some seconds before it sends its routes.
	eventually(t, "routes received", func() string {
		var s struct {
			Peer []struct{ Received int }
		}
		d.call(t, "ze_show_bgp", nil, &s)
		if s.Peer[0].Received != len(theirs) {
			return fmt.Sprint(s.Peer[0].Received)
		}
		return ""
	})
	var got []netip.Prefix
	args := map[string]any{"action": "received", "peer": "north", "limit": 300}
	for pages := 1; ; pages++ {
		var p page
		d.call(t, "ze_show_bgp_rib", args, &p)
		for _, r := range p.Route {
			got = append(got, netip.MustParsePrefix(r.Prefix))
		}
		if !p.More {
			if pages != 4 || p.Count != 100 {
				t.Errorf("page %d is the last, with %d routes", pages, p.Count)
			}
			break
		}
		args["after"] = p.Next
	}
	if fmt.Sprint(got) != fmt.Sprint(theirs) {
		t.Errorf("the pages have %d routes, not the %d announced, in order", len(got), len(theirs))
	}
}
