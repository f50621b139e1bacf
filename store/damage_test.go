package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/config"
)

// openBytes opens a store whose file has this content.
func openBytes(t testing.TB, file []byte) (*DB, Options, error) {
	t.Helper()
	o := options(privateDir(t))
	check(t, os.WriteFile(filepath.Join(o.Dir, FileName), file, 0o600))
	check(t, os.WriteFile(filepath.Join(o.Dir, markerName), nil, 0o600))
	db, err := Open(o)
	return db, o, err
}

// mustNotLie opens a changed file: either that fails with one of the two errors
// for it and the file is as it was; or everything that can be read is right, and
// what cannot is reported, and writing does not end the process either.
func mustNotLie(t *testing.T, f fixture, file []byte, what string) (opened bool) {
	t.Helper()
	db, o, err := openBytes(t, file)
	after, rerr := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, rerr)
	if sha256.Sum256(after) != sha256.Sum256(file) {
		t.Errorf("%s: opening changed the file", what)
	}
	if err != nil {
		var e *Error
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrTooNew) || !errors.As(err, &e) || e.Next == "" {
			t.Errorf("%s: neither damaged nor too new, or no advice: %v", what, err)
		}
		return false
	}
	defer db.Close()
	got, readErr := dump(t, db)
	for name, value := range got {
		if f.content[name] != value {
			t.Errorf("%s: %s reads as %.200s and is %.200s", what, name, value, f.content[name])
		}
	}
	bad, err := db.CheckRecords(t.Context())
	check(t, err)
	if len(got) < len(f.content) && len(bad) == 0 && readErr == nil {
		t.Errorf("%s: %d of %d things are gone and nothing is reported", what, len(f.content)-len(got), len(f.content))
	}
	db.bolt.Load().NoSync = true // this is about panics
	db.CreateToken(t.Context(), testToken("new"))
	db.DeleteToken(t.Context(), "token-11")
	db.AppendAudit(t.Context(), []audit.Record{{Phase: audit.Call}})
	addRevision(t.Context(), db, config.Revision{Text: []byte("x")})
	db.DeleteBlob(t.Context(), "blob-2")
	return true
}

func TestBitFlips(t *testing.T) {
	f := newFixture(t)
	rng := rand.New(rand.NewPCG(1, 2))
	opened := 0
	flip := func(offset, bit int) {
		file := slices.Clone(f.file)
		file[offset] ^= 1 << bit
		if mustNotLie(t, f, file, fmt.Sprintf("bit %d of byte %#x", bit, offset)) {
			opened++
		}
	}
	for range 200 {
		flip(rng.IntN(f.used), rng.IntN(8))
	}
	// Most of a page is data or empty: aim at headers and first elements too.
	const pageSize = 4096
	for page := range f.used / pageSize {
		for range 4 {
			flip(page*pageSize+rng.IntN(pageHeader+2*elementSize), rng.IntN(8))
		}
	}
	t.Logf("%d bytes in use, %d times opened", f.used, opened)
}

func TestLargerDamage(t *testing.T) {
	f := newFixture(t)
	const pageSize = 4096
	rng := rand.New(rand.NewPCG(3, 4))
	pages := f.used / pageSize
	for page := range pages {
		at := page * pageSize
		zeroed := slices.Clone(f.file)
		clear(zeroed[at : at+pageSize])
		mustNotLie(t, f, zeroed, fmt.Sprintf("page %d zeroed", page))

		noise := slices.Clone(f.file)
		for i := range pageSize {
			noise[at+i] = byte(rng.Uint32())
		}
		mustNotLie(t, f, noise, fmt.Sprintf("page %d random", page))

		other := (page + 1 + rng.IntN(pages-1)) % pages * pageSize
		swapped := slices.Clone(f.file)
		copy(swapped[at:at+pageSize], f.file[other:])
		copy(swapped[other:other+pageSize], f.file[at:])
		mustNotLie(t, f, swapped, fmt.Sprintf("pages %d and %d swapped", page, other/pageSize))

		// Every checksum stays right; records vanish.
		fewer := slices.Clone(f.file)
		if n := native.Uint16(fewer[at+10:]); n > 1 && page > 1 {
			native.PutUint16(fewer[at+10:], n-1)
			mustNotLie(t, f, fewer, fmt.Sprintf("page %d: count %d lowered", page, n))
		}
	}
}

func TestTruncated(t *testing.T) {
	f := newFixture(t)
	sizes := []int{0, 1, 16, 80, 1023, 1024, 4095, 4096, 4097, 4096 + 80, 8191, 8192, 8193, 12288, 16384, f.used / 2, f.used - 4096, f.used - 1}
	for _, size := range sizes {
		if mustNotLie(t, f, f.file[:size], fmt.Sprintf("truncated to %d", size)) {
			t.Errorf("opened although truncated to %d of %d bytes in use", size, f.used)
		}
	}
	path := filepath.Join(privateDir(t), FileName)
	check(t, os.WriteFile(path, f.file[:f.used-1], 0o600))
	if _, err := checkPages(path, false); err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("the error does not say that the file is truncated: %v", err)
	}
	// What is beyond the high-water mark holds nothing.
	if !mustNotLie(t, f, f.file[:f.used], "truncated to what is used") {
		t.Error("not opened although everything in use is there")
	}
}

