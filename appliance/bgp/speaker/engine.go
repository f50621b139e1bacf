package speaker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	gobgp "github.com/osrg/gobgp/v4/pkg/server"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/bgp"
)

// sliceSize bounds the prefixes of one library call. A call holds the library's
// lock for its whole length; of this size it does so for some milliseconds.
const sliceSize = 1000

// engine is one BGP server and what was asked of it. start, apply, announce,
// withdraw, teardown, renewLost and stop are called one at a time; the others at
// any time.
type engine struct {
	log      zerolog.Logger
	sessions *sessions

	// The one caller of changes writes these, with mu held, and reads them
	// without. mu is never held during a call of the library: some take seconds.
	mu     sync.RWMutex
	server *gobgp.BgpServer // nil: none
	ready  bool             // the server is complete: queries may see it
	cfg    bgp.Config
	routes *routes

	recent recent // of the one caller of changes

	end   context.CancelFunc // ends what watches the server
	watch sync.WaitGroup

	listMu sync.Mutex
	list   peerList
}

func newEngine(log zerolog.Logger) *engine {
	return &engine{log: log, sessions: newSessions(), routes: newRoutes()}
}

var errNotStarted = fmt.Errorf("%w: the engine has no configuration", bgp.ErrUnavailable)

// start runs cfg with paths installed before any peer is added, so that the
// first update to each peer is complete.
func (e *engine) start(ctx context.Context, cfg bgp.Config, paths []bgp.Path) error {
	if e.server != nil {
		return errors.New("start the bgp engine: it runs already")
	}
	return e.launch(ctx, cfg, paths)
}

func (e *engine) launch(ctx context.Context, cfg bgp.Config, paths []bgp.Path) error {
	s := gobgp.NewBgpServer(gobgp.LoggerOption(newLogger(e.log, e.sessions), nil))
	go s.Serve() // StartBgp would wait for it for ever; Stop ends it
	watching, end := context.WithCancel(context.Background())
	e.mu.Lock()
	e.server, e.routes, e.cfg, e.end = s, newRoutes(), cfg, end
	e.cfg.Peers = nil
	e.mu.Unlock()
	for _, step := range []func() error{
		func() error { return s.StartBgp(ctx, &api.StartBgpRequest{Global: global(&cfg)}) },
		func() error {
			watch := gobgp.WatchEventMessageCallbacks{OnPeerUpdate: e.sessions.update, OnPathUpdate: e.sessions.received}
			return s.WatchEvent(watching, watch, gobgp.WatchPeer(), gobgp.WatchUpdate(false, "", ""))
		},
		func() error { return s.SetPolicies(ctx, exportPolicies(nil, e.routes)) },
		func() error { return s.SetPolicyAssignment(ctx, assignment()) },
		func() error { return e.announce(ctx, paths) },
		func() error { e.recent = recent{}; return nil }, // no peer can have missed these
		func() error { return e.setPeers(ctx, cfg.Peers) },
	} {
		if err := step(); err != nil {
			e.stop()
			return fmt.Errorf("start bgp: %w", err)
		}
	}
	e.watch.Go(func() { e.enforceLimits(watching, s) })
	e.mu.Lock()
	e.ready = true
	e.mu.Unlock()
	return nil
}

// stop ends the BGP server, if there is one; its peers get Cease.
func (e *engine) stop() {
	if e.server == nil {
		return
	}
	e.end()
	e.watch.Wait()
	e.server.Stop()
	e.mu.Lock()
	e.server, e.ready = nil, false
	e.mu.Unlock()
	e.sessions.keep(nil)
}

// apply makes the running server follow cfg. What identifies the server itself
// can only be changed by a new one; peers that do not differ keep their session.
func (e *engine) apply(ctx context.Context, cfg bgp.Config) error {
	if e.server == nil {
		return errNotStarted
	}
	if cfg.RouterID != e.cfg.RouterID || cfg.Local != e.cfg.Local || cfg.Listen != e.cfg.Listen {
		paths := e.routes.paths()
		e.stop()
		return e.launch(ctx, cfg, paths)
	}
	if err := e.setPeers(ctx, cfg.Peers); err != nil {
		return fmt.Errorf("apply the bgp configuration: %w", err)
	}
	return nil
}

