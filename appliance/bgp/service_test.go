package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

func (r *room) announce(t *testing.T, req AnnounceRequest) AnnounceResult {
	t.Helper()
	res, err := r.Announce(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (r *room) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), r.engine.prefixes()); diff != "" {
		t.Errorf("speaker: %s", diff)
	}
	kept, err := r.store.Announcements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, a := range kept {
		for _, p := range a.Prefixes {
			got = append(got, p.String())
		}
	}
	slices.Sort(got)
	want = append([]string{}, want...)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("store: %s", diff)
	}
}

func TestAnnounceAndTakeOver(t *testing.T) {
	r := newRoom(t)
	first := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"}, Principal: "ops"})
	want := AnnounceResult{
		ID: first.ID, Announced: 3, TakenOver: []TakenOver{}, Peers: []string{"north", "south"},
		NotSentTo: []NotSentTo{{Peer: "west", Reason: "ipv4/unicast is not configured on its session"}},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	if len(first.ID) != 11 || first.ID[0] != 'a' || strings.ToLower(first.ID) != first.ID {
		t.Errorf("id %q", first.ID)
	}
	same := r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16"}, TagKey: "ticket", TagValue: "7"})
	if same.Unchanged != 1 || !slices.Equal(same.TakenOver, []TakenOver{{first.ID, 1}}) || same.ID == first.ID {
		t.Errorf("%+v", same)
	}
	other := r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"}, ASPath: []uint32{64998}, Origin: "egp"})
	if other.Unchanged != 0 || len(other.TakenOver) != 2 {
		t.Errorf("%+v", other)
	}
	if len(other.NotSentTo) != 2 || other.NotSentTo[0].Peer != "south" || !strings.Contains(other.NotSentTo[0].Reason, "loop") {
		t.Errorf("as loop not told: %+v", other.NotSentTo)
	}
	list, err := r.Announcements(t.Context(), AnnouncementFilter{})
	if err != nil || len(list) != 2 || list[0].ID != first.ID || list[0].Principal != "ops" ||
		!slices.Equal(list[0].Prefixes, prefixes("10.1.0.0/16")) {
		t.Errorf("the one that lost everything is gone, the first keeps the rest: %+v, %v", list, err)
	}
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16")

	gone, err := r.Withdraw(t.Context(), WithdrawRequest{ID: first.ID})
	if err != nil || gone.Withdrawn != 1 || !slices.Equal(gone.Announcements, []Withdrawn{{first.ID, 1, 0}}) {
		t.Errorf("%+v, %v", gone, err)
	}
	r.expect(t, "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16")
}

func TestWithdraw(t *testing.T) {
	r := newRoom(t)
	a := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16"}, TagKey: "ticket", TagValue: "7"})
	b := r.announce(t, AnnounceRequest{Prefixes: []string{"10.3.0.0/16", "10.4.0.0/16"}, TagKey: "ticket", TagValue: "8"})
	r.announce(t, AnnounceRequest{Prefixes: []string{"10.5.0.0/16"}})

	_, err := r.Withdraw(t.Context(), WithdrawRequest{Prefixes: []string{"10.1.0.0/16", "10.9.0.0/16"}})
	fieldError(t, err, "prefixes[1]", ErrNotFound)
	_, err = r.Withdraw(t.Context(), WithdrawRequest{Prefixes: []string{"10.1.0.1/16"}})
	fieldError(t, err, "prefixes[0]", ErrInvalid)
	_, err = r.Withdraw(t.Context(), WithdrawRequest{ID: "azzzzzzzzzz"})
	if fe := fieldError(t, err, "id", ErrNotFound); !strings.Contains(fe.Allowed, a.ID) {
		t.Errorf("%q names no known id", fe.Allowed)
	}
	_, err = r.Withdraw(t.Context(), WithdrawRequest{TagKey: "ticket", TagValue: "9"})
	if fe := fieldError(t, err, "tag-key", ErrNotFound); fe.Allowed != "known are ticket 7, ticket 8" {
		t.Errorf("%q names no known tags", fe.Allowed)
	}
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.5.0.0/16")

	res, err := r.Withdraw(t.Context(), WithdrawRequest{Prefixes: []string{"10.4.0.0/16", "10.2.0.0/16"}})
	if err != nil || res.Withdrawn != 2 || len(res.Announcements) != 2 || res.Announcements[0].Left != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	r.expect(t, "10.1.0.0/16", "10.3.0.0/16", "10.5.0.0/16")
	if res, err = r.Withdraw(t.Context(), WithdrawRequest{TagKey: "ticket", TagValue: "8"}); err != nil || res.Announcements[0].ID != b.ID {
		t.Errorf("%+v, %v", res, err)
	}
	r.expect(t, "10.1.0.0/16", "10.5.0.0/16")
	if res, err = r.Withdraw(t.Context(), WithdrawRequest{TagKey: "ticket"}); err != nil || res.Announcements[0].ID != a.ID {
		t.Errorf("%+v, %v", res, err)
	}
	r.expect(t, "10.5.0.0/16")
	for want := 1; want >= 0; want-- {
		if res, err = r.Withdraw(t.Context(), WithdrawRequest{All: true}); err != nil || res.Withdrawn != want {
			t.Errorf("%+v, %v", res, err)
		}
	}
	r.expect(t)
}

func TestAnnouncementsFilter(t *testing.T) {
	r := newRoom(t)
	a := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}, TagKey: "ticket", TagValue: "7", Peers: []string{"south"}})
	b := r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16"}})
	for _, tc := range []struct {
		filter AnnouncementFilter
		want   []string
	}{
		{AnnouncementFilter{}, []string{a.ID, b.ID}},
		{AnnouncementFilter{ID: b.ID}, []string{b.ID}},
		{AnnouncementFilter{TagKey: "ticket"}, []string{a.ID}},
		{AnnouncementFilter{TagKey: "ticket", TagValue: "8"}, nil},
		{AnnouncementFilter{Peer: "north"}, []string{b.ID}},
		{AnnouncementFilter{Peer: "south"}, []string{a.ID, b.ID}},
		{AnnouncementFilter{Prefix: netip.MustParsePrefix("10.2.0.0/16")}, []string{b.ID}},
		{AnnouncementFilter{Prefix: netip.MustParsePrefix("10.3.0.0/16")}, nil},
	} {
		list, err := r.Announcements(t.Context(), tc.filter)
		var got []string
		for _, a := range list {
			got = append(got, a.ID)
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%+v: got %v, %v, want %v", tc.filter, got, err, tc.want)
		}
	}
	_, err := r.Announcements(t.Context(), AnnouncementFilter{Peer: "sout"})
	fieldError(t, err, "peer", ErrNotFound)
}

