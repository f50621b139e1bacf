package bgp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// DefaultMaxPrefixes is the supported size of what one ze announces.
	DefaultMaxPrefixes = 100_000

	workTimeout   = 30 * time.Second // for the speaker to carry out a change or read a table
	readTimeout   = 5 * time.Second  // for the speaker to answer anything else
	retryInterval = 10 * time.Second // between attempts to repeat what failed
)

// Options are what a Service needs. Store and Speaker are required.
type Options struct {
	Store       Store
	Speaker     Speaker
	Clock       func() time.Time // default time.Now
	Rand        io.Reader        // identities are drawn from it; default crypto/rand
	Logger      zerolog.Logger
	MaxPrefixes int // in one call and in total; default DefaultMaxPrefixes
}

// Service is the BGP room: configuration, announcements and their lifetime. The
// store is the truth, the speaker follows it: each change is durable before the
// speaker hears of it, and what the speaker refuses is undone.
//
// Lock order: change before mu. change is held across calls of the store and
// the speaker; mu never is.
type Service struct {
	o       Options
	metrics *metrics

	change chan struct{} // held by the one changing call; a channel, so that waiting ends with the caller's context
	wake   chan struct{} // tells the loop that there is a new end of a lifetime, or something to repeat

	mu        sync.RWMutex
	started   bool
	stop      context.CancelFunc       // ends the loop
	done      chan struct{}            // closed when the loop has ended
	cfg       *Config                  // nil: no bgp block. Never modified, only replaced
	held      map[string]*Announcement // by id, as the store has them; values are never modified
	owner     map[netip.Prefix]string  // which announcement a prefix belongs to
	unsettled map[netip.Prefix]bool    // where the speaker may differ from the store
	unapplied bool                     // the speaker may run another configuration than cfg
}

// NewService returns a service that has loaded nothing yet.
func NewService(o Options) (*Service, error) {
	if o.Store == nil || o.Speaker == nil {
		return nil, errors.New("bgp: a service needs a store and a speaker")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.MaxPrefixes == 0 {
		o.MaxPrefixes = DefaultMaxPrefixes
	}
	s := &Service{
		o:         o,
		change:    make(chan struct{}, 1),
		wake:      make(chan struct{}, 1),
		held:      map[string]*Announcement{},
		owner:     map[netip.Prefix]string{},
		unsettled: map[netip.Prefix]bool{},
	}
	s.metrics = newMetrics(s)
	return s, nil
}

// Start loads the announcements, withdraws those whose lifetime ended while
// nobody watched, and begins to watch the others.
func (s *Service) Start(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	kept, err := s.o.Store.Announcements(ctx)
	if err != nil {
		return fmt.Errorf("load announcements: %w", err)
	}
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return fmt.Errorf("start bgp service a second time: %w", ErrState)
	}
	s.started = true
	for i := range kept {
		slices.SortFunc(kept[i].Prefixes, netip.Prefix.Compare) // what edit.lose relies on
		s.hold(&kept[i])
	}
	s.mu.Unlock()
	if err := s.expire(ctx); err != nil {
		s.forget()
		return fmt.Errorf("withdraw expired announcements: %w", err)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	s.mu.Lock()
	s.stop, s.done = stop, done
	s.mu.Unlock()
	go s.watch(run, done)
	return nil
}

// Stop ends what Start began and waits for it. Announcements stay: in the
// store, and at the speaker as long as that runs.
func (s *Service) Stop() {
	s.mu.RLock()
	stop, done := s.stop, s.done
	s.mu.RUnlock()
	if stop == nil {
		return
	}
	stop()
	<-done
	s.change <- struct{}{}
	defer s.unlock()
	s.forget()
}

// forget puts the service back to where NewService left it, but for the configuration.
func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = false
	clear(s.held)
	clear(s.owner)
	clear(s.unsettled)
	s.unapplied = false
}

func (s *Service) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.change <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Service) unlock() { <-s.change }

