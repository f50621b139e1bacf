package bgp

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestConfigureRefused(t *testing.T) {
	r := newRoom(t)
	bad := testConfig()
	bad.Local.AS = 0
	err := r.Configure(t.Context(), bad)
	fieldError(t, err, "local/as", ErrInvalid)

	calls, refuse := r.engine.calls, errors.New("refused")
	r.engine.refuse(refuse)
	other := testConfig()
	other.Peers = other.Peers[:1]
	if err := r.Configure(t.Context(), other); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	if r.engine.calls != calls+2 || len(r.engine.cfg.Peers) != 3 {
		t.Errorf("%d calls, speaker runs %d peers", r.engine.calls-calls, len(r.engine.cfg.Peers))
	}
	if peers, err := r.Peers(t.Context()); err != nil || len(peers) != 3 {
		t.Errorf("%v, %v", peers, err)
	}
}

// The speaker refuses a configuration and then the old one: the loop repeats it.
func TestUnappliedIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		refuse := errors.New("refused")
		r.engine.refuse(refuse, refuse)
		r.engine.cfg = Config{} // what a failed change left there
		other := testConfig()
		other.Peers = other.Peers[:1]
		if err := r.Configure(t.Context(), other); !errors.Is(err, refuse) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute + retryInterval)
		synctest.Wait()
		if cfg := r.engine.running(); len(cfg.Peers) != 3 {
			t.Errorf("speaker runs %+v", cfg)
		}
	})
}

func TestConfigureKeepsTheCallersValue(t *testing.T) {
	r := newRoom(t)
	c := testConfig()
	c.Peers[0].Families = nil
	if err := r.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if c.Peers[0].Families != nil {
		t.Error("the caller's configuration was changed")
	}
	c.Peers[0].Name = "changed"
	if _, err := r.Peer(t.Context(), "north"); err != nil {
		t.Error(err)
	}
}

// A named peer that goes away leaves the announcement in place, reaching fewer.
func TestNamedPeerDisappears(t *testing.T) {
	r := newRoom(t)
	r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}, Peers: []string{"north", "south"}})
	c := testConfig()
	c.Peers = c.Peers[1:]
	if err := r.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "10.1.0.0/16")
	if got := r.engine.routes[netip.MustParsePrefix("10.1.0.0/16")].peers; got != `["north","south"]` {
		t.Errorf("goes to %s", got)
	}
	res := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}, Peers: []string{"south"}})
	if len(res.Peers) != 1 || res.Unchanged != 0 {
		t.Errorf("%+v", res)
	}
}

// An announcement to every peer was fine for all of them; then one is
// configured that could not take its next hop. That one must never have it, not
// live and not by replay, and has it as soon as it can.
func TestNewPeerThatCannotTakeTheNextHop(t *testing.T) {
	r := newRoom(t)
	only := func(names ...string) *Config {
		c := testConfig()
		var peers []PeerConfig
		for _, name := range names {
			peers = append(peers, *c.peer(name))
		}
		c.Peers = peers
		return c
	}
	goesTo := func(want string) {
		t.Helper()
		p := netip.MustParsePrefix("2001:db8:1::/48")
		if got := r.engine.routes[p].peers; got != want {
			t.Errorf("goes to %q, want %q", got, want)
		}
		r.engine.goDown()
		if err := r.engine.comeUp(t.Context(), r.Service); err != nil {
			t.Fatal(err)
		}
		if got := r.engine.routes[p].peers; got != want {
			t.Errorf("after a restart goes to %q, want %q", got, want)
		}
	}
	configure := func(c *Config) {
		t.Helper()
		if err := r.Configure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	configure(only("west"))
	r.announce(t, AnnounceRequest{Prefixes: []string{"2001:db8:1::/48", "10.1.0.0/16"}})
	goesTo(`null`)
	configure(only("west", "north"))
	goesTo(`["west"]`)
	configure(only("north"))
	goesTo(``)
	if got := r.engine.prefixes(); len(got) != 1 {
		t.Errorf("speaker has %v", got)
	}
	configure(only("west"))
	goesTo(`null`)
}

func TestConfigureWhileDown(t *testing.T) {
	r := newRoom(t)
	r.engine.goDown()
	c := testConfig()
	c.Peers = c.Peers[:1]
	if err := r.Configure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.comeUp(t.Context(), r.Service); err != nil {
		t.Fatal(err)
	}
	if len(r.engine.cfg.Peers) != 1 {
		t.Errorf("replayed %+v", r.engine.cfg)
	}
	if err := r.Configure(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Peers(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("got %v", err)
	}
}
