package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

const bucketTestNotes = "notes" // that version 3 of testMigrations has

// testMigrations stand for what later versions will bring: version 2 rewrites a
// record, version 3 adds a bucket. The program has no steps yet.
func testMigrations() []migration {
	return []migration{
		{2, func(tx *bolt.Tx) error {
			return put(tx, bucketBlobs, []byte("blob-1"), []byte(`{"name":"blob-1","migrated":true}`))
		}},
		{3, func(tx *bolt.Tx) error {
			if _, err := tx.CreateBucket([]byte(bucketTestNotes)); err != nil {
				return err
			}
			if err := (tally{}).write(tx, bucketTestNotes); err != nil {
				return err
			}
			return putJSON(tx, bucketTestNotes, []byte("a"), "note")
		}},
	}
}

// openOld returns the options of a filled, closed store of version 1, and its
// bytes.
func openOld(t *testing.T) (Options, []byte) {
	t.Helper()
	f := newFixture(t)
	o := options(privateDir(t))
	check(t, os.WriteFile(filepath.Join(o.Dir, FileName), f.file, 0o600))
	check(t, os.WriteFile(filepath.Join(o.Dir, markerName), nil, 0o600))
	return o, f.file
}

func storedSchema(t *testing.T, db *DB) (v int) {
	t.Helper()
	check(t, db.view(t.Context(), func(tx *bolt.Tx) (err error) { v, err = schema(tx); return err }))
	return v
}

func TestUpgrade(t *testing.T) {
	o, _ := openOld(t)
	o.migrations = testMigrations()[:1]
	db := openTest(t, o)
	if v := storedSchema(t, db); v != 2 {
		t.Errorf("version %d", v)
	}
	check(t, db.Close())
	o.migrations = testMigrations()
	db = openTest(t, o)
	if v := storedSchema(t, db); v != 3 {
		t.Errorf("version %d", v)
	}
	check(t, db.view(t.Context(), func(tx *bolt.Tx) error {
		for bucket, key := range map[string]string{bucketBlobs: "blob-1", bucketTestNotes: "a"} {
			payload, err := get(tx, bucket, []byte(key))
			if err != nil || payload == nil {
				t.Errorf("%s: %s, %v", key, payload, err)
			}
		}
		return nil
	}))
	verifyChain(t, db)
	if r, err := db.Check(t.Context()); err != nil || len(r.Problems) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	check(t, db.Close())

	// The copies open with the programs that knew their forms; a program is
	// pointed to the right one, which the very command in the message restores.
	path := filepath.Join(o.Dir, FileName)
	for _, c := range []struct {
		known int
		copy  string
	}{{2, path + ".before-3"}, {1, path + ".before-2"}} {
		before, err := os.ReadFile(path)
		check(t, err)
		o.migrations = slices.Clip(testMigrations()[:c.known-1])
		_, err = Open(o)
		if !errors.Is(err, ErrTooNew) || !strings.Contains(err.Error(), "store restore "+c.copy+"`") {
			t.Errorf("program of version %d: %v", c.known, err)
		}
		after, err := os.ReadFile(path)
		check(t, err)
		if !bytes.Equal(before, after) {
			t.Error("the file was changed")
		}
		other := o
		other.Dir = privateDir(t)
		_, err = Restore(other, c.copy, false)
		check(t, err)
		db := openTest(t, other)
		if v := storedSchema(t, db); v != c.known {
			t.Errorf("copy %s is of version %d", c.copy, v)
		}
	}
}

// Two steps in one go are one transaction, and one copy.
func TestUpgradeOfTwoSteps(t *testing.T) {
	o, _ := openOld(t)
	o.migrations = testMigrations()
	openTest(t, o)
	entries, err := filepath.Glob(filepath.Join(o.Dir, "*before*"))
	check(t, err)
	if len(entries) != 1 || !strings.HasSuffix(entries[0], "ze.db.before-3") {
		t.Errorf("copies: %v", entries)
	}
	if r, err := inspectFile(entries[0], 1); err != nil || r.Schema != 1 || len(r.Problems) > 0 {
		t.Errorf("copy: %+v, %v", r, err)
	}
}

// A step that fails, or that leaves something wrong, leaves the file as it was.
func TestUpgradeFails(t *testing.T) {
	boom := errors.New("boom")
	for what, step := range map[string]func(tx *bolt.Tx) error{
		"error":  func(*bolt.Tx) error { return boom },
		"tally":  func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketBlobs)).Delete([]byte("blob-0")) },
		"bucket": func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte(bucketBlobs)) },
	} {
		o, file := openOld(t)
		o.migrations = []migration{testMigrations()[0], {3, step}}
		_, err := Open(o)
		if err == nil || !strings.Contains(err.Error(), "upgrade from schema version 1 to 3") || what == "error" && !errors.Is(err, boom) {
			t.Errorf("%s: %v", what, err)
		}
		after, err := os.ReadFile(filepath.Join(o.Dir, FileName))
		check(t, err)
		if !bytes.Equal(file, after) {
			t.Errorf("%s: the file was changed", what)
		}
		o.migrations = nil
		check(t, openTest(t, o).Close())
	}
}

// A damaged database is not upgraded: its copy would be the one to go back to.
func TestUpgradeRefusesDamage(t *testing.T) {
	o, _ := openOld(t)
	change(t, o, func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucketBlobs)).Delete([]byte("blob-0")) })
	o.migrations = testMigrations()
	if _, err := Open(o); !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "before") {
		t.Errorf("%v", err)
	}
	if entries, err := filepath.Glob(filepath.Join(o.Dir, "*before*")); err != nil || len(entries) > 0 {
		t.Errorf("copies: %v, %v", entries, err)
	}
}

// A process that dies at any point of an upgrade leaves a database that the next
// one brings to the end.
func TestKilledWhileUpgrading(t *testing.T) {
	f := newFixture(t)
	old, upgraded := 0, 0
	for round := range 15 {
		o := options(privateDir(t))
		check(t, os.WriteFile(filepath.Join(o.Dir, FileName), f.file, 0o600))
		check(t, os.WriteFile(filepath.Join(o.Dir, markerName), nil, 0o600))
		p := spawn(t, "upgrade", o.Dir)
		p.line(t)
		killAfter(p, round)
		r, err := CheckFile(Options{Dir: o.Dir, migrations: testMigrations()})
		check(t, err)
		switch {
		case len(r.Problems) > 0:
			t.Fatalf("killed after %d ms: %s", round, problems(r))
		case r.Schema == 1:
			old++
		case r.Schema == 3:
			upgraded++
		default:
			t.Fatalf("killed after %d ms: version %d", round, r.Schema)
		}
		o.migrations = testMigrations()
		db := openTest(t, o)
		if v := storedSchema(t, db); v != 3 {
			t.Errorf("version %d", v)
		}
		check(t, db.Close())
	}
	t.Log(fmt.Sprint(old, " were left as they were, ", upgraded, " upgraded"))
}
