package bgp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"
)

// world is a service, its doubles, and a model of what should be: which
// announcement owns each prefix, nothing more.
type world struct {
	ctx    context.Context
	s      *Service
	store  *memStore
	engine *engine
	cfg    *Config
	now    atomic.Int64 // seconds

	owner map[string]string       // prefix to id
	calls map[string]Announcement // what was asked for, by id; Prefixes unused
}

var pool = []string{
	"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.3.0.0/24", "192.0.2.1/32",
	"2001:db8:1::/48", "2001:db8:2::/48", "2001:db8::1/128",
}

func (w *world) clock() time.Time { return time.Unix(w.now.Load(), 0) }

func (w *world) start(t *rapid.T) {
	s, err := NewService(Options{Store: w.store, Speaker: w.engine, Clock: w.clock, Logger: zerolog.Nop()})
	if err == nil {
		w.s = s
		err = errors.Join(s.Configure(w.ctx, w.cfg), s.Start(w.ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) comeUp(t *rapid.T) {
	if err := w.engine.comeUp(w.ctx, w.s); err != nil {
		t.Fatal(err)
	}
}

// expire is the model's clock.
func (w *world) expire() {
	for id, a := range w.calls {
		if !a.Expires.IsZero() && !w.clock().Before(a.Expires) {
			w.drop(id)
		}
	}
}

func (w *world) drop(id string) {
	maps.DeleteFunc(w.owner, func(_, owner string) bool { return owner == id })
	delete(w.calls, id)
}

// prune forgets announcements that own nothing.
func (w *world) prune() {
	owners := map[string]bool{}
	for _, id := range w.owner {
		owners[id] = true
	}
	maps.DeleteFunc(w.calls, func(id string, _ Announcement) bool { return !owners[id] })
}

func (w *world) announce(t *rapid.T) {
	r := AnnounceRequest{
		Prefixes: rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, 5, rapid.ID).Draw(t, "prefixes"),
		Origin:   rapid.SampledFrom([]string{"igp", "egp"}).Draw(t, "origin"),
		Peers:    rapid.SliceOfNDistinct(rapid.SampledFrom(w.cfg.peerNames()), 0, 2, rapid.ID).Draw(t, "peers"),
		TagKey:   rapid.SampledFrom([]string{"", "ticket", "job"}).Draw(t, "tag"),
		For:      rapid.SampledFrom([]string{"", "", "10s", "1m", "2h"}).Draw(t, "for"),
	}
	res, err := w.s.Announce(w.ctx, r)
	var fe *FieldError
	if errors.As(err, &fe) && (fe.Field == "next-hop" || fe.Field == "peer[0]" || fe.Field == "peer[1]") {
		return // drawn for peers that cannot take it: refused, and nothing may have changed
	}
	if err != nil {
		t.Fatal(err)
	}
	w.check(t, r, res)
	a := Announcement{Attributes: Attributes{Origin: r.Origin}, Peers: slices.Sorted(slices.Values(r.Peers)), TagKey: r.TagKey}
	if r.For != "" {
		lifetime, _ := parseLifetime(r.For)
		a.Expires = w.clock().Add(lifetime)
	}
	w.calls[res.ID] = a
	for _, p := range r.Prefixes {
		w.owner[p] = res.ID
	}
}

// check compares the counts of an answer with the model before it follows.
func (w *world) check(t *rapid.T, r AnnounceRequest, res AnnounceResult) {
	want := AnnounceResult{Announced: len(r.Prefixes), TakenOver: []TakenOver{}, Pending: !w.engine.up}
	taken := map[string]int{}
	for _, p := range r.Prefixes {
		if id := w.owner[p]; id != "" {
			taken[id]++
			if w.calls[id].Attributes.Origin == r.Origin && slices.Equal(w.calls[id].Peers, slices.Sorted(slices.Values(r.Peers))) {
				want.Unchanged++
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		want.TakenOver = append(want.TakenOver, TakenOver{id, taken[id]})
	}
	want.ID, want.Expires, want.Peers, want.NotSentTo = res.ID, res.Expires, res.Peers, res.NotSentTo
	if diff := cmp.Diff(want, res); diff != "" {
		t.Fatal(diff)
	}
}

func (w *world) withdraw(t *rapid.T) {
	var r WithdrawRequest
	var gone func(prefix, id string) bool
	switch ids := slices.Sorted(maps.Keys(w.calls)); rapid.IntRange(0, 9).Draw(t, "by") {
	case 0:
		r.All = true
		gone = func(string, string) bool { return true }
	case 1, 2:
		r.TagKey = rapid.SampledFrom([]string{"ticket", "job"}).Draw(t, "tag")
		gone = func(_, id string) bool { return w.calls[id].TagKey == r.TagKey }
	case 3, 4, 5:
		r.ID = rapid.SampledFrom(append(ids, "unknown")).Draw(t, "id")
		gone = func(_, id string) bool { return id == r.ID }
	default:
		r.Prefixes = rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 1, 3, rapid.ID).Draw(t, "prefixes")
		gone = func(p, _ string) bool { return slices.Contains(r.Prefixes, p) }
	}
	left := maps.Clone(w.owner)
	maps.DeleteFunc(left, gone)
	n := len(w.owner) - len(left)
	res, err := w.s.Withdraw(w.ctx, r)
	if !r.All && (n == 0 || n < len(r.Prefixes)) {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("%+v: got %+v, %v, want not found", r, res, err)
		}
		return
	}
	if err != nil || res.Withdrawn != n || res.Pending != (!w.engine.up && n > 0) {
		t.Fatalf("%+v: got %+v, %v, want %d", r, res, err, n)
	}
	w.owner = left
}

// agree compares the service and, if it runs, the speaker with the model.
func (w *world) agree(t *rapid.T) {
	list, err := w.s.Announcements(w.ctx, AnnouncementFilter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range list {
		for _, p := range a.Prefixes {
			got[p.String()] = a.ID
		}
		if len(a.Prefixes) == 0 {
			t.Fatalf("%s owns nothing", a.ID)
		}
	}
	if diff := cmp.Diff(w.owner, got); diff != "" {
		t.Fatalf("owners: %s", diff)
	}
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	if !w.engine.up {
		return
	}
	want := map[netip.Prefix]route{}
	for text, id := range w.owner {
		p, a := netip.MustParsePrefix(text), w.calls[id]
		if peers, some := w.targets(p, a.Peers); some {
			want[p] = route{fmt.Sprintf(`{"origin":%q,"next-hop-self":true}`, a.Attributes.Origin), peers}
		}
	}
	if diff := cmp.Diff(want, w.engine.routes, cmp.AllowUnexported(route{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Fatalf("speaker: %s", diff)
	}
}

// targets says, from the rules alone, where a prefix with next hop self goes:
// north is the one peer that carries IPv6 over IPv4 and cannot take that.
func (w *world) targets(p netip.Prefix, named []string) (peers string, some bool) {
	configured := w.cfg.peerNames()
	selects := func(name string) bool { return len(named) == 0 || slices.Contains(named, name) }
	if p.Addr().Is4() || !slices.Contains(configured, "north") || !selects("north") {
		text, _ := json.Marshal(named)
		return string(text), true
	}
	var list []string
	for _, name := range configured {
		if name != "north" && selects(name) {
			list = append(list, name)
		}
	}
	text, _ := json.Marshal(list)
	return string(text), len(list) > 0
}

// Random announcements, withdrawals, ends of lifetimes, refusals, configuration
// changes, restarts of the daemon and of the speaker: after each step the
// service and the speaker are what the model says.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{
			ctx: context.Background(), store: &memStore{}, engine: &engine{}, cfg: testConfig(),
			owner: map[string]string{}, calls: map[string]Announcement{},
		}
		w.start(rt)
		w.comeUp(rt)
		defer func() { w.s.Stop() }()
		change := func(rt *rapid.T) {
			if rapid.Bool().Draw(rt, "announce") {
				w.announce(rt)
			} else {
				w.withdraw(rt)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"announce":  w.announce,
			"announce2": w.announce,
			"withdraw":  w.withdraw,
			"refused": func(rt *rapid.T) {
				if !w.engine.up {
					rt.Skip("the speaker is down")
				}
				refuse := errors.New("refused")
				w.engine.halfway = rapid.Bool().Draw(rt, "halfway")
				w.engine.refuse(refuse)
				r := AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "2001:db8:1::/48"}, Peers: []string{"west"}, NextHop: "self"}
				if w.cfg.peer("south") != nil {
					r.Peers = append(r.Peers, "south")
				}
				if _, err := w.s.Announce(w.ctx, r); !errors.Is(err, refuse) {
					rt.Fatalf("got %v", err)
				}
			},
			"time": func(rt *rapid.T) {
				w.now.Add(int64(rapid.SampledFrom([]int{1, 9, 10, 60, 7200}).Draw(rt, "seconds")))
				if err := w.s.tend(w.ctx); err != nil {
					rt.Fatal(err)
				}
			},
			"speaker": func(rt *rapid.T) {
				w.engine.goDown()
				for range rapid.IntRange(0, 2).Draw(rt, "changes while down") {
					change(rt)
					w.prune()
				}
				if rapid.Bool().Draw(rt, "back") {
					w.comeUp(rt)
				}
			},
			"daemon": func(rt *rapid.T) {
				w.s.Stop()
				w.engine.goDown()
				w.now.Add(int64(rapid.IntRange(0, 100).Draw(rt, "seconds")))
				w.start(rt)
				w.comeUp(rt)
			},
			"configure": func(rt *rapid.T) {
				w.cfg = testConfig()
				w.cfg.Peers = w.cfg.Peers[rapid.IntRange(0, 2).Draw(rt, "first peer"):]
				if err := w.s.Configure(w.ctx, w.cfg); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				w.expire()
				w.prune()
				w.agree(rt)
			},
		})
	})
}

