package speaker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/process"
)

// Options configures a Client. Path and Desired are required.
type Options struct {
	Path string   // the program whose child half is Serve: ze itself
	Args []string // what makes it so: "speaker"
	Env  []string // the child's whole environment
	// Desired returns everything the engine must run and announce. It is asked at
	// each start of the child, when calls no longer fail but wait for the start to
	// end. So a caller that changes its state first and calls then loses nothing:
	// Desired returned the change, or the call comes after the start. It must
	// return when ctx ends.
	Desired func(ctx context.Context) (bgp.Config, []bgp.Path, error)
	// Report is told what the engine tells unasked, in order and one at a time; it
	// must not wait for anything. When the child ends, each session it had is
	// reported down. May be nil.
	Report  func(bgp.Report)
	Logger  zerolog.Logger
	Backoff process.Backoff
	Grace   time.Duration // see process.Options

	// Two things are asked of the child all the time, and it is killed when there
	// is no answer: whether its process runs, and whether its BGP engine does,
	// which may take long over a large table.
	PingInterval  time.Duration // default 2 s
	PingTimeout   time.Duration // for the process to answer, twice in a row; default 4 s
	EngineTimeout time.Duration // for the engine to answer; default 20 s
}

// Client runs the BGP engine in a supervised child process. It implements
// bgp.Speaker.
type Client struct {
	o   Options
	sup *process.Supervisor

	mu      sync.Mutex
	phase   Phase
	session *exchange     // while the child runs
	changed chan struct{} // closed and replaced at each change of phase

	watch sync.WaitGroup // what serves the present child
}

// Phase says what happens to a call.
type Phase string

// The phases.
const (
	Down     Phase = "down"     // calls fail with bgp.ErrUnavailable
	Starting Phase = "starting" // calls wait
	Ready    Phase = "ready"    // calls are answered
)

// Status is a snapshot of a Client.
type Status struct {
	Phase   Phase          `json:"phase"`
	Process process.Status `json:"process"`
}

var _ bgp.Speaker = (*Client)(nil)

// New returns a Client whose child is not yet started.
func New(o Options) *Client {
	if o.PingInterval <= 0 {
		o.PingInterval = 2 * time.Second
	}
	if o.PingTimeout <= 0 {
		o.PingTimeout = 4 * time.Second
	}
	if o.EngineTimeout <= 0 {
		o.EngineTimeout = 20 * time.Second
	}
	if o.Report == nil {
		o.Report = func(bgp.Report) {}
	}
	c := &Client{o: o, phase: Down, changed: make(chan struct{})}
	c.sup = process.New(process.Options{
		Name: "speaker", Path: o.Path, Args: o.Args, Env: o.Env,
		Logger: o.Logger, Backoff: o.Backoff, Grace: o.Grace, OnStart: c.onStart,
	})
	return c
}

// Start begins to run the child and returns at once. When ctx ends the child is
// stopped; Stop waits for it.
func (c *Client) Start(ctx context.Context) error { return c.sup.Start(ctx) }

// Stop ends the child, its peers get Cease, and waits for it. When ctx ends
// first the child is killed.
func (c *Client) Stop(ctx context.Context) error {
	err := c.sup.Stop(ctx)
	c.watch.Wait()
	return err
}

// Status returns a snapshot.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Phase: c.phase, Process: c.sup.Status()}
}

// Collectors returns the metrics of the child process.
func (c *Client) Collectors() []prometheus.Collector { return c.sup.Collectors() }

// Apply implements bgp.Speaker.
func (c *Client) Apply(ctx context.Context, cfg bgp.Config) error {
	return c.call(ctx, methodApply, cfg, nil)
}

// Announce implements bgp.Speaker.
func (c *Client) Announce(ctx context.Context, paths []bgp.Path) error {
	return c.call(ctx, methodAnnounce, paths, nil)
}

// Withdraw implements bgp.Speaker.
func (c *Client) Withdraw(ctx context.Context, prefixes []netip.Prefix) error {
	return c.call(ctx, methodWithdraw, prefixes, nil)
}