func TestNotADatabase(t *testing.T) {
	f := newFixture(t)
	garbage := make([]byte, 64<<10)
	rand.NewChaCha8([32]byte{1}).Read(garbage)
	text := slices.Repeat([]byte("this is a text file\n"), 2000)
	metas := slices.Clone(f.file)
	clear(metas[:8192])
	for what, file := range map[string][]byte{"garbage": garbage, "text": text, "zeros": make([]byte, 64<<10), "both metas zeroed": metas} {
		if mustNotLie(t, f, file, what) {
			t.Errorf("%s was opened", what)
		}
	}
}

// One damaged meta page is not passed over in silence: the other one may be the
// state before the last change.
func TestOneMetaZeroed(t *testing.T) {
	f := newFixture(t)
	for page := range 2 {
		file := slices.Clone(f.file)
		clear(file[page*4096 : page*4096+4096])
		_, o, err := openBytes(t, file)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "fallback") {
			t.Fatalf("meta page %d zeroed: %v", page, err)
		}
		var log strings.Builder
		o.Fallback, o.Logger = true, zerolog.New(&log)
		db := openTest(t, o)
		got, err := dump(t, db)
		check(t, err)
		for name, value := range got {
			if want, ok := f.content[name]; ok && want != value && !strings.HasPrefix(name, "head") {
				t.Errorf("%s reads as %.100s", name, value)
			}
		}
		if !strings.Contains(log.String(), "the last change may be lost") {
			t.Errorf("no warning in the log: %s", log.String())
		}
		check(t, db.CreateToken(t.Context(), testToken("new")))
		check(t, db.Close())
		// The next commit has written the other page anew.
		o.Fallback = false
		openTest(t, o)
	}
}

func TestEmptyOrMissingAfterFirstStart(t *testing.T) {
	o := options(privateDir(t))
	check(t, openTest(t, o).Close())
	path := filepath.Join(o.Dir, FileName)
	check(t, os.Truncate(path, 0))
	if _, err := Open(o); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty: %v", err)
	}
	check(t, os.Remove(path))
	if _, err := Open(o); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("missing: %v", err)
	}
	if err := Create(o); !errors.Is(err, ErrExists) {
		t.Errorf("create after loss: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a new database took the place of the lost one")
	}
	// An empty file is never a new database, not even before the first start.
	o = options(privateDir(t))
	check(t, os.WriteFile(filepath.Join(o.Dir, FileName), nil, 0o600))
	if _, err := Open(o); !errors.Is(err, ErrDamaged) {
		t.Errorf("empty on first start: %v", err)
	}
	o = options(filepath.Join(t.TempDir(), "nowhere"))
	o.Create = false
	if _, err := Open(o); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), " init") {
		t.Errorf("never created: %v", err)
	}
	if _, err := os.Stat(o.Dir); err == nil {
		t.Error("the directory was created")
	}
}

// change edits a closed database behind the store's back.
func change(t *testing.T, o Options, fn func(tx *bolt.Tx) error) {
	t.Helper()
	b, err := bolt.Open(filepath.Join(o.Dir, FileName), 0o600, &bolt.Options{NoFreelistSync: true})
	check(t, err)
	check(t, b.Update(fn))
	check(t, b.Close())
}

func TestNewerSchemaIsNotTouched(t *testing.T) {
	o := options(privateDir(t))
	check(t, openTest(t, o).Close())
	change(t, o, func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), []byte("2")) })
	path := filepath.Join(o.Dir, FileName)
	before, err := os.ReadFile(path)
	check(t, err)
	_, err = Open(o)
	if !errors.Is(err, ErrTooNew) || !strings.Contains(err.Error(), "schema version 2") {
		t.Errorf("newer schema: %v", err)
	}
	after, err := os.ReadFile(path)
	check(t, err)
	if sha256.Sum256(before) != sha256.Sum256(after) {
		t.Error("the file was changed")
	}
}

func TestFreelistOfOtherToolsIsChecked(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	check(t, db.Close())
	b, err := bolt.Open(filepath.Join(o.Dir, FileName), 0o600, nil) // writes a freelist
	check(t, err)
	check(t, b.Close())
	check(t, openTest(t, o).Close())

	file, err := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, err)
	first, second := native.Uint64(file[16+32:]), native.Uint64(file[4096+16+32:])
	at := min(first, second) * 4096
	if at/4096 == noFreelist || native.Uint16(file[at+8:]) != flagFreelist {
		t.Fatalf("no freelist at page %d", at/4096)
	}
	native.PutUint64(file[at+pageHeader:], native.Uint64(file[16+16:])) // says the root page is free
	if _, _, err := openBytes(t, file); !errors.Is(err, ErrDamaged) {
		t.Errorf("root page in the freelist: %v", err)
	}
}

