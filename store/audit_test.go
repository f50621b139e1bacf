package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
)

// fillAudit appends n records, a second apart from now on.
func fillAudit(t testing.TB, db *DB, n int) {
	t.Helper()
	records := make([]audit.Record, n)
	for i := range records {
		records[i] = audit.Record{Time: now.Add(time.Duration(i) * time.Second), Phase: audit.Call, Command: fmt.Sprint(i + 1)}
	}
	check(t, db.AppendAudit(t.Context(), records))
}

func seqs(t testing.TB, db *DB) (first, last uint64) {
	t.Helper()
	all, err := db.AuditRecords(t.Context(), 0, 1_000_000)
	check(t, err)
	if len(all) == 0 {
		return 0, 0
	}
	return all[0].Seq, all[len(all)-1].Seq
}

func TestTrimAudit(t *testing.T) {
	for name, row := range map[string]struct {
		before      time.Time
		keep, limit int
		removed     int
	}{
		"nothing asked":       {time.Time{}, 0, 50, 0},
		"by age":              {now.Add(30 * time.Second), 0, 50, 30},
		"by age, in steps":    {now.Add(30 * time.Second), 0, 20, 20},
		"by number":           {time.Time{}, 60, 50, 40},
		"the stricter counts": {now.Add(30 * time.Second), 60, 50, 40},
		"the other one":       {now.Add(30 * time.Second), 90, 50, 30},
		"not the last":        {now.Add(time.Hour), 0, 1000, 99},
		"fewer than there":    {time.Time{}, 1000, 50, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, o := t.Context(), options(privateDir(t))
			db := openTest(t, o)
			fillAudit(t, db, 100)
			removed, err := db.TrimAudit(ctx, row.before, row.keep, row.limit)
			check(t, err)
			if first, last := seqs(t, db); removed != row.removed || first != uint64(removed)+1 || last != 100 {
				t.Errorf("removed %d, records %d to %d are left", removed, first, last)
			}
			// The rest verifies, is added to, and is the same after a restart.
			check(t, db.AppendAudit(ctx, []audit.Record{{Command: "next"}}))
			check(t, db.Close())
			db = openTest(t, o)
			n, err := db.VerifyAudit(ctx)
			if anchor, _ := db.AuditAnchor(ctx); err != nil || n != uint64(101-removed) || anchor.Seq != uint64(removed) {
				t.Errorf("verified %d, anchor %+v: %v", n, anchor, err)
			}
			bad, err := db.CheckRecords(ctx)
			if len(bad) > 0 || err != nil {
				t.Errorf("%v, %v", bad, err)
			}
		})
	}
}

