package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
)

// sameContent holds what a store gives against content.
func sameContent(t *testing.T, db *DB, content map[string]string) {
	t.Helper()
	got, err := dump(t, db)
	check(t, err)
	if !maps.Equal(got, content) {
		t.Errorf("%d things, want %d", len(got), len(content))
	}
}

func TestBackupAndRestore(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	content, err := dump(t, db)
	check(t, err)
	file := filepath.Join(t.TempDir(), "copy.db")
	r, err := db.Backup(t.Context(), file, false)
	check(t, err)
	if r.Path != file || r.Records == 0 || r.Head.Seq != 150 || len(r.Problems) > 0 {
		t.Errorf("report: %+v", r)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Never over something else, unless asked; then only over a database.
	if _, err := db.Backup(t.Context(), file, false); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "force") {
		t.Errorf("second backup: %v", err)
	}
	check(t, db.CreateToken(t.Context(), testToken("later")))
	_, err = db.Backup(t.Context(), file, true)
	check(t, err)
	other := filepath.Join(t.TempDir(), "letter.txt")
	check(t, os.WriteFile(other, []byte("dear all"), 0o600))
	if _, err := db.Backup(t.Context(), other, true); !errors.Is(err, ErrInvalid) {
		t.Errorf("over a letter: %v", err)
	}
	for _, own := range []string{FileName, lockName, markerName} {
		if _, err := db.Backup(t.Context(), filepath.Join(o.Dir, own), true); !errors.Is(err, ErrInvalid) {
			t.Errorf("over %s: %v", own, err)
		}
	}
	for _, bad := range []string{"copy.db", "/nowhere/at/all.db"} {
		if _, err := db.Backup(t.Context(), bad, false); err == nil {
			t.Errorf("backup to %s succeeded", bad)
		}
	}
	left, err := os.ReadDir(filepath.Dir(file))
	check(t, err)
	if len(left) != 1 {
		t.Errorf("files left: %v", left)
	}

	// Restored where there is nothing, and in the place of another one.
	if _, err := Restore(o, file, false); !errors.Is(err, ErrLocked) {
		t.Errorf("under an open store: %v", err)
	}
	check(t, db.Close())
	content["token later"] = ""
	fresh := options(filepath.Join(t.TempDir(), "a", "b"))
	fresh.Create = false
	for round, dir := range []string{fresh.Dir, o.Dir} {
		o := options(dir)
		res, err := Restore(o, file, false)
		check(t, err)
		if (res.Aside == "") != (round == 0) || res.Path != filepath.Join(dir, FileName) {
			t.Errorf("restored: %+v", res)
		}
		db := openTest(t, o)
		got, err := dump(t, db)
		check(t, err)
		if len(got) != len(content) {
			t.Errorf("%d things, want %d", len(got), len(content))
		}
		verifyChain(t, db)
		check(t, db.Close())
		if round == 1 {
			// What was there before is whole.
			if r, err := inspectFile(res.Aside, schemaVersion); err != nil || len(r.Problems) > 0 {
				t.Errorf("kept aside: %+v, %v", r, err)
			}
		}
	}
}

// Without force nothing is replaced, not even a file that appears meanwhile.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	fresh, file := filepath.Join(dir, "fresh"), filepath.Join(dir, "file")
	check(t, os.WriteFile(fresh, []byte("fresh"), 0o600))
	check(t, os.WriteFile(file, []byte("old"), 0o600))
	if err := publish(fresh, file, false); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "old" {
		t.Errorf("%s, %v", b, err)
	}
	check(t, publish(fresh, file, true))
	if b, err := os.ReadFile(file); err != nil || string(b) != "fresh" {
		t.Errorf("%s, %v", b, err)
	}
}