// A limit holds for the call and for the total, and a prefix taken over counts once.
func TestMaxPrefixes(t *testing.T) {
	r := newRoom(t, func(o *Options) { o.MaxPrefixes = 3 })
	_, err := r.Announce(t.Context(), AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16"}})
	fieldError(t, err, "prefixes", ErrInvalid)
	r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16"}})
	r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16", "10.3.0.0/16"}})
	_, err = r.Announce(t.Context(), AnnounceRequest{Prefixes: []string{"10.3.0.0/16", "10.4.0.0/16"}})
	fieldError(t, err, "prefixes", ErrInvalid)
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16")
}

func TestSpeakerDown(t *testing.T) {
	r := newRoom(t)
	a := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}})
	r.engine.goDown()
	b := r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16"}})
	res, err := r.Withdraw(t.Context(), WithdrawRequest{ID: a.ID})
	if a.Pending || !b.Pending || err != nil || !res.Pending {
		t.Errorf("%+v, %+v, %+v, %v", a, b, res, err)
	}
	peers, err := r.Peers(t.Context())
	if err != nil || len(peers) != 3 || peers[0].State != "idle" || !strings.Contains(peers[0].LastError, "not running") || len(peers[0].Families) != 2 {
		t.Errorf("%+v, %v", peers, err)
	}
	if err := r.engine.comeUp(t.Context(), r.Service); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "10.2.0.0/16")
}

