package event

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

func numbers(events []Event) []uint64 {
	out := []uint64{}
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

// The ring keeps the last events, in order, whatever was published before.
func TestRecent(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600))
	b := New(Options{Size: 4, Clock: func() time.Time { return now }})
	if got := b.Recent(Filter{}, 10); len(got) != 0 {
		t.Errorf("before anything happened: %v", got)
	}
	for n := range 11 {
		b.Publish(Event{Type: []string{"up", "down"}[n%2], Subject: map[string]string{"peer": fmt.Sprint(n % 3)}})
	}
	for _, test := range []struct {
		filter Filter
		count  int
		want   []uint64
	}{
		{Filter{}, 10, []uint64{8, 9, 10, 11}},
		{Filter{}, 2, []uint64{10, 11}},
		{Filter{}, 0, []uint64{}},
		{Filter{Types: []string{"up"}}, 10, []uint64{9, 11}},
		{Filter{Types: []string{"up"}}, 1, []uint64{11}},
		{Filter{Types: []string{}}, 10, []uint64{}},
		{Filter{Subject: map[string]string{"peer": "1"}}, 10, []uint64{8, 11}},
		{Filter{Subject: map[string]string{"task": "1"}}, 10, []uint64{}},
	} {
		if got := numbers(b.Recent(test.filter, test.count)); !slices.Equal(got, test.want) {
			t.Errorf("%+v, %d: %v, want %v", test.filter, test.count, got, test.want)
		}
	}
	if e := b.Recent(Filter{}, 1)[0]; !e.Time.Equal(now) || e.Time.Location() != time.UTC {
		t.Errorf("time %v", e.Time)
	}
}

// What somebody owns nobody else learns of.
func TestOwner(t *testing.T) {
	b := New(Options{})
	mine, all := b.Subscribe(Filter{Owner: "me"}, 10), b.Subscribe(Filter{}, 10)
	for _, owner := range []string{"", "me", "you"} {
		b.Publish(Event{Owner: owner})
	}
	if got := numbers(b.Recent(Filter{Owner: "me"}, 10)); !slices.Equal(got, []uint64{1, 2}) || len(mine.C) != 2 {
		t.Errorf("I learn of %v, and am told %d", got, len(mine.C))
	}
	if got := numbers(b.Recent(Filter{}, 10)); !slices.Equal(got, []uint64{1}) || len(all.C) != 1 {
		t.Errorf("everybody learns of %v, and is told %d", got, len(all.C))
	}
}

// A subscriber that does not read delays nobody, and learns how much it missed.
func TestSlowSubscriber(t *testing.T) {
	b := New(Options{})
	slow := b.Subscribe(Filter{}, 3)
	for range 10 {
		b.Publish(Event{})
	}
	if slow.Lost() != 7 {
		t.Errorf("%d events are lost", slow.Lost())
	}
	for want := range uint64(3) {
		if e := <-slow.C; e.Seq != want+1 {
			t.Errorf("event %d, want %d", e.Seq, want+1)
		}
	}
	slow.Close()
	b.Publish(Event{})
	if len(slow.C) != 0 || slow.Lost() != 7 {
		t.Error("a closed subscription still counts")
	}
}

// Publishers and subscribers meet at any time, and every subscriber sees rising
// numbers without a gap that it is not told of.
func TestConcurrentUse(t *testing.T) {
	b := New(Options{Size: 10})
	var publishers, subscribers sync.WaitGroup
	over := make(chan struct{})
	for range 4 {
		subscribers.Go(func() {
			s := b.Subscribe(Filter{}, 5)
			defer s.Close()
			first, last, seen := uint64(0), uint64(0), uint64(0)
			take := func(e Event) {
				if e.Seq <= last {
					t.Errorf("event %d after %d", e.Seq, last)
				}
				if first == 0 {
					first = e.Seq
				}
				last, seen = e.Seq, seen+1
			}
			for {
				select {
				case e := <-s.C:
					take(e)
				case <-over:
					for len(s.C) > 0 {
						take(<-s.C)
					}
					if seen > 0 && last-first+1 > seen+s.Lost() {
						t.Errorf("%d events seen from %d to %d, %d lost", seen, first, last, s.Lost())
					}
					return
				}
			}
		})
	}
	for range 4 {
		publishers.Go(func() {
			for range 500 {
				b.Publish(Event{Type: "x"})
				b.Recent(Filter{}, 3)
			}
		})
	}
	publishers.Wait()
	close(over)
	subscribers.Wait()
}