// Callers, a reader, and a speaker that dies and comes back all the time: no
// race, no deadlock, and in the end the speaker has what the store has.
func TestConcurrentChanges(t *testing.T) {
	r := newRoom(t)
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() {
			for i := range 50 {
				p := fmt.Sprintf("10.%d.%d.0/24", n%2, i%10) // two callers each fight for the same prefixes
				if _, err := r.Announce(t.Context(), AnnounceRequest{Prefixes: []string{p}, For: "1h"}); err != nil {
					t.Error(err)
				}
				if i%3 == 0 {
					if _, err := r.Withdraw(t.Context(), WithdrawRequest{Prefixes: []string{p}}); err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
					}
				}
				if _, err := r.Announcements(t.Context(), AnnouncementFilter{Peer: "south"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { callers.Wait(); close(ended) }()
	for running := true; running; {
		r.engine.goDown()
		if err := r.Configure(t.Context(), testConfig()); err != nil {
			t.Error(err)
		}
		if err := r.engine.comeUp(t.Context(), r.Service); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
			running = false
		default:
		}
	}
	_, paths, err := r.Desired(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range paths {
		for _, p := range path.Prefixes {
			want = append(want, p.String())
		}
	}
	slices.Sort(want)
	got := r.engine.prefixes()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("%d kept: %s", len(want), diff)
	}
}

func manyPrefixes(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d/32", i>>16, i>>8&255, i&255)
	}
	return list
}

// The supported size in one call, then all of it taken over, one withdrawn,
// and the rest.
func TestSupportedSize(t *testing.T) {
	r := newRoom(t)
	all := manyPrefixes(DefaultMaxPrefixes)
	r.announce(t, AnnounceRequest{Prefixes: all})
	second := r.announce(t, AnnounceRequest{Prefixes: all, TagKey: "ticket"})
	if second.Unchanged != len(all) || len(second.TakenOver) != 1 {
		t.Errorf("%+v", second)
	}
	if res, err := r.Withdraw(t.Context(), WithdrawRequest{Prefixes: all[7:8]}); err != nil || res.Announcements[0].Left != len(all)-1 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err := r.Withdraw(t.Context(), WithdrawRequest{TagKey: "ticket"}); err != nil || res.Withdrawn != len(all)-1 {
		t.Errorf("%+v, %v", res, err)
	}
	r.expect(t)
}

func BenchmarkAnnounce(b *testing.B) {
	for _, n := range []int{1, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, err := NewService(Options{Store: discard{}, Speaker: &engine{}, Logger: zerolog.Nop()})
			if err == nil {
				err = errors.Join(s.Start(b.Context()), s.Configure(b.Context(), testConfig()))
			}
			if err != nil {
				b.Fatal(err)
			}
			defer s.Stop()
			r := AnnounceRequest{Prefixes: manyPrefixes(n)}
			for b.Loop() {
				if _, err := s.Announce(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discard stands for a store that costs nothing, so that the benchmark sees this package alone.
type discard struct{}

func (discard) Announcements(context.Context) ([]Announcement, error) { return nil, nil }

func (discard) ReplaceAnnouncements(context.Context, []Announcement, []string) error { return nil }
