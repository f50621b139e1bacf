package speaker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/process"
)

// desired stands for the service that keeps announcements: Desired returns them.
type desired struct {
	mu    sync.Mutex
	cfg   bgp.Config
	paths []bgp.Path
	asked chan struct{} // if not nil: told of each question, which then waits
	err   error
}

func (d *desired) get(ctx context.Context) (bgp.Config, []bgp.Path, error) {
	if d.asked != nil {
		select {
		case d.asked <- struct{}{}:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg, d.paths, d.err
}

// startClient runs the test binary as the child.
func startClient(t *testing.T, d *desired, change func(*Options)) *Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Path: self, Env: []string{childMark + "=1"}, Desired: d.get,
		Logger: zerolog.New(zerolog.NewTestWriter(t)),
	}
	if change != nil {
		change(&o)
	}
	c := New(o)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

func awaitPhase(t *testing.T, c *Client, p Phase) {
	t.Helper()
	eventually(t, func() error {
		if s := c.Status(); s.Phase != p {
			return fmt.Errorf("status = %+v, want %s", s, p)
		}
		return nil
	})
}

// gone reports whether a process has ended and was reaped.
func gone(pid int) error {
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d is still there: %v", pid, err)
	}
	return nil
}

func TestClientSurvivesItsChild(t *testing.T) {
	b := newRouter(t, "b", "127.0.0.2", 64513)
	local := freePort(t, "127.0.0.1")
	a := &router{name: "a", addr: local, as: 64512} // what b sees of the client
	b.run(b.config(a))
	d := &desired{cfg: configure(local, 64512, b), paths: []bgp.Path{self("10.1.0.0/24")}}
	// With a ping always on its way, the child's own end must stay the reason.
	reports := make(chan bgp.Report, 100)
	c := startClient(t, d, func(o *Options) {
		o.PingInterval = time.Millisecond
		o.Report = func(r bgp.Report) { reports <- r }
	})
	awaitPhase(t, c, Ready)
	if err := c.Announce(t.Context(), []bgp.Path{self("10.2.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	b.awaitReceived(a, bgp.IPv4Unicast, "10.1.0.0/24", "10.2.0.0/24")
	peers, err := c.Peers(t.Context())
	if err != nil || len(peers) != 1 || peers[0].Name != "b" || peers[0].State != established {
		t.Fatalf("Peers = %+v, %v", peers, err)
	}
	routes, more, err := c.RIB(t.Context(), bgp.RIBQuery{Table: bgp.TableSent, Peer: "b", Family: bgp.IPv4Unicast, Limit: 1})
	if err != nil || !more || len(routes) != 1 || routes[0].Prefix.String() != "10.1.0.0/24" {
		t.Fatalf("RIB = %+v, %v, %v", routes, more, err)
	}

	d.mu.Lock()
	d.paths = []bgp.Path{self("10.1.0.0/24", "10.2.0.0/24")}
	d.mu.Unlock()
	first := c.Status().Process.PID
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventuallyWithin(t, 5*time.Second, func() error {
		if got := b.received(a, bgp.IPv4Unicast); len(got) > 0 {
			return errors.New("the peer still has the routes")
		}
		return nil
	})
	eventuallyWithin(t, 10*time.Second, func() error {
		if got := b.received(a, bgp.IPv4Unicast); len(got) != 2 {
			return fmt.Errorf("the peer has %v", texts(got))
		}
		return nil
	})
	t.Logf("announcements were back after %s", time.Since(began).Round(time.Millisecond))
	s := c.Status().Process
	if s.Restarts != 1 || s.PID == first || s.LastExit != "speaker ended: signal: killed" {
		t.Errorf("status = %+v, want one restart after a kill", s)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Error(err)
	}
	close(reports)
	var kinds []bgp.ReportKind
	for r := range reports {
		if r.Kind != bgp.RoutesChanged {
			kinds = append(kinds, r.Kind)
		}
	}
	if want := []bgp.ReportKind{bgp.PeerUp, bgp.PeerDown, bgp.PeerUp, bgp.PeerDown}; !slices.Equal(kinds, want) {
		t.Errorf("reports %v, want %v: a session ends with the child", kinds, want)
	}
	for _, pid := range []int{first, s.PID} {
		if err := gone(pid); err != nil {
			t.Error(err)
		}
	}
	if err := c.Announce(t.Context(), nil); !errors.Is(err, bgp.ErrUnavailable) {
		t.Errorf("announce after stop: %v, want ErrUnavailable", err)
	}
}

func TestCallsWaitWhileStarting(t *testing.T) {
	local := freePort(t, "127.0.0.1")
	d := &desired{cfg: configure(local, 64512), asked: make(chan struct{})}
	c := startClient(t, d, nil)
	awaitPhase(t, c, Starting) // Desired is now waiting to be let go
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Peers(short); !errors.Is(err, bgp.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call bounded by its context: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Announce(t.Context(), []bgp.Path{self("10.1.0.0/24")}) }()
	<-d.asked
	if err := <-done; err != nil {
		t.Fatalf("the waiting call failed: %v", err)
	}
	routes, _, err := c.RIB(t.Context(), bgp.RIBQuery{Table: bgp.TableBest, Family: bgp.IPv4Unicast, Limit: 10})
	if err != nil || len(routes) != 1 {
		t.Errorf("best = %v, %v, want the announced route", routes, err)
	}
}

func TestDownFailsAtOnce(t *testing.T) {
	d := &desired{err: errors.New("the store is closed")}
	c := startClient(t, d, func(o *Options) { o.Backoff = process.Backoff{Min: time.Hour, Max: time.Hour} })
	eventually(t, func() error {
		if s := c.Status(); s.Process.State != process.BackingOff {
			return fmt.Errorf("status = %+v", s)
		}
		return nil
	})
	err := c.Withdraw(t.Context(), nil)
	if !errors.Is(err, bgp.ErrUnavailable) || !strings.Contains(err.Error(), "the store is closed") {
		t.Errorf("a call while down: %v, want ErrUnavailable and the reason", err)
	}
}

func TestListenPortTaken(t *testing.T) {
	l := newRouter(t, "l", "127.0.0.1", 64599)
	l.run(l.config())
	d := &desired{cfg: configure(l.addr, 64512)}
	c := startClient(t, d, nil)
	eventually(t, func() error {
		if s := c.Status(); !strings.Contains(s.Process.LastExit, "address already in use") {
			return fmt.Errorf("status = %+v, want the taken address", s)
		}
		return nil
	})
}

func TestHungChildIsReplaced(t *testing.T) {
	d := &desired{cfg: configure(freePort(t, "127.0.0.1"), 64512)}
	c := startClient(t, d, func(o *Options) {
		o.PingInterval, o.PingTimeout = 50*time.Millisecond, time.Second
	})
	awaitPhase(t, c, Ready)
	first := c.Status().Process.PID
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := c.Peers(t.Context())
	for err == nil { // its threads stop one by one
		_, err = c.Peers(t.Context())
	}
	if !errors.Is(err, bgp.ErrUnavailable) {
		t.Errorf("a call in flight: %v, want ErrUnavailable", err)
	}
	eventually(t, func() error {
		if s := c.Status(); s.Phase != Ready || s.Process.PID == first {
			return fmt.Errorf("status = %+v, want a new child", s)
		}
		return nil
	})
	if err := gone(first); err != nil {
		t.Error(err)
	}
}