// Nothing to remove costs no transaction.
func TestTrimAuditIsFree(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	fillAudit(t, db, 10)
	id := transactions(t, db)
	for range 10 {
		if n, err := db.TrimAudit(t.Context(), now, 10, 100); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if after := transactions(t, db); after != id {
		t.Errorf("%d transactions", after-id)
	}
}

// What is done to the kept part, its anchor or its end is found, with the place.
func TestVerifyAuditFindsTampering(t *testing.T) {
	put := func(r audit.Record) func(tx *bolt.Tx) error {
		return func(tx *bolt.Tx) error { return putJSON(tx, bucketAudit, seqKey(r.Seq), r) }
	}
	for name, row := range map[string]struct {
		edit func(tx *bolt.Tx) error
		seq  uint64
	}{
		"oldest removed": {func(tx *bolt.Tx) error { _, err := remove(tx, bucketAudit, seqKey(41)); return err }, 41},
		"one removed":    {func(tx *bolt.Tx) error { _, err := remove(tx, bucketAudit, seqKey(77)); return err }, 77},
		"one replaced":   {put(audit.Record{Seq: 77, Command: "innocent"}), 77},
		"one put back":   {put(audit.Record{Seq: 40, Command: "innocent"}), 41},
		"damaged": {func(tx *bolt.Tx) error {
			return spoil(tx.Bucket([]byte(bucketAudit)), seqKey(77), 20)
		}, 77},
		"anchor moved": {func(tx *bolt.Tx) error {
			return putJSON(tx, bucketAuditHead, []byte(keyAnchor), audit.Head{Seq: 41, Hash: "00"})
		}, 42},
		"anchor forged": {func(tx *bolt.Tx) error {
			return putJSON(tx, bucketAuditHead, []byte(keyAnchor), audit.Head{Seq: 40, Hash: "00"})
		}, 41},
		"anchor removed": {func(tx *bolt.Tx) error { _, err := remove(tx, bucketAuditHead, []byte(keyAnchor)); return err }, 1},
		"anchor damaged": {func(tx *bolt.Tx) error {
			return spoil(tx.Bucket([]byte(bucketAuditHead)), []byte(keyAnchor), 10)
		}, 1},
	} {
		db := openTest(t, options(privateDir(t)))
		fillAudit(t, db, 100)
		_, err := db.TrimAudit(t.Context(), time.Time{}, 60, 100)
		check(t, err)
		if n, err := db.VerifyAudit(t.Context()); n != 60 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		check(t, db.update(t.Context(), row.edit))
		_, err = db.VerifyAudit(t.Context())
		var broken *audit.BrokenError
		if !errors.As(err, &broken) || broken.Seq != row.seq {
			t.Errorf("%s: %v, want broken at %d", name, err, row.seq)
		}
	}
}

// A damaged record does not keep the older end from going.
func TestTrimAuditPassesDamage(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	fillAudit(t, db, 100)
	check(t, db.update(ctx, func(tx *bolt.Tx) error {
		for _, seq := range []uint64{1, 20, 40} {
			if err := spoil(tx.Bucket([]byte(bucketAudit)), seqKey(seq), 20); err != nil {
				return err
			}
		}
		return nil
	}))
	for step := 0; ; step++ {
		n, err := db.TrimAudit(ctx, now.Add(50*time.Second), 0, 15)
		check(t, err)
		if n == 0 {
			break
		}
		if step > 10 {
			t.Fatal("no end")
		}
	}
	if first, _ := seqs(t, db); first != 51 {
		t.Errorf("begins with %d", first)
	}
	verifyChain(t, db)
}

func TestAuditBefore(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	if got, next, err := db.AuditBefore(ctx, 0, 10); len(got) != 0 || next != 0 || err != nil {
		t.Errorf("empty: %v %d %v", got, next, err)
	}
	fillAudit(t, db, 25)
	check(t, db.update(ctx, func(tx *bolt.Tx) error { return spoil(tx.Bucket([]byte(bucketAudit)), seqKey(12), 20) }))
	var all []uint64
	for before := uint64(0); ; {
		page, next, err := db.AuditBefore(ctx, before, 10)
		check(t, err)
		for _, r := range page {
			all = append(all, r.Seq)
		}
		if next == 0 {
			break
		}
		before = next
	}
	var want []uint64
	for seq := uint64(25); seq > 0; seq-- {
		if seq != 12 {
			want = append(want, seq)
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("%v", all)
	}
	for before, first := range map[uint64]uint64{1: 0, 2: 1, 5: 4, 25: 24, 26: 25, 1000: 25} {
		page, _, err := db.AuditBefore(ctx, before, 1)
		check(t, err)
		if got := append(page, audit.Record{})[0].Seq; got != first {
			t.Errorf("before %d: %d", before, got)
		}
	}
}

// What is added to a record without changing what is read of it is found, too.
func TestVerifyAuditFindsAddedMembers(t *testing.T) {
	for what, forge := range map[string]func(payload string) string{
		"another member":  func(p string) string { return strings.TrimSuffix(p, "}") + `,"approved-by":"alice"}` },
		"a member twice":  func(p string) string { return strings.Replace(p, "{", `{"command":"innocent",`, 1) },
		"only some space": func(p string) string { return p + " " },
	} {
		o := options(privateDir(t))
		db := openTest(t, o)
		fillAudit(t, db, 100)
		verifyChain(t, db)
		check(t, db.update(t.Context(), func(tx *bolt.Tx) error {
			payload, err := get(tx, bucketAudit, seqKey(77))
			if err != nil {
				return err
			}
			return put(tx, bucketAudit, seqKey(77), []byte(forge(string(payload))))
		}))
		_, err := db.VerifyAudit(t.Context())
		var broken *audit.BrokenError
		if !errors.As(err, &broken) || broken.Seq != 77 {
			t.Errorf("%s: %v", what, err)
		}
		check(t, db.Close())
		if r := checkBoth(t, o); !strings.Contains(problems(r), "audit/77: the audit chain is broken here") {
			t.Errorf("%s: %s", what, problems(r))
		}
	}
}

// A chain whose end is cut off takes no records: opening says so and what to do,
// reading goes on, and changes are refused at once.
func TestAuditWithoutItsEnd(t *testing.T) {
	for what, cut := range map[string]func(tx *bolt.Tx) error{
		"tail removed": func(tx *bolt.Tx) error { _, err := remove(tx, bucketAudit, seqKey(100)); return err },
		"end unreadable": func(tx *bolt.Tx) error {
			return errors.Join(spoil(tx.Bucket([]byte(bucketAudit)), seqKey(100), 20), spoil(tx.Bucket([]byte(bucketAuditHead)), []byte(keyHead), 10))
		},
	} {
		o := options(privateDir(t))
		db := openTest(t, o)
		fillAudit(t, db, 100)
		check(t, db.Health(t.Context()))
		check(t, db.update(t.Context(), cut))
		check(t, db.Close())
		var log strings.Builder
		o.Logger = zerolog.New(&log)
		db = openTest(t, o)
		for _, want := range []string{"takes no records", "store restore BACKUP`", "init --force`", "record 100"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: no %q in the log: %s", what, want, log.String())
			}
		}
		if err := db.Health(t.Context()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: health: %v", what, err)
		}
		if err := db.AppendAudit(t.Context(), []audit.Record{{Command: "next"}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: append: %v", what, err)
		}
		ctx := audit.WithPending(t.Context(), audit.NewPending(callRecords()...))
		if err := db.CreateToken(ctx, testToken("new")); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a change: %v", what, err)
		}
		if _, err := db.Tokens(t.Context()); err != nil {
			t.Errorf("%s: a read: %v", what, err)
		}
		select {
		case <-db.Failed():
			t.Errorf("%s: the store counts as failed", what)
		default:
		}
		check(t, db.Close())
		found := false
		for _, p := range checkBoth(t, o).Problems {
			found = found || p.Next == nextNoAudit
		}
		if !found {
			t.Errorf("%s: the check does not say what it means", what)
		}
	}
}