// A backup that Open would refuse changes nothing.
func TestRestoreRefusesDamage(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	check(t, db.CreateToken(t.Context(), testToken("mine")))
	check(t, db.Close())
	f := newFixture(t)
	half := f.file[:f.used/2]
	newer := slices.Clone(f.file)
	dir := t.TempDir()
	for what, file := range map[string][]byte{"half": half, "empty": nil, "text": []byte("not a database")} {
		path := filepath.Join(dir, what)
		check(t, os.WriteFile(path, file, 0o644))
		if _, err := Restore(o, path, false); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	path := filepath.Join(dir, "newer")
	check(t, os.WriteFile(path, newer, 0o600))
	b, err := bolt.Open(path, 0o600, nil)
	check(t, err)
	check(t, b.Update(func(tx *bolt.Tx) error { return writeSchema(tx, schemaVersion+1) }))
	check(t, b.Close())
	if _, err := Restore(o, path, false); !errors.Is(err, ErrTooNew) {
		t.Errorf("newer: %v", err)
	}
	if _, err := Restore(o, filepath.Join(dir, "nothing"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	db = openTest(t, o)
	if _, err := db.TokenByDigest(t.Context(), testToken("mine").Digest); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(o.Dir)
	check(t, err)
	if len(entries) != 3 {
		t.Errorf("files: %v", entries)
	}
}

// The state that the surviving meta page describes can be had without a backup.
func TestRestoreFallback(t *testing.T) {
	f := newFixture(t)
	for page := range 2 {
		file := slices.Clone(f.file)
		clear(file[page*4096 : page*4096+4096])
		_, o, err := openBytes(t, file)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "store restore "+filepath.Join(o.Dir, FileName)+" fallback`") {
			t.Fatalf("the message does not say how: %v", err)
		}
		path := filepath.Join(o.Dir, FileName)
		if _, err := Restore(o, path, false); !errors.Is(err, ErrDamaged) {
			t.Errorf("without fallback: %v", err)
		}
		res, err := Restore(o, path, true)
		check(t, err)
		after, err := os.ReadFile(res.Aside)
		check(t, err)
		if !slices.Equal(after, file) {
			t.Error("what is kept aside is not the damaged file")
		}
		db := openTest(t, o)
		verifyChain(t, db)
		check(t, db.CreateToken(t.Context(), testToken("new")))
	}
}

// Every copy made while others write is a good one, and holds a state that was.
func TestBackupsUnderLoad(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	var done atomic.Uint64
	// So many changes for each backup, however fast the disk: the store must not
	// grow without end.
	turns := make(chan struct{}, 200)
	for range 4 {
		g.Go(func() error {
			for i := 0; ; i++ {
				select {
				case <-turns:
				case <-ctx.Done():
					return nil
				}
				id := fmt.Sprint(i % 50)
				c := audit.WithPending(context.Background(), audit.NewPending(callRecords()...))
				if err := db.ReplaceAnnouncements(c, []bgp.Announcement{testAnnouncement(id, i%300)}, nil); err != nil {
					return err
				}
				done.Add(1)
			}
		})
	}
	dir := t.TempDir()
	var last uint64
	for i := range 20 {
		have := done.Load()
		for len(turns) < cap(turns) {
			turns <- struct{}{}
		}
		for done.Load() < have+5 {
			time.Sleep(time.Millisecond)
		}
		if i == 10 {
			_, err := db.Compact(t.Context())
			check(t, err)
		}
		before := done.Load()
		r, err := db.Backup(t.Context(), filepath.Join(dir, fmt.Sprint(i)), false)
		check(t, err)
		if len(r.Problems) > 0 || r.Head.Seq < last || r.Head.Seq < 2*before {
			t.Errorf("backup %d: %+v after %d changes, last %d", i, r, before, last)
		}
		last = r.Head.Seq
		if r, err := db.Check(t.Context()); err != nil || len(r.Problems) > 0 {
			t.Errorf("check %d: %+v, %v", i, r.Problems, err)
		}
	}
	cancel()
	check(t, g.Wait())
}

func TestCompact(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	fill(t, db)
	db.bolt.Load().NoSync = true
	for i := range 40 {
		_, err := db.PutBlob(t.Context(), fmt.Sprint("big-", i), []byte(strings.Repeat(fmt.Sprint(i), 50_000)))
		check(t, err)
	}
	for i := range 40 {
		check(t, db.DeleteBlob(t.Context(), fmt.Sprint("big-", i)))
	}
	content, err := dump(t, db)
	check(t, err)
	// Somebody reads throughout, and finds everything.
	ctx, cancel := context.WithCancel(t.Context())
	var g errgroup.Group
	for range 2 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if tokens, err := db.Tokens(context.Background()); err != nil || len(tokens) != 35 {
					return fmt.Errorf("%d tokens, %v", len(tokens), err)
				}
			}
			return nil
		})
	}
	c, err := db.Compact(t.Context())
	check(t, err)
	cancel()
	check(t, g.Wait())
	if c.After > c.Before/2 {
		t.Errorf("%+v", c)
	}
	info, err := os.Stat(filepath.Join(o.Dir, FileName))
	check(t, err)
	if info.Size() > 2*c.After {
		t.Errorf("the file has %d bytes, should need %d", info.Size(), c.After)
	}
	sameContent(t, db, content)
	check(t, db.Close())
	// Both meta pages describe all of it.
	file, err := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, err)
	for page := range 2 {
		half := slices.Clone(file)
		clear(half[page*4096 : page*4096+4096])
		_, o, err := openBytes(t, half)
		if !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		o.Fallback = true
		sameContent(t, openTest(t, o), content)
	}
	db = openTest(t, o)
	check(t, db.CreateToken(t.Context(), testToken("new")))
	check(t, db.Close())
	db = openTest(t, o)
	if _, err := db.TokenByDigest(t.Context(), testToken("new").Digest); err != nil {
		t.Errorf("what was written after compaction: %v", err)
	}
	if r, err := db.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r.Problems, err)
	}
}