// setPeers replaces the peers. A peer is changed by deleting and adding it: the
// library applies some changes to a running session silently not at all.
func (e *engine) setPeers(ctx context.Context, peers []bgp.PeerConfig) error {
	same := func(a bgp.PeerConfig) func(bgp.PeerConfig) bool {
		return func(b bgp.PeerConfig) bool {
			a.Description, b.Description = "", ""
			return reflect.DeepEqual(a, b)
		}
	}
	running := slices.Clone(e.cfg.Peers)
	defer func() { // after a failure as well: the next attempt starts from the truth
		e.mu.Lock()
		e.cfg.Peers = running
		e.mu.Unlock()
		e.forgetPeers()
	}()
	for _, old := range e.cfg.Peers {
		if slices.ContainsFunc(peers, same(old)) {
			continue
		}
		if err := e.server.DeletePeer(ctx, &api.DeletePeerRequest{Address: old.Remote.IP.String()}); err != nil {
			return fmt.Errorf("remove peer %s: %w", old.Name, err)
		}
		running = slices.DeleteFunc(running, same(old))
	}
	kept := slices.Clone(running)
	e.sessions.keep(kept)
	if err := e.server.SetPolicies(ctx, exportPolicies(peers, e.routes)); err != nil {
		return fmt.Errorf("set the export policy: %w", err)
	}
	for _, p := range peers {
		if slices.ContainsFunc(kept, same(p)) {
			continue
		}
		e.sessions.add(p.Remote.IP, p.Name)
		if err := e.server.AddPeer(ctx, &api.AddPeerRequest{Peer: peer(&e.cfg, &p)}); err != nil {
			return fmt.Errorf("add peer %s: %w", p.Name, err)
		}
		running = append(running, p)
	}
	running = slices.Clone(peers)
	return nil
}

