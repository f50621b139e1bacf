package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
)

// transactions returns how many write transactions were committed.
func transactions(t testing.TB, db *DB) (n int) {
	t.Helper()
	check(t, db.view(t.Context(), func(tx *bolt.Tx) error { n = tx.ID(); return nil }))
	return n
}

// holdWriter makes the store busy until release is called.
func holdWriter(t testing.TB, db *DB) (release func()) {
	t.Helper()
	entered, leave, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		first := true
		done <- db.update(context.Background(), func(*bolt.Tx) error {
			if first {
				first = false
				close(entered)
				<-leave
			}
			return nil
		})
	}()
	<-entered
	return func() { close(leave); check(t, <-done) }
}

// queued waits until n changes wait for a transaction.
func queued(t testing.TB, db *DB, n int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		db.queue.mu.Lock()
		have := len(db.queue.waiting)
		db.queue.mu.Unlock()
		if have == n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d changes wait, want %d", have, n)
		}
	}
}

func TestConcurrentChangesShareTransactions(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	const callers, each = 32, 20
	before := transactions(t, db)
	var g errgroup.Group
	for i := range callers {
		g.Go(func() error {
			for j := range each {
				if err := db.CreateToken(t.Context(), testToken(fmt.Sprintf("t-%d-%d", i, j))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(t, g.Wait())
	tokens, err := db.Tokens(t.Context())
	check(t, err)
	if len(tokens) != callers*each {
		t.Errorf("%d tokens of %d", len(tokens), callers*each)
	}
	if n := transactions(t, db) - before; n > callers*each/4 {
		t.Errorf("%d transactions for %d changes of %d callers", n, callers*each, callers)
	}
	if bad, err := db.CheckRecords(t.Context()); err != nil || len(bad) > 0 {
		t.Errorf("%v, %v", bad, err)
	}
}

// A lone caller waits for no other.
func TestLoneChangeIsOneTransaction(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	before := transactions(t, db)
	check(t, db.CreateToken(t.Context(), testToken("a")))
	if n := transactions(t, db) - before; n != 1 {
		t.Errorf("%d transactions", n)
	}
}

// What waits while a transaction runs goes into the next one; those that fail
// do so alone, and only over what is on disk.
func TestFailedChangeSpoilsNoOther(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	check(t, db.CreateToken(t.Context(), testToken("there")))
	release := holdWriter(t, db)
	before := transactions(t, db)
	names := []string{"there", "a", "there", "b", "a", "c"}
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { errs[i] = db.CreateToken(t.Context(), testToken(name)) })
		queued(t, db, i+1)
	}
	release()
	wg.Wait()
	for i, exists := range []bool{true, false, true, false, true, false} {
		if exists != errors.Is(errs[i], access.ErrTokenExists) || !exists && errs[i] != nil {
			t.Errorf("create %s, number %d: %v", names[i], i, errs[i])
		}
	}
	// An own one for what held the writer, one for all the others.
	if n := transactions(t, db) - before; n != 2 {
		t.Errorf("%d transactions", n)
	}
	tokens, err := db.Tokens(t.Context())
	check(t, err)
	if len(tokens) != 4 {
		t.Errorf("tokens: %+v", tokens)
	}
}

// A change that failed over another one's is told so only if that one is on
// disk: here it does not get there, so the first is possible.
func TestFailureOverUncommittedChange(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	release := holdWriter(t, db)
	boom := errors.New("boom")
	var wg sync.WaitGroup
	var first, second error
	wg.Go(func() {
		first = db.update(t.Context(), func(tx *bolt.Tx) error {
			// Fails only beside the other: as a commit that finds no room would.
			if err := putJSON(tx, bucketBlobs, []byte("x"), "first"); err != nil {
				return err
			}
			if tx.Bucket([]byte(bucketBlobs)).Get([]byte("y")) != nil {
				return boom
			}
			return nil
		})
	})
	queued(t, db, 1)
	runs := 0
	wg.Go(func() {
		second = db.update(t.Context(), func(tx *bolt.Tx) error {
			runs++
			if tx.Bucket([]byte(bucketBlobs)).Get([]byte("x")) != nil && runs == 1 {
				return boom
			}
			return putJSON(tx, bucketBlobs, []byte("y"), "second")
		})
	})
	queued(t, db, 2)
	release()
	wg.Wait()
	if first != nil || second != nil || runs != 2 {
		t.Errorf("first: %v, second: %v after %d runs", first, second, runs)
	}
}

func TestGivingUpInTheQueue(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	release := holdWriter(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	gone, stays := make(chan error, 1), make(chan error, 1)
	go func() { gone <- db.CreateToken(ctx, testToken("gone")) }()
	queued(t, db, 1)
	go func() { stays <- db.CreateToken(t.Context(), testToken("stays")) }()
	queued(t, db, 2)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	release()
	check(t, <-stays)
	tokens, err := db.Tokens(t.Context())
	check(t, err)
	if len(tokens) != 1 || tokens[0].Name != "stays" {
		t.Errorf("tokens: %+v", tokens)
	}
}

// Once its change is in a transaction a caller waits for the outcome, whatever
// becomes of its context.
func TestGivingUpInTheTransaction(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	ctx, cancel := context.WithCancel(t.Context())
	check(t, db.update(ctx, func(tx *bolt.Tx) error {
		cancel()
		return putJSON(tx, bucketBlobs, []byte("x"), "x")
	}))
	// The same for one that another caller's transaction has taken along.
	release := holdWriter(t, db)
	ctx, cancel = context.WithCancel(t.Context())
	entered, leave, led, follows := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		led <- db.update(t.Context(), func(*bolt.Tx) error { close(entered); <-leave; return nil })
	}()
	queued(t, db, 1)
	go func() { follows <- db.CreateToken(ctx, testToken("a")) }()
	queued(t, db, 2)
	release()
	<-entered
	cancel()
	close(leave)
	check(t, <-led)
	check(t, <-follows)
	if _, err := db.TokenByDigest(t.Context(), testToken("a").Digest); err != nil {
		t.Error(err)
	}
}

// More than fit in one transaction take several.
func TestManyWaiting(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	release := holdWriter(t, db)
	const n = 2*maxBatch + 10
	before := transactions(t, db)
	var wg sync.WaitGroup
	var failed atomic.Int32
	for i := range n {
		wg.Go(func() {
			if db.ReplaceAnnouncements(t.Context(), []bgp.Announcement{testAnnouncement(fmt.Sprint(i), 1)}, nil) != nil {
				failed.Add(1)
			}
		})
	}
	queued(t, db, n)
	release()
	wg.Wait()
	if failed.Load() > 0 || recordsIn(t, db, bucketAnnouncements) != n {
		t.Errorf("%d failed, %d are there", failed.Load(), recordsIn(t, db, bucketAnnouncements))
	}
	if n := transactions(t, db) - before; n != 4 {
		t.Errorf("%d transactions", n)
	}
}

func callRecords() []audit.Record {
	r := audit.Record{Time: now, Principal: "alice", Surface: "mcp", Command: "token create", Args: `{"name":"a"}`}
	begin, end := r, r
	begin.Phase, end.Phase, end.Outcome = audit.Begin, audit.End, "ok"
	return []audit.Record{begin, end}
}

// The records of a call are in the transaction of its first change, and in no
// other.
func TestPendingAuditIsOneTransaction(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	check(t, db.AppendAudit(t.Context(), []audit.Record{{Phase: audit.Call}}))
	pending := audit.NewPending(callRecords()...)
	ctx := audit.WithPending(t.Context(), pending)
	before := transactions(t, db)
	// A change that does not come about takes nothing along.
	if err := revoke(ctx, db, "a"); !errors.Is(err, access.ErrNoToken) {
		t.Fatal(err)
	}
	if _, done := pending.Seq(); done || transactions(t, db) != before {
		t.Error("the records of a failed change are committed")
	}
	check(t, db.CreateToken(ctx, testToken("a")))
	check(t, db.CreateToken(ctx, testToken("b")))
	if seq, done := pending.Seq(); !done || seq != 2 || transactions(t, db) != before+2 {
		t.Errorf("seq %d, %v, %d transactions", seq, done, transactions(t, db)-before)
	}
	records, err := db.AuditRecords(t.Context(), 1, 10)
	check(t, err)
	if len(records) != 2 || records[0].Phase != audit.Begin || records[1].Begin != 2 || records[1].Outcome != "ok" {
		t.Errorf("records: %+v", records)
	}
	verifyChain(t, db)
}

// Calls that share a transaction have their records in one chain, those of a
// failed one left out.
func TestPendingAuditInABatch(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	release := holdWriter(t, db)
	var wg sync.WaitGroup
	pending := make([]*audit.Pending, 5)
	for i := range pending {
		pending[i] = audit.NewPending(callRecords()...)
		wg.Go(func() {
			ctx := audit.WithPending(t.Context(), pending[i])
			if i == 2 {
				if err := revoke(ctx, db, "none"); !errors.Is(err, access.ErrNoToken) {
					t.Error(err)
				}
				return
			}
			if err := db.CreateToken(ctx, testToken(fmt.Sprint("t", i))); err != nil {
				t.Error(err)
			}
		})
		queued(t, db, i+1)
	}
	release()
	wg.Wait()
	var seqs []uint64
	for i, p := range pending {
		seq, done := p.Seq()
		if done != (i != 2) {
			t.Errorf("records of call %d committed: %v", i, done)
		}
		seqs = append(seqs, seq)
	}
	if !slices.Equal(seqs, []uint64{1, 3, 0, 5, 7}) {
		t.Errorf("numbers: %v", seqs)
	}
	verifyChain(t, db)
}

// A panic in one change ends writing, as any sign of a file that cannot be
// trusted; nobody waits for ever.
func TestPanicInABatch(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	release := holdWriter(t, db)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = db.update(t.Context(), func(*bolt.Tx) error {
				if i == 1 {
					panic("a memory fault, say")
				}
				return nil
			})
		})
		queued(t, db, i+1)
	}
	release()
	wg.Wait()
	for i, err := range errs {
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "memory fault") {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if err := db.CreateToken(t.Context(), testToken("a")); !errors.Is(err, ErrFailed) {
		t.Errorf("afterwards: %v", err)
	}
}

// A file that grows does not wait for those who read it for long: a backup, a check.
func TestGrowsWhileOthersRead(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	before, err := db.Stats(t.Context())
	check(t, err)
	_, err = db.PutBlob(t.Context(), "small", make([]byte, 100<<10))
	check(t, err)
	if first, err := db.Stats(t.Context()); err != nil || first.Size > before.Size+3<<20 {
		t.Errorf("for a small change the file grew from %d to %d bytes: %v", before.Size, first.Size, err)
	}
	entered, leave, read := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		read <- db.view(context.Background(), func(*bolt.Tx) error { close(entered); <-leave; return nil })
	}()
	<-entered
	wrote := make(chan error, 1)
	go func() {
		for i := range 6 {
			ctx := audit.WithPending(context.Background(), audit.NewPending(callRecords()...))
			if _, err := db.PutBlob(ctx, fmt.Sprint(i), []byte(strings.Repeat(fmt.Sprint(i), 1<<20))); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	select {
	case err := <-wrote:
		check(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the changes wait for the reader")
	}
	close(leave)
	check(t, <-read)
	after, err := db.Stats(t.Context())
	check(t, err)
	if after.Size < before.Size+6<<20 {
		t.Errorf("the file grew from %d to %d bytes", before.Size, after.Size)
	}
}
