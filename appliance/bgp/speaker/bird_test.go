package speaker

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ze.internal/ze/appliance/bgp"
)

// bird is a real BIRD 2 as the peer, on an address and port of its own.
type bird struct {
	t   *testing.T
	dir string
	*router
}

// startBird runs BIRD against peer, to which it announces routes.
func startBird(t *testing.T, peer *router, routes []netip.Prefix, password string) *bird {
	t.Helper()
	path, err := exec.LookPath("bird")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("bird is missing: install the package bird2")
		}
		t.Skip("bird is missing: install the package bird2")
	}
	b := &bird{t: t, dir: t.TempDir(), router: &router{name: "bird", addr: freePort(t, "127.0.0.9"), as: 65002}}
	var conf bytes.Buffer
	fmt.Fprintf(&conf, "log %q all;\nrouter id 10.255.0.2;\nprotocol device { scan time 10; }\n", filepath.Join(b.dir, "log"))
	// Next hops resolve in a table of their own, or routes would be unreachable.
	fmt.Fprintln(&conf, `ipv4 table hops; protocol static { ipv4 { table hops; }; route 0.0.0.0/0 via "lo"; }`)
	fmt.Fprintln(&conf, "protocol static own { ipv4;")
	for _, p := range routes {
		fmt.Fprintf(&conf, "route %s blackhole;\n", p)
	}
	fmt.Fprintln(&conf, "}\nprotocol bgp peer {")
	fmt.Fprintf(&conf, "local %s port %d as %d; neighbor %s port %d as %d;\n",
		b.addr.Addr(), b.addr.Port(), b.as, peer.addr.Addr(), peer.addr.Port(), peer.as)
	fmt.Fprintln(&conf, "multihop; strict bind yes; connect delay time 1; connect retry time 2; error wait time 1, 4;")
	if password != "" {
		fmt.Fprintf(&conf, "password %q;\n", password)
	}
	fmt.Fprintln(&conf, "ipv4 { import all; export where source = RTS_STATIC; igp table hops; };\n}")
	file := filepath.Join(b.dir, "conf")
	if err := os.WriteFile(file, conf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-f", "-c", file, "-s", b.socket())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.dir, "log"))
			t.Logf("bird: %s%s", &out, log)
		}
	})
	return b
}

func (b *bird) socket() string { return filepath.Join(b.dir, "ctl") }

func (b *bird) ctl(words ...string) string {
	out, _ := exec.Command("birdc", append([]string{"-s", b.socket()}, words...)...).CombinedOutput()
	return string(out)
}

// awaitCount waits until BIRD holds n routes of the session.
func (b *bird) awaitCount(n int) {
	b.t.Helper()
	want := fmt.Sprintf("\n%d of ", n)
	eventually(b.t, func() error {
		if got := b.ctl("show", "route", "protocol", "peer", "count"); !strings.Contains(got, want) {
			return fmt.Errorf("bird's routes: %s; want %d", got, n)
		}
		return nil
	})
}

func hosts(first string, n int) []netip.Prefix {
	out := make([]netip.Prefix, 0, n)
	for a := netip.MustParseAddr(first); len(out) < n; a = a.Next() {
		out = append(out, netip.PrefixFrom(a, 32))
	}
	return out
}

func TestBird(t *testing.T) {
	for _, password := range []string{"", "opensesame"} {
		t.Run("password="+password, func(t *testing.T) {
			a := newRouter(t, "a", "127.0.0.1", 65001)
			theirs := hosts("10.20.0.0", 1000)
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
			b.awaitCount(1)
			seen := b.ctl("show", "route", "protocol", "peer", "all")
			for _, want := range []string{
				"203.0.113.1/32", "BGP.as_path: 65001\n", "BGP.next_hop: 127.0.0.1", "BGP.med: 7",
				"BGP.community: (65001,100)", "BGP.large_community: (4200000001, 1, 2)",
			} {
				if !strings.Contains(seen, want) {
					t.Errorf("bird does not have %q:\n%s", want, seen)
				}
			}
			many := bgp.Path{Prefixes: hosts("10.40.0.0", 10_000), Attributes: one.Attributes}
			a.announce(many)
			b.awaitCount(10_001)
			a.do(methodWithdraw, many.Prefixes, nil)
			b.awaitCount(1)

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
	b := startBird(t, a, hosts("10.20.0.0", 12_000), "")
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
