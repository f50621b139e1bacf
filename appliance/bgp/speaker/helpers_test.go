package speaker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/bgp"
)

// childMark makes the test binary be the child: what "ze speaker" is in ze.
const childMark = "ZE_TEST_SPEAKER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		log := zerolog.New(os.Stderr).Level(zerolog.InfoLevel)
		if err := Serve(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error().Err(err).Send()
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// router is a speaker in a process of its own, as in ze: the library's route
// selection options are global to a process, so that two servers in one are a
// data race.
type router struct {
	*exchange
	t    *testing.T
	name string
	addr netip.AddrPort
	as   uint32

	reports chan bgp.Report // what it has told unasked
}

// newRouter serves a speaker that will use a free port of ip. run starts it.
func newRouter(t *testing.T, name, ip string, as uint32) *router {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{childMark + "=1"}
	var log bytes.Buffer
	cmd.Stderr = &log
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	r := &router{t: t, name: name, addr: freePort(t, ip), as: as, reports: make(chan bgp.Report, 1000)}
	r.exchange = newExchange(in, func(report bgp.Report) { r.reports <- report })
	read := make(chan error, 1)
	go r.write(t.Context())
	go func() { read <- r.read(out) }()
	t.Cleanup(func() {
		in.Close() // which ends it
		if err := <-read; err != nil {
			t.Errorf("answers of %s: %v", name, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended: %v", name, err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, &log)
		}
	})
	return r
}

// freePort asks the kernel for a port that is free on ip.
func freePort(t *testing.T, ip string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// config is a router's configuration with peers that run both families.
func (r *router) config(peers ...*router) bgp.Config {
	return configure(r.addr, r.as, peers...)
}

func configure(self netip.AddrPort, as uint32, peers ...*router) bgp.Config {
	cfg := bgp.Config{
		RouterID: netip.AddrFrom4([4]byte{10, 0, byte(as >> 8), byte(as)}),
		Local:    bgp.LocalConfig{AS: as},
		Listen:   bgp.ListenConfig{IP: self.Addr(), Port: self.Port()},
	}
	for _, p := range peers {
		cfg.Peers = append(cfg.Peers, peerOf(self.Addr(), p.name, p.addr, p.as))
	}
	return cfg
}

func peerOf(local netip.Addr, name string, remote netip.AddrPort, as uint32) bgp.PeerConfig {
	return bgp.PeerConfig{
		Name:     name,
		Remote:   bgp.RemoteConfig{IP: remote.Addr(), Port: remote.Port(), AS: as},
		Local:    bgp.LocalConfig{IP: local},
		Timer:    bgp.TimerConfig{Hold: 9, ConnectRetry: 2},
		Families: []bgp.FamilyConfig{{Name: bgp.IPv4Unicast}, {Name: bgp.IPv6Unicast}},
	}
}

func (r *router) do(m method, params, result any) {
	r.t.Helper()
	if err := r.call(r.t.Context(), m, params, result); err != nil {
		r.t.Fatalf("%s: %s: %v", r.name, m, err)
	}
}

func (r *router) run(cfg bgp.Config, paths ...bgp.Path) {
	r.t.Helper()
	r.do(methodStart, startParams{cfg, paths}, nil)
}

func (r *router) announce(paths ...bgp.Path) { r.t.Helper(); r.do(methodAnnounce, paths, nil) }

func (r *router) withdraw(prefixes ...string) {
	r.t.Helper()
	r.do(methodWithdraw, prefixList(prefixes...), nil)
}

func (r *router) peer(name string) bgp.PeerStatus {
	r.t.Helper()
	var list []bgp.PeerStatus
	r.do(methodPeers, nil, &list)
	for _, p := range list {
		if p.Name == name {
			return p
		}
	}
	r.t.Fatalf("%s has no peer %s: %v", r.name, name, list)
	return bgp.PeerStatus{}
}

func (r *router) table(q bgp.RIBQuery) ([]bgp.Route, bool) {
	r.t.Helper()
	if q.Limit == 0 {
		q.Limit = 10000
	}
	var res ribResult
	r.do(methodRIB, q, &res)
	return res.Routes, res.More
}

func (r *router) received(from *router, f bgp.Family) []bgp.Route {
	r.t.Helper()
	routes, _ := r.table(bgp.RIBQuery{Table: bgp.TableReceived, Peer: from.name, Family: f})
	return routes
}

func (r *router) sent(to *router, f bgp.Family) []bgp.Route {
	r.t.Helper()
	routes, _ := r.table(bgp.RIBQuery{Table: bgp.TableSent, Peer: to.name, Family: f})
	return routes
}

func (r *router) awaitUp(peers ...*router) {
	r.t.Helper()
	for _, p := range peers {
		eventually(r.t, func() error {
			if s := r.peer(p.name); s.State != established {
				return fmt.Errorf("session of %s with %s is %s (%s, %s)", r.name, p.name, s.State, s.LastDown, s.LastError)
			}
			return nil
		})
	}
}

// awaitReceived waits until exactly these prefixes stand in r's table from a peer.
func (r *router) awaitReceived(from *router, f bgp.Family, prefixes ...string) {
	r.t.Helper()
	eventually(r.t, func() error {
		if diff := cmp.Diff(prefixes, texts(r.received(from, f)), cmpopts.EquateEmpty()); diff != "" {
			return fmt.Errorf("%s received from %s (-want +got):\n%s", r.name, from.name, diff)
		}
		return nil
	})
}

func texts(routes []bgp.Route) []string {
	var out []string
	for _, r := range routes {
		out = append(out, r.Prefix.String())
	}
	return out
}

func prefixList(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// self is a path with the session's own address as next hop.
func self(prefixes ...string) bgp.Path {
	return bgp.Path{Prefixes: prefixList(prefixes...), Attributes: bgp.Attributes{Origin: "igp", NextHopSelf: true}}
}

// eventually polls until f succeeds: what it waits for happens in another
// process or goroutine that reports nothing.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	eventuallyWithin(t, 30*time.Second, f)
}

func eventuallyWithin(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