// A large file that is more than half free is compacted when it is opened, and
// only that.
func TestCompactedWhenOpened(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	db.bolt.Load().NoSync = true
	path := filepath.Join(o.Dir, FileName)
	size := func() int64 {
		info, err := os.Stat(path)
		check(t, err)
		return info.Size()
	}
	_, err := db.PutBlob(t.Context(), "a", make([]byte, 3<<20))
	check(t, err)
	check(t, db.Close())
	full := size()
	o.compactAbove = 1 << 20
	db = openTest(t, o)
	if size() != full {
		t.Errorf("a file in use was compacted: %d, %d", full, size())
	}
	check(t, db.DeleteBlob(t.Context(), "a"))
	check(t, db.Close())
	o.compactAbove = 100 << 20
	check(t, openTest(t, o).Close())
	if size() != full {
		t.Errorf("below the threshold: %d, %d", full, size())
	}
	o.compactAbove = 1 << 20
	openTest(t, o)
	if size() > 1<<20 {
		t.Errorf("%d bytes, before %d", size(), full)
	}
}

func TestStatsAndDump(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	fill(t, db)
	s, err := db.Stats(t.Context())
	check(t, err)
	records := map[string]uint64{}
	for _, k := range s.Kinds {
		records[k.Kind] = k.Records
	}
	if s.Schema != schemaVersion || s.Instance != "test" || s.Free <= 0 || s.Free >= s.Size || records["token"] != 35 || records["audit"] != 150 {
		t.Errorf("%+v", s)
	}
	for _, kind := range Kinds() {
		all, err := db.Dump(t.Context(), kind, 0, 1000)
		check(t, err)
		if uint64(len(all)) != records[kind] {
			t.Errorf("%d of %d records of %s", len(all), records[kind], kind)
		}
	}
	page, err := db.Dump(t.Context(), "audit", 149, 10)
	check(t, err)
	if len(page) != 1 || page[0].Key != "150" || !strings.Contains(string(page[0].JSON), `"command":"show version"`) {
		t.Errorf("last page: %s", page)
	}
	tokens, err := db.Dump(t.Context(), "token", 0, 1)
	check(t, err)
	token := testToken(tokens[0].Key)
	if !strings.HasPrefix(token.Name, "token-") {
		t.Errorf("a token is called %s", token.Name)
	}
	for _, secret := range []string{fmt.Sprintf("%x", token.Digest), string(token.Digest[:])} {
		if strings.Contains(fmt.Sprintf("%s %s", tokens[0].Key, tokens[0].JSON), secret) {
			t.Errorf("the digest is there: %s", tokens[0].JSON)
		}
	}
	if _, err := db.Dump(t.Context(), "secret", 0, 1); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "token") {
		t.Errorf("unknown kind: %v", err)
	}
}
