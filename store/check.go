package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
)

// Report is what a check of a whole database found.
type Report struct {
	Path    string
	Schema  int
	Size    int64      // bytes of the file
	Records uint64     // kept, damaged ones included
	Head    audit.Head // end of the audit chain
	// Problems are in the order of the file, at most maxProblems of them; Omitted
	// counts the others.
	Problems []Problem
	Omitted  int
}

const maxProblems = 1000

// Problem is one thing that is wrong with a database.
type Problem struct {
	Bucket string // "" if the file as a whole is meant
	Key    string // in a form people can read; "" if the bucket as a whole is meant
	Reason string
	Next   string // what mends it; "" if only a backup does
	Fatal  bool   // the store does not open with it; otherwise a record cannot be used, and that is all
}

func (r *Report) add(p Problem) {
	if len(r.Problems) == maxProblems {
		r.Omitted++
		return
	}
	r.Problems = append(r.Problems, p)
}

// fatal returns the first problem with which the store does not open, as the
// error that Open answers.
func (r *Report) fatal(path string) error {
	for _, p := range r.Problems {
		if p.Fatal {
			return damaged(path, p.Reason)
		}
	}
	return nil
}

// Check reads every page, every record, the tallies and the audit chain. The
// error is that of a check that could not be made.
func (db *DB) Check(ctx context.Context) (r Report, err error) {
	release, err := db.maintain(ctx)
	if err != nil {
		return r, err
	}
	defer release()
	err = db.pinned(ctx, func(tx *bolt.Tx, w *walker, meta metaPage) error {
		r.Path, r.Size = db.path, int64(w.size)
		if err := w.walk(meta); err != nil {
			return pagesError(db.path, err)
		}
		v, err := knownSchema(tx, 1+len(db.migrations))
		if err != nil {
			return err
		}
		r.merge(inspect(tx, v))
		return nil
	})
	return r, r.structure(err)
}

// pinned calls fn with a read transaction and a walker at the same state: the
// pages of that state stay as they are while the transaction is open.
func (db *DB) pinned(ctx context.Context, fn func(tx *bolt.Tx, w *walker, meta metaPage) error) error {
	select {
	case <-db.writer:
	case <-ctx.Done():
		return ctx.Err()
	}
	writing := true
	resume := func() {
		if writing {
			writing = false
			db.writer <- struct{}{}
		}
	}
	defer resume()
	return db.view(ctx, func(tx *bolt.Tx) error {
		w, err := openWalker(db.path)
		if err != nil {
			return err
		}
		defer w.file.Close()
		meta, _, err := w.metas(false)
		resume()
		if err != nil {
			return pagesError(db.path, err)
		}
		return fn(tx, w, meta)
	})
}

