package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/config"
)

// problems returns what a check says, one line each.
func problems(r Report) string {
	var b strings.Builder
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "%s/%s: %s fatal=%v\n", p.Bucket, p.Key, p.Reason, p.Fatal)
	}
	return b.String()
}

// checkBoth checks a database as a file and, if it opens, open; both must say
// the same.
func checkBoth(t *testing.T, o Options) Report {
	t.Helper()
	r, err := CheckFile(o)
	check(t, err)
	db, err := Open(o)
	if opens := r.fatal("") == nil; opens != (err == nil) {
		t.Errorf("the check says that it opens: %v; Open: %v", opens, err)
	}
	if err != nil {
		return r
	}
	defer db.Close()
	hot, err := db.Check(t.Context())
	check(t, err)
	if problems(r) != problems(hot) || r.Records != hot.Records || r.Head != hot.Head || r.Path != hot.Path {
		t.Errorf("closed: %+v\nopen:   %+v", r, hot)
	}
	return r
}

func TestCheckClean(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	if _, err := CheckFile(o); !errors.Is(err, ErrLocked) {
		t.Errorf("of an open store: %v", err)
	}
	check(t, db.Close())
	r := checkBoth(t, o)
	if len(r.Problems) > 0 || r.Head.Seq != 150 || r.Records < 240 || r.Size == 0 || r.Schema != schemaVersion {
		t.Errorf("%+v", r)
	}
	if _, err := CheckFile(options(privateDir(t))); !errors.Is(err, ErrMissing) {
		t.Errorf("of nothing: %v", err)
	}
}

// Every kind of damage is listed with its place, all of it at once.
func TestCheckListsProblems(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	check(t, db.Close())
	token := testToken("token-01")
	change(t, o, func(tx *bolt.Tx) error {
		names := tx.Bucket([]byte(bucketTokenNames))
		first, _ := names.Cursor().First()
		return errors.Join(
			spoil(tx.Bucket([]byte(bucketTokens)), token.Digest[:], 2),
			spoil(tx.Bucket([]byte(bucketAnnouncements)), []byte("small"), 20),
			spoil(tx.Bucket([]byte(bucketAudit)), seqKey(77), 20),
			names.Delete(first),
		)
	})
	r := checkBoth(t, o)
	for _, want := range []string{
		fmt.Sprintf("tokens/%x: checksum mismatch fatal=false", token.Digest),
		"announcements/small: checksum mismatch fatal=false",
		"audit/77: checksum mismatch fatal=false",
		"audit/77: the audit chain is broken here: it is damaged: checksum mismatch fatal=false",
		"token-names/: token-names holds 34 records",
	} {
		if !strings.Contains(problems(r), want) {
			t.Errorf("no %q in\n%s", want, problems(r))
		}
	}
	if len(r.Problems) != 5 {
		t.Errorf("%d problems:\n%s", len(r.Problems), problems(r))
	}
}

// A record that is sound by itself, but was changed together with its checksum.
func TestCheckFindsForgedAudit(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	records, err := db.AuditRecords(t.Context(), 41, 1)
	check(t, err)
	r := records[0]
	r.Principal = "mallory"
	check(t, db.update(t.Context(), func(tx *bolt.Tx) error { return putJSON(tx, bucketAudit, seqKey(r.Seq), r) }))
	if _, err := db.VerifyAudit(t.Context()); err == nil || !strings.Contains(err.Error(), "broken at record 42: it was changed") {
		t.Errorf("verify: %v", err)
	}
	check(t, db.Close())
	report := checkBoth(t, o)
	if !strings.Contains(problems(report), "audit/42: the audit chain is broken here: it was changed") {
		t.Errorf("check:\n%s", problems(report))
	}
}

// What Open refuses can be checked all the same, and is not touched.
func TestCheckOfWhatDoesNotOpen(t *testing.T) {
	f := newFixture(t)
	cut := f.file[:f.used/2]
	zeroed := slices.Clone(f.file)
	clear(zeroed[f.root*4096:][:4096])
	meta := slices.Clone(f.file)
	clear(meta[:4096])
	for what, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty": {nil, "the file is empty"}, "cut": {cut, "truncated"}, "zeroed page": {zeroed, fmt.Sprint("page ", f.root)}, "one meta": {meta, "meta page 0"},
	} {
		_, o, err := openBytes(t, c.file)
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, command := range []string{"store check`", "store restore BACKUP`"} {
			if !strings.Contains(err.Error(), "`ze --data "+o.Dir+" "+command) {
				t.Errorf("%s: the message does not name the command %s: %v", what, command, err)
			}
		}
		r := checkBoth(t, o)
		if len(r.Problems) != 1 || !r.Problems[0].Fatal || !strings.Contains(problems(r), c.want) {
			t.Errorf("%s: %s", what, problems(r))
		}
		after, err := os.ReadFile(filepath.Join(o.Dir, FileName))
		check(t, err)
		if sha256.Sum256(after) != sha256.Sum256(c.file) {
			t.Errorf("%s: the file was changed", what)
		}
	}
}

