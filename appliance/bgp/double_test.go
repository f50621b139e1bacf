package bgp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// memStore stands for the database: what is kept goes through JSON, as it does there.
type memStore struct {
	mu     sync.Mutex
	kept   map[string][]byte
	fail   error // returned by the next ReplaceAnnouncements, which then changes nothing
	writes int
}

func (m *memStore) Announcements(context.Context) ([]Announcement, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Announcement
	for _, id := range slices.Sorted(maps.Keys(m.kept)) {
		var a Announcement
		if err := json.Unmarshal(m.kept[id], &a); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b Announcement) int { return a.Created.Compare(b.Created) })
	return list, nil
}

func (m *memStore) ReplaceAnnouncements(_ context.Context, put []Announcement, remove []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail; err != nil {
		m.fail = nil
		return err
	}
	if m.kept == nil {
		m.kept = map[string][]byte{}
	}
	m.writes++
	for _, id := range remove {
		delete(m.kept, id)
	}
	for _, a := range put {
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		m.kept[a.ID] = text
	}
	return nil
}

// route is what engine has for a prefix.
type route struct {
	attributes string // as JSON
	peers      string // as JSON
}

// engine stands for the speaker: it records what it was told. Up or down, it
// can be made to fail, halfway through too, and it forgets everything when it
// goes down, as the child process does.
type engine struct {
	mu      sync.Mutex
	up      bool
	cfg     Config
	routes  map[netip.Prefix]route
	fail    []error // returned by the next calls of Apply, Announce and Withdraw, nil entries pass
	halfway bool    // a failing Announce installs its first path all the same
	calls   int

	peers    func(context.Context) ([]PeerStatus, error)
	rib      func(RIBQuery) ([]Route, bool, error)
	teardown func(peer, reason string) error
}

func (e *engine) next() error {
	e.calls++
	if !e.up {
		return ErrUnavailable
	}
	if len(e.fail) == 0 {
		return nil
	}
	err := e.fail[0]
	e.fail = e.fail[1:]
	return err
}

func (e *engine) Apply(_ context.Context, cfg Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.next(); err != nil {
		return err
	}
	e.cfg = cfg
	return nil
}

func (e *engine) Announce(_ context.Context, paths []Path) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.next()
	if err != nil && e.halfway && e.up {
		e.install(paths[:1])
	}
	if err == nil {
		e.install(paths)
	}
	return err
}

func (e *engine) install(paths []Path) {
	for _, path := range paths {
		attributes, _ := json.Marshal(path.Attributes)
		peers, _ := json.Marshal(path.Peers)
		for _, p := range path.Prefixes {
			e.routes[p] = route{string(attributes), string(peers)}
		}
	}
}

func (e *engine) Withdraw(_ context.Context, prefixes []netip.Prefix) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.next(); err != nil {
		return err
	}
	for _, p := range prefixes {
		delete(e.routes, p)
	}
	return nil
}

func (e *engine) Peers(ctx context.Context) ([]PeerStatus, error) {
	if e.peers != nil {
		return e.peers(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.up {
		return nil, ErrUnavailable
	}
	list := make([]PeerStatus, len(e.cfg.Peers))
	for i, p := range e.cfg.Peers {
		list[i] = PeerStatus{Name: p.Name, Address: p.Remote.IP, AS: p.Remote.AS, State: "established", Admin: "enabled"}
	}
	return list, nil
}

func (e *engine) RIB(_ context.Context, q RIBQuery) ([]Route, bool, error) { return e.rib(q) }

func (e *engine) Teardown(_ context.Context, peer, reason string) error {
	return e.teardown(peer, reason)
}

// goDown and comeUp are the death and the start of the child process. While it
// comes up no call is answered, and what it starts with is asked for meanwhile,
// as the real one does.
func (e *engine) goDown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up, e.cfg, e.routes = false, Config{}, nil
}

func (e *engine) comeUp(ctx context.Context, s *Service) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	cfg, paths, err := s.Desired(ctx)
	if err != nil {
		return err
	}
	e.up, e.cfg, e.routes = true, cfg, map[netip.Prefix]route{}
	e.install(paths)
	return nil
}

// refuse makes the next calls of Apply, Announce and Withdraw fail.
func (e *engine) refuse(errs ...error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = errs
}

func (e *engine) running() Config {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg
}

func (e *engine) prefixes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []string{}
	for _, p := range slices.SortedFunc(maps.Keys(e.routes), netip.Prefix.Compare) {
		list = append(list, p.String())
	}
	return list
}

// room is a service with its doubles.
type room struct {
	*Service
	store  *memStore
	engine *engine
}

// newRoom returns a started service that runs testConfig, the speaker up.
func newRoom(t *testing.T, change ...func(*Options)) *room {
	t.Helper()
	r := &room{store: &memStore{}, engine: &engine{}}
	o := Options{Store: r.store, Speaker: r.engine, Logger: zerolog.Nop()}
	for _, f := range change {
		f(&o)
	}
	s, err := NewService(o)
	if err != nil {
		t.Fatal(err)
	}
	r.Service = s
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Configure(t.Context(), testConfig()); err != nil {
		t.Fatal(err)
	}
	if err := r.engine.comeUp(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return r
}

// testConfig has north over IPv4 with both families, south over IPv4 with one,
// and west over IPv6.
func testConfig() *Config {
	c := &Config{
		RouterID: netip.MustParseAddr("192.0.2.7"),
		Local:    LocalConfig{AS: 64512},
		Listen:   ListenConfig{IP: netip.MustParseAddr("127.0.0.1"), Port: 1790},
		Peers: []PeerConfig{
			{Name: "north", Remote: RemoteConfig{IP: netip.MustParseAddr("127.0.0.2"), Port: 1790, AS: 64999},
				Families: []FamilyConfig{{Name: IPv4Unicast, PrefixLimit: 10000}, {Name: IPv6Unicast}}},
			{Name: "south", Remote: RemoteConfig{IP: netip.MustParseAddr("127.0.0.3"), AS: 64998}},
			{Name: "west", Remote: RemoteConfig{IP: netip.MustParseAddr("2001:db8::1"), AS: 64997}},
		},
	}
	c.SetDefaults()
	return c
}

// fieldError asserts that err is a complete error of one kind about field.
func fieldError(t *testing.T, err error, field string, kind error) *FieldError {
	t.Helper()
	var fe *FieldError
	if !errors.As(err, &fe) {
		t.Fatalf("got %v, want an error about %s", err, field)
	}
	if fe.Field != field || !errors.Is(err, kind) || fe.Problem == "" || fe.Allowed == "" {
		t.Fatalf("got %#v (%v), want field %s, kind %v", fe, fe, field, kind)
	}
	return fe
}