// The store says no: nothing has happened. The speaker says no, even after it
// did a part: everything is as before, at both.
func TestFailuresAreUndone(t *testing.T) {
	r := newRoom(t)
	before := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16"}, Origin: "egp"})
	route := r.engine.routes[netip.MustParsePrefix("10.1.0.0/16")]
	refuse := errors.New("refused")
	mixed := AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.3.0.0/16", "2001:db8::/32"}, Peers: []string{"south", "west"}}

	r.store.fail = refuse
	if _, err := r.Announce(t.Context(), mixed); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16")

	r.engine.halfway = true
	r.engine.refuse(refuse)
	if _, err := r.Announce(t.Context(), mixed); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16")
	if got := r.engine.routes[netip.MustParsePrefix("10.1.0.0/16")]; got != route {
		t.Errorf("speaker kept %v, want %v", got, route)
	}

	r.engine.refuse(refuse)
	if _, err := r.Withdraw(t.Context(), WithdrawRequest{All: true}); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	r.expect(t, "10.1.0.0/16", "10.2.0.0/16")
	list, err := r.Announcements(t.Context(), AnnouncementFilter{})
	if err != nil || len(list) != 1 || list[0].ID != before.ID || len(list[0].Prefixes) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The speaker refuses the change and its undoing: the loop tries until both agree.
func TestUnsettledIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		refuse := errors.New("refused")
		r.engine.halfway = true
		r.engine.refuse(refuse, refuse, refuse) // announce; undo; the first repetition
		if _, err := r.Announce(t.Context(), AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}}); !errors.Is(err, refuse) {
			t.Fatalf("got %v", err)
		}
		if got := r.engine.prefixes(); len(got) != 1 {
			t.Fatalf("the double should have kept a part, has %v", got)
		}
		time.Sleep(2*retryInterval + time.Second)
		synctest.Wait()
		r.expect(t)
		r.mu.RLock()
		defer r.mu.RUnlock()
		if len(r.unsettled) != 0 {
			t.Errorf("still unsettled: %v", r.unsettled)
		}
	})
}

// A speaker that takes longer to start than a change may wait can have asked
// for the routes before the change: accepted, and sent when it is there.
func TestSpeakerStartsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		slow := fmt.Errorf("%w: it is still starting: %w", ErrUnavailable, context.DeadlineExceeded)
		r.engine.refuse(slow, slow)
		if res := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}}); !res.Pending {
			t.Errorf("%+v", res)
		}
		c := testConfig()
		c.Peers = c.Peers[:2]
		if err := r.Configure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := r.engine.prefixes(); len(got) != 0 {
			t.Fatalf("the double has %v already", got)
		}
		time.Sleep(retryInterval)
		synctest.Wait()
		r.expect(t, "10.1.0.0/16")
		if cfg := r.engine.running(); len(cfg.Peers) != 2 {
			t.Errorf("speaker runs %d peers", len(cfg.Peers))
		}
	})
}

func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		synctest.Wait() // the loop sleeps already
		started := time.Now()
		a := r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16", "10.2.0.0/16"}, For: "30s"})
		if !a.Expires.Equal(started.Add(30 * time.Second)) {
			t.Errorf("expires %s", a.Expires)
		}
		r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16"}, For: "3h"})
		r.announce(t, AnnounceRequest{Prefixes: []string{"10.3.0.0/16"}})
		time.Sleep(30*time.Second - time.Nanosecond)
		synctest.Wait()
		r.expect(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r.expect(t, "10.2.0.0/16", "10.3.0.0/16") // only what it still owned

		r.engine.refuse(errors.New("refused"))
		time.Sleep(time.Until(started.Add(3*time.Hour)) + time.Second)
		synctest.Wait()
		r.expect(t, "10.2.0.0/16", "10.3.0.0/16") // refused and undone
		time.Sleep(retryInterval)
		synctest.Wait()
		r.expect(t, "10.3.0.0/16")
	})
}

