package store

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
)

// maxBatch bounds the changes in one transaction, and with it how long the
// first of them waits for the others.
const maxBatch = 256

// step is one caller's step: waiting in the queue, or in a transaction.
type step struct {
	fn    func(tx *bolt.Tx) error
	audit *audit.Pending // to be committed with it; nil if there is none
	taken int            // records of it in the transaction
	err   error          // valid when done is closed
	done  chan struct{}
}

// queue holds the changes that wait while a transaction is under way.
type queue struct {
	mu      sync.Mutex
	waiting []*step
}

func (q *queue) add(c *step) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
}

// remove takes c out and reports whether it was still waiting.
func (q *queue) remove(c *step) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, c)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// gather takes out what waits. Callers that the last transaction has just
// answered are often about to come again: it gives way to them as long as more
// come, without ever waiting.
func (q *queue) gather() []*step {
	for n := -1; ; {
		q.mu.Lock()
		if len(q.waiting) <= n || len(q.waiting) >= maxBatch {
			break
		}
		n = len(q.waiting)
		q.mu.Unlock()
		runtime.Gosched()
	}
	defer q.mu.Unlock()
	n := min(len(q.waiting), maxBatch)
	batch := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return batch
}

// update runs fn in a write transaction and commits it, together with the audit
// records that ctx carries. An error of fn's own changes nothing and is returned
// as it is. Changes of callers that come while a transaction is under way share
// the next one, and its sync; whoever comes alone waits for nobody. So fn may
// run more than once, until one run of it is committed: it must set what it
// hands out anew each time. A caller that gives up before its change is in a
// transaction gets ctx's error; after that it waits for the outcome. A call that
// brings its audit records waits audit.AnswerTime at most: then ErrStalled says
// whether its change may still be made. Only one that does nothing but this
// change, and leads the transaction, waits for the outcome however long it takes.
func (db *DB) update(ctx context.Context, fn func(tx *bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &step{fn: fn, audit: audit.PendingFrom(ctx), done: make(chan struct{})}
	var late <-chan time.Time
	if c.audit != nil {
		limit := time.NewTimer(audit.AnswerTime)
		defer limit.Stop()
		late = limit.C
	}
	db.queue.add(c)
	for {
		select {
		case <-c.done:
			return c.err
		case <-db.writer:
			// Everybody in the queue waits for this: one of them leads.
			lead := func() {
				db.commit(db.queue.gather())
				db.writer <- struct{}{}
			}
			if c.audit != nil && !c.audit.Whole() {
				go lead() // costs a switch, and the caller need not wait for a disk that hangs
			} else {
				lead()
			}
		case <-late:
			next := "the change was not made; check the disk, and try again"
			if !db.queue.remove(c) {
				next = "the change may still be made: look at what it was to change before trying again, and check the disk"
			}
			return &Error{Kind: ErrStalled, Path: db.path, Next: next}
		case <-ctx.Done():
			if db.queue.remove(c) {
				return ctx.Err()
			}
			<-c.done
			return c.err
		}
	}
}

// commit carries out a batch and tells everybody the outcome. A change whose
// function fails is taken out and the others are tried again; it gets another
// try after them, because it may have failed over what one of them did, and
// that is true only once it is on disk.
func (db *DB) commit(batch []*step) {
	for len(batch) > 0 {
		var later []*step
		for len(batch) > 0 {
			i, err := db.transact(batch)
			switch {
			case i == len(batch):
				finish(batch, err)
				batch = nil
			case i == 0:
				finish(batch[:1], err)
				batch = batch[1:]
			default:
				later = append(later, batch[i])
				batch = slices.Delete(batch, i, i+1)
			}
		}
		batch = later
	}
}

func finish(batch []*step, err error) {
	for _, c := range batch {
		c.err = err
		close(c.done)
	}
}

// transact runs a batch in one transaction. It returns the index of the change
// whose function failed, and its error; or the length of the batch, and what
// became of the transaction.
func (db *DB) transact(batch []*step) (failed int, err error) {
	select {
	case <-db.failed:
		return len(batch), &Error{Kind: ErrFailed, Path: db.path, Next: nextFailed}
	default:
	}
	start := time.Now()
	tx, err := db.bolt.Load().Begin(true)
	if err != nil {
		return len(batch), openError(db.path, err)
	}
	var first uint64 // Seq of the first audit record, once all are durable
	defer func() { settle(batch, first) }()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			// Not bbolt's own way back after a panic (DB.Update): that reads the
			// whole tree again, in a goroutine nothing can recover in.
			tx.Rollback()
			failed, err = len(batch), db.panicked(r)
			db.fail(err)
		}
	}()
	for i, c := range batch {
		if err := c.fn(tx); err != nil {
			tx.Rollback()
			return i, err
		}
	}
	seq, err := db.appendPending(tx, batch)
	if err != nil {
		tx.Rollback()
		return len(batch), err
	}
	if err := tx.Commit(); err != nil {
		err = commitError(db.path, err)
		db.full.Store(errors.Is(err, ErrNoSpace))
		if isFailure(err) {
			db.fail(err)
		}
		return len(batch), err
	}
	db.changes.Add(1)
	first = seq
	db.full.Store(false)
	db.commits.Observe(time.Since(start).Seconds())
	return len(batch), nil
}

// appendPending appends the audit records that go with a batch and returns the
// Seq of the first.
func (db *DB) appendPending(tx *bolt.Tx, batch []*step) (first uint64, err error) {
	var all []audit.Record
	for _, c := range batch {
		if c.audit == nil {
			continue
		}
		// If not, an earlier change of the same call has them.
		if records, ok := c.audit.Take(); ok {
			c.taken = len(records)
			all = append(all, records...)
		}
	}
	if len(all) == 0 {
		return 0, nil
	}
	return db.appendAudit(tx, all)
}

// settle tells those whose audit records were in a transaction what became of
// them: first is the Seq of the first, 0 if the transaction came to nothing.
func settle(batch []*step, first uint64) {
	seq := first
	for _, c := range batch {
		switch {
		case c.taken == 0:
		case first == 0:
			c.audit.Release()
		default:
			c.audit.Committed(seq)
			seq += uint64(c.taken)
		}
		c.taken = 0
	}
}
