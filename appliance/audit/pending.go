package audit

import (
	"context"
	"sync"
)

// Pending holds the records of a call that wait to be committed together with
// the first change the call makes to the store: one transaction for the change
// and what is known of it. The store finds it in the call's context.
type Pending struct {
	mu      sync.Mutex
	records []Record
	state   pendingState
	first   uint64

	taken     func([]Record) // completes what is known only when they are taken; may be nil
	committed func([]Record) // may be nil
}

type pendingState int

const (
	pendingWaits pendingState = iota
	pendingTaken
	pendingCommitted
)

// NewPending returns records waiting for the call's first change. An End record
// without the number of its Begin record belongs to the one before it.
func NewPending(records ...Record) *Pending { return &Pending{records: records} }

// Whole reports whether the records are all there will be of the call: it ends
// with the change.
func (p *Pending) Whole() bool { return len(p.records) > 0 && p.records[len(p.records)-1].Phase == End }

// Take hands out the records for a transaction; false if another one has them or
// had them. The taker must call Committed or Release.
func (p *Pending) Take() ([]Record, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != pendingWaits {
		return nil, false
	}
	p.state = pendingTaken
	if p.taken != nil {
		p.taken(p.records)
	}
	return p.records, true
}

// Committed says that the records are durable; first is the Seq of the first.
func (p *Pending) Committed(first uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.first = pendingCommitted, first
	if p.committed != nil {
		p.committed(p.records)
	}
}

// Release says that the transaction failed: the records wait for the next.
func (p *Pending) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == pendingTaken {
		p.state = pendingWaits
	}
}

// Seq returns the Seq of the first record, once they are committed.
func (p *Pending) Seq() (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.first, p.state == pendingCommitted
}

type pendingKey struct{}

// WithPending returns a context whose first change of the store commits p.
func WithPending(ctx context.Context, p *Pending) context.Context {
	return context.WithValue(ctx, pendingKey{}, p)
}

// PendingFrom returns what waits for the first change made with ctx, nil if
// nothing does.
func PendingFrom(ctx context.Context) *Pending {
	p, _ := ctx.Value(pendingKey{}).(*Pending)
	return p
}
