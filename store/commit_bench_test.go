package store

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
)

// bare is a database of bbolt itself, on the same disk and with the same
// settings as the store's.
type bare struct {
	db *bolt.DB
	n  int
}

func newBare(b *testing.B) *bare {
	b.Helper()
	db, err := bolt.Open(filepath.Join(b.TempDir(), "bare.db"), 0o600, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	check(b, err)
	b.Cleanup(func() { db.Close() })
	check(b, db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("b")); return err }))
	return &bare{db: db}
}

// measure returns what n times put and commit take: of as many bytes as one
// benchChange keeps.
func (r *bare) measure(b *testing.B, n int) time.Duration {
	b.Helper()
	value := make([]byte, 1200)
	start := time.Now()
	for range n {
		r.n++
		check(b, r.db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("b")).Put(seqKey(uint64(r.n)), value) }))
	}
	return time.Since(start)
}

// benchChange is one change as a call makes it: with the records of its begin and end.
func benchChange(b *testing.B, db *DB, id string) error {
	ctx := audit.WithPending(b.Context(), audit.NewPending(callRecords()...))
	return db.ReplaceAnnouncements(ctx, []bgp.Announcement{testAnnouncement(id, 1)}, nil)
}

// BenchmarkCommitOne is one caller; x-bare is what one change costs in commits
// of bare bbolt. The two take turns, because the disk has its moods.
func BenchmarkCommitOne(b *testing.B) {
	db, raw := openTest(b, options(privateDir(b))), newBare(b)
	const turn = 50
	var base time.Duration
	turns := 0
	for i := 0; b.Loop(); i++ {
		if i%turn == 0 {
			b.StopTimer()
			base += raw.measure(b, turn)
			turns++
			b.StartTimer()
		}
		check(b, benchChange(b, db, fmt.Sprint(i%1000)))
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/(float64(base)/float64(turns*turn)), "x-bare")
}

// BenchmarkCommit32 is 32 callers; x-one is their rate in that of one caller.
func BenchmarkCommit32(b *testing.B) {
	db := openTest(b, options(privateDir(b)))
	const callers, alone = 32, 200
	var one time.Duration // of one change of a lone caller: half of them before, half after
	measure := func() {
		start := time.Now()
		for i := range alone {
			check(b, benchChange(b, db, fmt.Sprint(i)))
		}
		one += time.Since(start) / (2 * alone)
	}
	measure()
	before := transactions(b, db)
	var g errgroup.Group
	var next atomic.Int64
	b.ResetTimer()
	for range callers {
		g.Go(func() error {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return nil
				}
				if err := benchChange(b, db, fmt.Sprint(i%1000)); err != nil {
					return err
				}
			}
		})
	}
	check(b, g.Wait())
	b.StopTimer()
	commits := transactions(b, db) - before
	measure()
	b.ReportMetric(float64(one)*float64(b.N)/float64(b.Elapsed()), "x-one")
	b.ReportMetric(float64(b.N)/float64(commits), "changes/commit")
}