// A lifetime that ends while the daemon is stopped ends before the replay.
func TestLifetimeEndsWhileStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}, For: "1m"})
		kept := r.announce(t, AnnounceRequest{Prefixes: []string{"10.2.0.0/16"}, For: "2h"})
		r.Stop()
		r.engine.goDown()
		time.Sleep(time.Hour)
		if _, paths, err := r.Desired(t.Context()); err != nil || len(paths) != 1 {
			t.Errorf("an ended lifetime would be replayed: %v, %v", paths, err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.engine.comeUp(t.Context(), r.Service); err != nil {
			t.Fatal(err)
		}
		r.expect(t, "10.2.0.0/16")
		if list, err := r.Announcements(t.Context(), AnnouncementFilter{}); err != nil || len(list) != 1 || list[0].ID != kept.ID {
			t.Errorf("%+v, %v", list, err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		r.expect(t)
	})
}

// What was begun is carried through although the caller has gone.
func TestCallerGoesAway(t *testing.T) {
	r := newRoom(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Service.o.Speaker = &leavingCaller{engine: r.engine, leave: cancel}
	if _, err := r.Announce(ctx, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}}); err != nil {
		t.Fatal(err)
	}
	r.expect(t, "10.1.0.0/16")
	if _, err := r.Withdraw(ctx, WithdrawRequest{All: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call by one who has gone: %v", err)
	}
	r.expect(t, "10.1.0.0/16")
}

// leavingCaller stands for a speaker whose caller hangs up during the call.
type leavingCaller struct {
	*engine
	leave context.CancelFunc
}

func (l *leavingCaller) Announce(ctx context.Context, paths []Path) error {
	l.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.engine.Announce(ctx, paths)
}

// A store may order prefixes by its own rule.
func TestStoreOrder(t *testing.T) {
	r := newRoom(t)
	r.Stop()
	if err := r.store.ReplaceAnnouncements(t.Context(), []Announcement{{
		ID: "aold", Prefixes: prefixes("2001:db8::/32", "10.2.0.0/16", "10.1.0.0/16"),
		Attributes: Attributes{Origin: "igp", NextHopSelf: true}, Peers: []string{"west", "south"},
	}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	res, err := r.Withdraw(t.Context(), WithdrawRequest{Prefixes: []string{"10.1.0.0/16", "2001:db8::/32"}})
	if err != nil || !slices.Equal(res.Announcements, []Withdrawn{{"aold", 2, 1}}) {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestNotReady(t *testing.T) {
	s, err := NewService(Options{Store: &memStore{}, Speaker: &engine{}})
	if err != nil {
		t.Fatal(err)
	}
	req := AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}}
	if _, err := s.Announce(t.Context(), req); !errors.Is(err, ErrState) {
		t.Errorf("not started: %v", err)
	}
	s.Stop()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if err := s.Start(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("started twice: %v", err)
	}
	if _, err := s.Announce(t.Context(), req); !errors.Is(err, ErrState) {
		t.Errorf("no bgp block: %v", err)
	}
	if _, err := s.Peers(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("no bgp block: %v", err)
	}
	if _, _, err := s.Desired(t.Context()); !errors.Is(err, ErrState) {
		t.Errorf("no bgp block: %v", err)
	}
	if _, err := NewService(Options{}); err == nil {
		t.Error("a service without store and speaker")
	}
}

// A store that takes nothing does not keep an expired route on the air.
func TestLifetimeEndsWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.announce(t, AnnounceRequest{Prefixes: []string{"10.1.0.0/16"}, For: "30s"})
		r.store.mu.Lock()
		r.store.fail = errors.New("no space left")
		r.store.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := r.engine.prefixes(); len(got) != 0 {
			t.Errorf("the speaker still has %v", got)
		}
		time.Sleep(retryInterval)
		synctest.Wait()
		r.expect(t) // and is forgotten as soon as the store takes it
	})
}
