// Package event keeps what happened lately and tells those who wait for it: peers
// that came up, routes that changed, a configuration that was committed. It owns
// a bounded ring in memory and its subscribers. It must not know what publishes
// or listens, nor keep anything beyond the daemon's life: what must not be lost
// is in the audit log.
package event

import (
	"slices"
	"sync"
	"time"
)

// Event is one thing that happened.
type Event struct {
	Seq     uint64            `json:"seq"` // rises by one with every event since the daemon started
	Time    time.Time         `json:"time"`
	Type    string            `json:"type"`              // kebab-case: peer-up, peer-down, …
	Subject map[string]string `json:"subject,omitempty"` // what it is about: "peer": "north"
	Message string            `json:"message"`           // a sentence for people
	Owner   string            `json:"-"`                 // who alone may learn of it; "": everybody
}

// Type is a kind of event that can be published.
type Type struct {
	Name        string
	Description string
	Subject     []string // keys of the subject its events have
	Command     string   // path of a command that tells as much: whoever may not run it learns of no such event
}

// Filter picks events. The zero value picks all that have no owner.
type Filter struct {
	Types   []string          // nil: any
	Owner   string            // picks the events of this owner beside those that are everybody's
	Subject map[string]string // each of these must be in the event's subject, with this value
}

// Match reports whether f picks e.
func (f Filter) Match(e Event) bool {
	if f.Types != nil && !slices.Contains(f.Types, e.Type) || e.Owner != "" && e.Owner != f.Owner {
		return false
	}
	for k, v := range f.Subject {
		if e.Subject[k] != v {
			return false
		}
	}
	return true
}

// Options of a Bus.
type Options struct {
	Types []Type           // those that can be published, sorted by name
	Size  int              // events kept; default 1000
	Clock func() time.Time // default time.Now
}

// Bus keeps the last events and hands each to its subscribers. It is safe for
// concurrent use, and a subscriber that does not read delays nobody.
type Bus struct {
	types []Type
	clock func() time.Time

	mu   sync.Mutex
	seq  uint64
	ring []Event // the event with number n is at (n-1) % cap
	subs map[*Subscription]struct{}
}

// New returns a bus without events.
func New(o Options) *Bus {
	if o.Size <= 0 {
		o.Size = 1000
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Bus{types: o.Types, clock: o.Clock, ring: make([]Event, 0, o.Size), subs: map[*Subscription]struct{}{}}
}

// Types returns the types of event there are, sorted by name. They must not be
// modified.
func (b *Bus) Types() []Type { return b.types }

// Publish gives e number and time, keeps it and hands it on. Its type is one of
// Types. It never waits for a subscriber. The caller does not change e.Subject afterwards.
func (b *Bus) Publish(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	e.Seq, e.Time = b.seq, b.clock().UTC()
	if len(b.ring) < cap(b.ring) {
		b.ring = append(b.ring, e)
	} else {
		b.ring[int((e.Seq-1)%uint64(cap(b.ring)))] = e
	}
	for s := range b.subs {
		s.offer(e)
	}
}

// Recent returns the last events that f picks, at most count, oldest first.
func (b *Bus) Recent(f Filter, count int) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []Event{}
	for i := range len(b.ring) {
		if len(out) >= count {
			break
		}
		e := b.ring[int((b.seq-1-uint64(i))%uint64(cap(b.ring)))]
		if f.Match(e) {
			out = append(out, e)
		}
	}
	slices.Reverse(out)
	return out
}

// Subscription receives events until it is closed.
type Subscription struct {
	// C delivers the events in order. It is never closed.
	C      <-chan Event
	c      chan Event
	bus    *Bus
	filter Filter
	lost   uint64 // guarded by bus.mu
}

// Subscribe returns a subscription to the events f picks that are published from
// now on. buffer is how many may wait to be read; further ones are lost and
// counted.
func (b *Bus) Subscribe(f Filter, buffer int) *Subscription {
	c := make(chan Event, max(buffer, 1))
	s := &Subscription{C: c, c: c, bus: b, filter: f}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s] = struct{}{}
	return s
}

func (s *Subscription) offer(e Event) {
	if !s.filter.Match(e) {
		return
	}
	select {
	case s.c <- e:
	default:
		s.lost++
	}
}

// Lost returns how many events came while the buffer was full.
func (s *Subscription) Lost() uint64 {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	return s.lost
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.bus.mu.Lock()
	defer s.bus.mu.Unlock()
	delete(s.bus.subs, s)
}