// A page that goes bad while the store is open is found by a check.
func TestCheckFindsDamageWhileOpen(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	var root uint64
	check(t, db.view(t.Context(), func(tx *bolt.Tx) error { root = uint64(tx.Bucket([]byte(bucketAudit)).Root()); return nil }))
	f, err := os.OpenFile(filepath.Join(o.Dir, FileName), os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt(make([]byte, 4096), int64(root)*4096)
	check(t, errors.Join(err, f.Close()))
	r, err := db.Check(t.Context())
	check(t, err)
	if !strings.Contains(problems(r), fmt.Sprintf("bucket audit: page %d says it is page 0", root)) {
		t.Errorf("%s", problems(r))
	}
}

func TestCheckWhileOthersWrite(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := db.AppendAudit(t.Context(), []audit.Record{{Phase: audit.Call, Command: "x"}}); err != nil {
				done <- err
				return
			}
		}
	}()
	var last uint64
	for range 50 {
		r, err := db.Check(t.Context())
		check(t, err)
		if len(r.Problems) > 0 || r.Head.Seq < last {
			t.Fatalf("after %d: %s", r.Head.Seq, problems(r))
		}
		last = r.Head.Seq
	}
	close(stop)
	check(t, <-done)
}

// Many problems are counted, not all listed.
func TestCheckOmits(t *testing.T) {
	var r Report
	for range maxProblems + 7 {
		r.add(Problem{Reason: "x"})
	}
	if len(r.Problems) != maxProblems || r.Omitted != 7 {
		t.Errorf("%d listed, %d omitted", len(r.Problems), r.Omitted)
	}
}

// Every bucket has something to say about a damaged record in it.
func TestRemedies(t *testing.T) {
	for _, bucket := range buckets {
		if remedy(bucket) == "" {
			t.Errorf("%s: no remedy", bucket)
		}
	}
	// Without the record of the instance the store does not open, and the check says so.
	o := options(privateDir(t))
	check(t, openTest(t, o).Close())
	change(t, o, func(tx *bolt.Tx) error { return spoil(tx.Bucket([]byte(bucketMeta)), []byte(keyInstance), 8) })
	if _, err := Open(o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "store restore BACKUP`") {
		t.Errorf("open: %v", err)
	}
	if r := checkBoth(t, o); len(r.Problems) != 1 || !r.Problems[0].Fatal {
		t.Errorf("check: %s", problems(r))
	}
}

// What the remedies say works, and leaves nothing damaged.
func TestRemediesWork(t *testing.T) {
	ctx := t.Context()
	blob := []byte("text")
	sum := sha256.Sum256(blob)
	put := func(db *DB) error { _, err := db.PutBlob(ctx, "a", blob); return err }
	remove := func(db *DB) error { return db.DeleteBlob(ctx, "a") }
	discard := func(db *DB) error { return db.DeleteCandidate(ctx, "x") }
	commit := func(db *DB) error {
		return db.CommitRevision(ctx, config.Step{Revision: config.NewRevision(2, now, "x", "config import", "", []byte("c"))})
	}
	for what, row := range map[string]struct {
		bucket string
		key    []byte
		mend   func(db *DB) error
		stays  bool
	}{
		"blob put":               {bucketBlobs, []byte("a"), put, false},
		"blob removed":           {bucketBlobs, []byte("a"), remove, false},
		"bytes of a blob":        {bucketBlobData, sum[:], put, false},
		"bytes of a blob gone":   {bucketBlobData, sum[:], remove, false},
		"candidate":              {bucketCandidates, []byte("x"), discard, false},
		"text of a candidate":    {bucketCandidateTexts, []byte("x"), discard, false},
		"confirmation":           {bucketConfirm, []byte(keyPending), commit, false},
		"newest revision":        {bucketRevisions, seqKey(2), commit, true},
		"text of newest":         {bucketRevisionTexts, seqKey(2), commit, true},
		"text of an earlier one": {bucketRevisionTexts, seqKey(1), commit, true},
	} {
		o := options(privateDir(t))
		db := openTest(t, o)
		check(t, put(db))
		check(t, db.CommitRevision(ctx, config.Step{Revision: config.NewRevision(0, now, "x", "commit", "", []byte("a"))}))
		check(t, db.CommitRevision(ctx, config.Step{
			Revision: config.NewRevision(1, now, "x", "commit confirmed 60", "", []byte("b")),
			Confirm:  &config.Confirm{Revision: 2, RevertTo: 1, Deadline: now.Add(time.Minute)},
		}))
		check(t, db.PutCandidate(ctx, config.Candidate{Owner: "x", Base: 2, Text: []byte("d")}))
		check(t, db.Close())
		change(t, o, func(tx *bolt.Tx) error { return spoil(tx.Bucket([]byte(row.bucket)), row.key, recordHeader) })
		if r := checkBoth(t, o); len(r.Problems) != 1 || r.Problems[0].Next == "" {
			t.Errorf("%s: %s", what, problems(r))
		}
		db = openTest(t, o)
		if err := row.mend(db); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		bad, err := db.CheckRecords(ctx)
		if err != nil || len(bad) > 0 != row.stays {
			t.Errorf("%s: afterwards %v, %v", what, bad, err)
		}
		if latest, err := db.LatestRevision(ctx); err != nil {
			t.Errorf("%s: newest revision %+v, %v", what, latest, err)
		}
	}
}