// Teardown implements bgp.Speaker.
func (c *Client) Teardown(ctx context.Context, peer, reason string) error {
	return c.call(ctx, methodTeardown, teardownParams{peer, reason}, nil)
}

// Peers implements bgp.Speaker. Counters may be some milliseconds old, with a
// million received routes some seconds.
func (c *Client) Peers(ctx context.Context) ([]bgp.PeerStatus, error) {
	var peers []bgp.PeerStatus
	err := c.call(ctx, methodPeers, nil, &peers)
	return peers, err
}

// RIB implements bgp.Speaker.
func (c *Client) RIB(ctx context.Context, q bgp.RIBQuery) ([]bgp.Route, bool, error) {
	var r ribResult
	err := c.call(ctx, methodRIB, q, &r)
	return r.Routes, r.More, err
}

// call waits while the child starts, and fails at once while there is none.
func (c *Client) call(ctx context.Context, m method, params, result any) error {
	for {
		c.mu.Lock()
		phase, session, changed := c.phase, c.session, c.changed
		c.mu.Unlock()
		switch phase {
		case Ready:
			return session.call(ctx, m, params, result)
		case Down:
			return c.unavailable()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: it is still starting: %w", bgp.ErrUnavailable, ctx.Err())
		}
	}
}

func (c *Client) unavailable() error {
	if s := c.sup.Status(); s.LastExit != "" {
		return fmt.Errorf("%w (%s): %s", bgp.ErrUnavailable, s.State, s.LastExit)
	}
	return bgp.ErrUnavailable
}

func (c *Client) enter(p Phase, x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase, c.session = p, x
	close(c.changed)
	c.changed = make(chan struct{})
}

// onStart gives a fresh child its configuration and routes.
func (c *Client) onStart(ctx context.Context, conn *process.Conn) error {
	c.watch.Wait()          // the previous child's goroutines
	up := map[string]bool{} // peers with a session
	x := newExchange(conn.Stdin, func(r bgp.Report) {
		switch r.Kind {
		case bgp.PeerUp:
			up[r.Peer] = true
		case bgp.PeerDown:
			delete(up, r.Peer)
		}
		c.o.Report(r)
	})
	c.enter(Starting, nil)
	started := make(chan struct{})
	c.watch.Go(func() {
		err := x.read(conn.Stdout)
		<-started
		c.enter(Down, nil)
		for _, peer := range slices.Sorted(maps.Keys(up)) {
			c.o.Report(bgp.Report{Kind: bgp.PeerDown, Peer: peer, Reason: "the bgp speaker has ended"})
		}
		if err != nil {
			conn.Kill(err)
		}
	})
	c.watch.Go(func() { x.write(ctx) })
	// Twice: the first may have run out while this process itself was suspended.
	c.watch.Go(func() { c.ping(ctx, x, conn, methodAlive, c.o.PingTimeout, 2) })
	c.watch.Go(func() { c.ping(ctx, x, conn, methodPing, c.o.EngineTimeout, 1) })

	defer close(started)
	cfg, paths, err := c.o.Desired(ctx)
	if err == nil {
		err = x.call(ctx, methodStart, startParams{cfg, paths}, nil)
	}
	if err == nil {
		c.enter(Ready, x)
	}
	return err
}

// ping kills a child that leaves m unanswered so many times in a row.
func (c *Client) ping(ctx context.Context, x *exchange, conn *process.Conn, m method, timeout time.Duration, times int) {
	tick := time.NewTicker(c.o.PingInterval)
	defer tick.Stop()
	for silent := 0; silent < times; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limit, cancel := context.WithTimeout(ctx, timeout)
		err := x.call(limit, m, nil, nil)
		cancel()
		switch {
		case ctx.Err() != nil || x.over():
			return // it has ended, for a reason of its own
		case errors.Is(err, context.DeadlineExceeded):
			silent++
		default:
			silent = 0 // an error is an answer as well
		}
	}
	conn.Kill(fmt.Errorf("no answer to %s within %s", m, time.Duration(times)*timeout))
}