func spoil(b *bolt.Bucket, key []byte, at int) error {
	v := slices.Clone(b.Get(key))
	v[at] ^= 1
	return b.Put(slices.Clone(key), v)
}

func TestVanishedAndForeignRecords(t *testing.T) {
	for what, edit := range map[string]func(b *bolt.Bucket) error{
		"deleted": func(b *bolt.Bucket) error { k, _ := b.Cursor().First(); return b.Delete(k) },
		"added": func(b *bolt.Bucket) error {
			return b.Put([]byte("x"), encode(bucketTokenNames, []byte("x"), []byte("y")))
		},
		"deleted beside a bad one": func(b *bolt.Bucket) error {
			first, _ := b.Cursor().First()
			last, _ := b.Cursor().Last()
			return errors.Join(spoil(b, last, 7), b.Delete(first))
		},
		"replaced by an older one": func(b *bolt.Bucket) error {
			k, _ := b.Cursor().First()
			return b.Put(slices.Clone(k), encode(bucketTokenNames, k, []byte("older")))
		},
	} {
		o := options(privateDir(t))
		db := openTest(t, o)
		fill(t, db)
		check(t, db.Close())
		change(t, o, func(tx *bolt.Tx) error { return edit(tx.Bucket([]byte(bucketTokenNames))) })
		if _, err := Open(o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), bucketTokenNames) {
			t.Errorf("record %s: %v", what, err)
		}
	}
}

// A bad record is not returned, is listed, can be deleted or written again, and
// costs nothing else.
func TestBadRecordDisablesOnlyItself(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	want, err := dump(t, db)
	check(t, err)
	check(t, db.Close())
	token := testToken("token-01")
	change(t, o, func(tx *bolt.Tx) error {
		return errors.Join(
			spoil(tx.Bucket([]byte(bucketTokens)), token.Digest[:], 2), // its checksum
			spoil(tx.Bucket([]byte(bucketTokenNames)), []byte("token-02"), 9),
			spoil(tx.Bucket([]byte(bucketAnnouncements)), []byte("small"), 20),
			spoil(tx.Bucket([]byte(bucketAuditHead)), []byte(keyHead), 6),
		)
	})
	var log strings.Builder
	o.Logger = zerolog.New(&log)
	db = openTest(t, o)
	got, readErr := dump(t, db)
	check(t, readErr)
	if len(want)-len(got) != 2 {
		t.Errorf("%d things are gone, 2 are damaged", len(want)-len(got))
	}
	if n := strings.Count(log.String(), "damaged record skipped"); n != 4 {
		t.Errorf("%d reports for 4 bad records:\n%s", n, log.String())
	}
	bad, err := db.CheckRecords(t.Context())
	check(t, err)
	if len(bad) != 4 || bad[0].Bucket != bucketTokens || bad[1].Key != "token-02" || bad[2].Key != "small" || bad[3].Key != keyHead {
		t.Errorf("bad records: %+v", bad)
	}
	if _, err := db.TokenByDigest(t.Context(), token.Digest); !errors.Is(err, ErrBadRecord) {
		t.Errorf("damaged token: %v", err)
	}
	for _, name := range []string{"token-01", "token-02"} {
		check(t, revoke(t.Context(), db, name))
		check(t, db.CreateToken(t.Context(), testToken(name)))
	}
	check(t, db.ReplaceAnnouncements(t.Context(), []bgp.Announcement{testAnnouncement("small", 3)}, nil))
	check(t, db.AppendAudit(t.Context(), []audit.Record{{Time: now, Command: "mend"}}))
	verifyChain(t, db)
	bad, err = db.CheckRecords(t.Context())
	if err != nil || len(bad) != 0 {
		t.Errorf("after mending: %+v, %v", bad, err)
	}
	got, err = dump(t, db)
	check(t, err)
	if len(got) != len(want)+1 {
		t.Errorf("after mending %d of %d things", len(got), len(want))
	}
}

// The file changes while it is open: reads past its end are memory faults, and
// must come back as errors.
func TestFileCutWhileOpen(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	check(t, os.Truncate(filepath.Join(o.Dir, FileName), 8192))
	if _, err := db.Tokens(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	if err := db.CreateToken(t.Context(), testToken("new")); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFailed) {
		t.Errorf("write: %v", err)
	}
	select {
	case <-db.Failed():
	default:
		t.Error("the store does not say that it has failed")
	}
	if err := db.CreateToken(t.Context(), testToken("new")); !errors.Is(err, ErrFailed) {
		t.Errorf("second write: %v", err)
	}
}