// lockRunning takes the change lock of a started service.
func (s *Service) lockRunning(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.started {
		s.unlock()
		return fmt.Errorf("the bgp service is not started: %w", ErrState)
	}
	return nil
}

// config returns the running configuration, which must not be modified.
func (s *Service) config() (*Config, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cfg == nil {
		return nil, fmt.Errorf("no bgp block is configured: %w", ErrState)
	}
	return s.cfg, nil
}

// Configure makes cfg the running configuration; nil stands for no bgp block.
// Defaults are filled in, then everything is checked before anything changes
// (see Config.Validate for the errors). A speaker that does not run now takes
// the configuration with Desired when it starts; one that refuses it leaves the
// old configuration in force.
func (s *Service) Configure(ctx context.Context, cfg *Config) error {
	if cfg != nil {
		cfg = cfg.clone()
		cfg.SetDefaults()
		if err := cfg.Validate(); err != nil {
			return err
		}
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	// From here on the change is carried through, whatever becomes of the caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	old := s.swap(cfg)
	if cfg == nil {
		return nil
	}
	moved := s.moved(old, cfg)
	// A new peer must find no route it cannot take, so routes move first.
	err := s.settle(ctx, moved)
	if err == nil {
		err = s.apply(ctx, cfg)
	}
	if available(err) == nil {
		return nil
	}
	s.swap(old)
	undo, cancelUndo := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancelUndo()
	if old != nil {
		err = errors.Join(err, available(s.apply(undo, old)), available(s.settle(undo, moved)))
	}
	return fmt.Errorf("apply bgp configuration, the one before stays: %w", err)
}

// apply hands cfg to the speaker, and remembers a failure for the loop.
func (s *Service) apply(ctx context.Context, cfg *Config) error {
	err := s.o.Speaker.Apply(ctx, *cfg.clone())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unapplied = missed(err)
	return err
}

func (s *Service) swap(cfg *Config) (old *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.cfg = s.cfg, cfg
	if cfg == nil {
		s.unapplied = false
	}
	return old
}

// moved returns the prefixes that go elsewhere under one configuration than under the other.
func (s *Service) moved(from, to *Config) []netip.Prefix {
	if from == nil || to == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var prefixes []netip.Prefix
	for _, a := range s.held {
		for _, f := range familiesOf(a.Prefixes) {
			if from.reach(f, a).equal(to.reach(f, a)) {
				continue
			}
			for _, p := range a.Prefixes {
				if FamilyOf(p.Addr()) == f {
					prefixes = append(prefixes, p)
				}
			}
		}
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	return prefixes
}

// available hides that the speaker is not running, where that settles itself.
func available(err error) error {
	if errors.Is(err, ErrUnavailable) {
		return nil
	}
	return err
}

// missed reports whether err leaves open what the speaker has. A speaker that
// does not run starts from Desired; one that was too long in starting may have
// asked for that before the change.
func missed(err error) bool {
	return available(err) != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Desired returns what a speaker that has just started is to run: the
// configuration, and the paths as the store has them. It takes no lock that is
// held while the speaker is called.
func (s *Service) Desired(ctx context.Context) (Config, []Path, error) {
	cfg, err := s.config()
	if err != nil {
		return Config{}, nil, err
	}
	kept, err := s.o.Store.Announcements(ctx)
	if err != nil {
		return Config{}, nil, fmt.Errorf("load announcements: %w", err)
	}
	now := s.o.Clock()
	var paths []Path
	for i := range kept {
		if !kept[i].expired(now) {
			own, _ := cfg.paths(&kept[i], kept[i].Prefixes)
			paths = append(paths, own...)
		}
	}
	return *cfg.clone(), paths, nil
}

// Collectors returns the metrics of this room.
func (s *Service) Collectors() []prometheus.Collector { return []prometheus.Collector{s.metrics} }

// Config returns the running configuration, which must not be modified; nil
// means that there is no bgp block.
func (s *Service) Config() *Config {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.cfg
}