// maintain gives the caller the file as a whole until release: no other check
// or copy runs, and none is compacted away.
func (db *DB) maintain(ctx context.Context) (release func(), err error) {
	select {
	case <-db.maintenance:
		return func() { db.maintenance <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// CheckFile checks the database in o.Dir without opening it for use: one that
// Open refuses, too. ErrLocked if a process has it open.
func CheckFile(o Options) (Report, error) {
	o = o.withDefaults()
	if err := mustExist(o.Dir); err != nil {
		return Report{}, err
	}
	if err := checkDir(o.Dir, o.Logger); err != nil {
		return Report{}, err
	}
	l, err := acquire(o.Dir, o.LockTimeout)
	if err != nil {
		return Report{}, err
	}
	defer l.release()
	path := filepath.Join(o.Dir, FileName)
	if err := checkFile(path); err != nil {
		return Report{}, err
	}
	return inspectFile(path, 1+len(o.migrations))
}

// inspectFile checks a file that nobody has open, without changing it.
func inspectFile(path string, known int) (r Report, err error) {
	r.Path = path
	info, err := os.Stat(path)
	if err != nil {
		return r, systemError(path, err)
	}
	r.Size = info.Size()
	if _, err := checkPages(path, false); err != nil {
		return r, r.structure(err)
	}
	b, err := openBolt(path, path, bolt.Options{ReadOnly: true})
	if err != nil {
		return r, r.structure(err)
	}
	defer b.Close()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			r.add(Problem{Reason: fmt.Sprint("it cannot be read: ", p), Fatal: true})
		}
	}()
	err = b.View(func(tx *bolt.Tx) error {
		v, err := knownSchema(tx, known)
		if err != nil {
			return r.structure(err)
		}
		r.merge(inspect(tx, v))
		return nil
	})
	return r, err
}

// structure keeps damage as a problem and returns every other error.
func (r *Report) structure(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrDamaged {
		return err
	}
	r.add(Problem{Reason: e.Detail, Fatal: true})
	return nil
}

func (r *Report) merge(found Report) {
	r.Schema, r.Records, r.Head = found.Schema, found.Records, found.Head
	r.Problems, r.Omitted = append(r.Problems, found.Problems...), r.Omitted+found.Omitted
}

// inspect reads every record of a database with intact pages, in the form of
// version v.
func inspect(tx *bolt.Tx, v int) Report {
	r := Report{Schema: v}
	names, err := bucketNames(tx, v)
	if err != nil {
		r.add(Problem{Reason: detailOf(err), Fatal: true})
		return r
	}
	for _, name := range names {
		found, err := count(tx, name)
		r.Records += found.count
		for _, b := range found.bad {
			r.add(Problem{Bucket: b.Bucket, Key: readableKey(b.Bucket, b.Key), Reason: b.Reason, Next: remedy(b.Bucket),
				Fatal: b.Bucket == bucketMeta && b.Key == keyInstance})
		}
		if err != nil {
			r.add(Problem{Bucket: name, Reason: detailOf(err), Fatal: true})
		}
	}
	var broken *audit.BrokenError
	switch r.Head, err = followChain(tx); {
	case errors.As(err, &broken):
		r.add(Problem{Bucket: bucketAudit, Key: fmt.Sprint(broken.Seq), Reason: "the audit chain is broken here: " + broken.Reason, Next: remedy(bucketAudit)})
	case err != nil && !errors.Is(err, ErrBadRecord): // which is listed already
		r.add(Problem{Bucket: bucketAudit, Reason: detailOf(err), Next: remedy(bucketAudit)})
	}
	if _, err := auditHead(tx, func(error) error { return nil }); errors.As(err, &broken) {
		r.add(Problem{Bucket: bucketAudit, Reason: "no record can be added: " + broken.Reason, Next: nextNoAudit})
	}
	return r
}

// bucketNames returns the buckets that a database of version v holds records in.
func bucketNames(tx *bolt.Tx, v int) ([]string, error) {
	if v == 1+len(migrations()) {
		return slices.DeleteFunc(slices.Clone(buckets[:]), func(name string) bool { return notYet(tx, name) }), nil
	}
	// Of another version, as it says itself.
	b, err := bucketOf(tx, bucketTally)
	if err != nil {
		return nil, err
	}
	var names []string
	err = b.ForEach(func(k, _ []byte) error { names = append(names, string(k)); return nil })
	return names, err
}

func detailOf(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Detail != "" {
		return e.Detail
	}
	return err.Error()
}

// readableKey writes a stored key for people: numbers in decimal, digests in
// hexadecimal, names as they are.
func readableKey(bucket, key string) string {
	switch {
	case numbered[bucket] && len(key) == 8:
		return fmt.Sprint(binary.BigEndian.Uint64([]byte(key)))
	case digested[bucket] || !utf8.ValidString(key):
		return fmt.Sprintf("%x", key)
	}
	return key
}

var (
	numbered = map[string]bool{bucketAudit: true, bucketRevisions: true, bucketRevisionTexts: true}
	digested = map[string]bool{bucketTokens: true, bucketBlobData: true}
)

// followChain follows the audit chain of one state and returns its end.
func followChain(tx *bolt.Tx) (head audit.Head, err error) {
	b, err := bucketOf(tx, bucketAudit)
	if err != nil {
		return head, err
	}
	var anchor audit.Head
	for key, h := range map[string]*audit.Head{keyHead: &head, keyAnchor: &anchor} {
		if _, err := getJSON(tx, bucketAuditHead, []byte(key), h); err != nil {
			return head, err
		}
	}
	return head, audit.Verify(func(yield func(audit.Record, error) bool) {
		c := b.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			r, err := sealedAudit(key, value)
			var bad *BadRecord
			if errors.As(err, &bad) {
				err = &audit.BrokenError{Seq: seqOf(key), Reason: "it is damaged: " + bad.Reason}
			}
			if !yield(r, err) {
				return
			}
		}
	}, anchor, head)
}