// announce installs paths. Everything that can be wrong with them is found
// before the first change.
func (e *engine) announce(ctx context.Context, paths []bgp.Path) error {
	if e.server == nil {
		return errNotStarted
	}
	encoded := make([][]packet.PathAttributeInterface, len(paths))
	for i := range paths {
		var err error
		if encoded[i], err = encode(&paths[i].Attributes); err != nil {
			return fmt.Errorf("announce: %w", err)
		}
	}
	e.recent.mark(time.Now())
	defer func() { e.recent.mark(time.Now()) }()
	var batch []*apiutil.Path
	var owners []*announcement
	refresh := map[netip.Addr]bool{}
	flush := func() error {
		defer func() { batch, owners = batch[:0], owners[:0] }()
		return e.put(ctx, batch, owners, refresh)
	}
	for i := range paths {
		a := &announcement{attributes: paths[i].Attributes, peers: paths[i].Peers}
		for _, p := range paths[i].Prefixes {
			path, err := libraryPath(p, a, encoded[i])
			if err != nil {
				return fmt.Errorf("announce %s: %w", p, err)
			}
			batch, owners = append(batch, path), append(owners, a)
			if len(batch) == sliceSize {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	for address := range refresh {
		err := e.server.ResetPeer(ctx, &api.ResetPeerRequest{
			Address: address.String(), Soft: true, Direction: api.ResetPeerRequest_DIRECTION_OUT,
		})
		if err != nil {
			return fmt.Errorf("send the routes to %s again: %w", address, err)
		}
	}
	return nil
}

// put installs one slice and notes the peers for which a prefix that was there
// before became permitted or forbidden.
func (e *engine) put(ctx context.Context, batch []*apiutil.Path, owners []*announcement, refresh map[netip.Addr]bool) error {
	if len(batch) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	e.renewIfLost(ctx)
	var change setChange
	e.mu.Lock()
	for i, path := range batch {
		p := prefixOf(path.Nlri)
		f := bgp.FamilyOf(p.Addr())
		old := e.routes.byPrefix[p]
		change.move(p, membership(old, f, e.cfg.Peers), membership(owners[i], f, e.cfg.Peers))
		for j := range e.cfg.Peers {
			peer := &e.cfg.Peers[j]
			if old != nil && permits(old, f, peer) != permits(owners[i], f, peer) {
				refresh[peer.Remote.IP] = true
			}
		}
		// From here on the sets hold the new restriction; a failure below leaves
		// the old route in place under it, and announcing again repairs that.
		e.routes.set(p, owners[i])
	}
	e.mu.Unlock()
	if err := e.changeSets(ctx, &change); err != nil {
		return err
	}
	if _, err := e.server.AddPath(apiutil.AddPathRequest{Paths: batch}); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}

func (e *engine) withdraw(ctx context.Context, prefixes []netip.Prefix) error {
	if e.server == nil {
		return errNotStarted
	}
	e.recent.mark(time.Now())
	defer func() { e.recent.mark(time.Now()) }()
	for some := range slices.Chunk(prefixes, sliceSize) {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.renewIfLost(ctx)
		var batch []*apiutil.Path
		var change setChange
		for _, p := range some {
			a := e.routes.byPrefix[p]
			if a == nil {
				continue
			}
			path, err := libraryPath(p, a, nil)
			if err != nil {
				return fmt.Errorf("withdraw %s: %w", p, err)
			}
			path.Withdrawal = true // otherwise the library asks for a next hop
			batch = append(batch, path)
			e.recent.withdrew(p, time.Now())
			change.move(p, membership(a, bgp.FamilyOf(p.Addr()), e.cfg.Peers), nil)
			e.mu.Lock()
			e.routes.drop(p)
			e.mu.Unlock()
		}
		if len(batch) == 0 {
			continue
		}
		if err := e.server.DeletePath(apiutil.DeletePathRequest{Paths: batch}); err != nil {
			return fmt.Errorf("withdraw: %w", err)
		}
		if err := e.changeSets(ctx, &change); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) teardown(ctx context.Context, name, reason string) error {
	if e.server == nil {
		return errNotStarted
	}
	p := e.peer(name)
	if p == nil {
		return unknownPeer(name)
	}
	if s := e.sessions.get(p.Remote.IP); s.state != established {
		known, err := e.listPeers(ctx, e.server)
		if err != nil {
			return err
		}
		if adminState(known[p.Remote.IP].Peer, s) == adminPrefixLimit {
			return e.renew(ctx, p, true)
		}
		return fmt.Errorf("%w: peer %s has no session to tear down; it is %s", bgp.ErrState, name, s.state)
	}
	// An empty address would mean every peer.
	err := e.server.ResetPeer(ctx, &api.ResetPeerRequest{Address: p.Remote.IP.String(), Communication: reason})
	if err != nil {
		return fmt.Errorf("tear down peer %s: %w", name, err)
	}
	e.forgetPeers()
	return nil
}

// ping returns when the library's management loop has answered.
func (e *engine) ping(ctx context.Context) error {
	e.mu.RLock()
	s := e.server
	e.mu.RUnlock()
	if s == nil {
		return nil
	}
	_, err := s.GetBgp(ctx, &api.GetBgpRequest{})
	return err
}

// peer returns the configuration of a peer, nil if there is none of that name.
func (e *engine) peer(name string) *bgp.PeerConfig {
	for i := range e.cfg.Peers {
		if e.cfg.Peers[i].Name == name {
			return &e.cfg.Peers[i]
		}
	}
	return nil
}

func libraryPath(p netip.Prefix, a *announcement, encoded []packet.PathAttributeInterface) (*apiutil.Path, error) {
	nlri, err := packet.NewIPAddrPrefix(p)
	if err != nil {
		return nil, err
	}
	hop, err := nextHop(&a.attributes, p, nlri)
	if err != nil {
		return nil, err
	}
	return &apiutil.Path{
		Family: packetFamily(bgp.FamilyOf(p.Addr())), Nlri: nlri, Age: time.Now().Unix(),
		Attrs: append(slices.Clip(encoded), hop),
	}, nil
}

// paths returns all announcements in the form announce takes them.
func (r *routes) paths() []bgp.Path {
	index := map[*announcement]int{}
	var out []bgp.Path
	for _, f := range []bgp.Family{bgp.IPv4Unicast, bgp.IPv6Unicast} {
		for _, p := range r.inOrder(f) {
			a := r.byPrefix[p]
			i, seen := index[a]
			if !seen {
				i = len(out)
				index[a] = i
				out = append(out, bgp.Path{Attributes: a.attributes, Peers: a.peers})
			}
			out[i].Prefixes = append(out[i].Prefixes, p)
		}
	}
	return out
}
