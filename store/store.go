// Package store keeps everything the daemon must remember in one bbolt file,
// ze.db. It is the only user of bbolt. It owns how the file is created, locked,
// checked and opened, how a record is encoded and verified, and how an I/O
// failure ends writing. It must not know commands, surfaces or policy: the
// types it keeps belong to the packages that use them, and it implements the
// store interfaces those packages declare.
//
// The bucket tree. Every value but schema is a record (see record.go): a version
// byte, a CRC32C over bucket, key and payload, and the payload.
//
//	meta             schema          -> decimal number, raw, so that any later version can read it
//	                 instance        -> JSON: instance name, time of creation
//	                 clock           -> Unix time in nanoseconds (8 B): the latest seen
//	tally            BUCKET          -> number of records in BUCKET and their digest, checksummed
//	tokens           SHA-256 (32 B)  -> JSON: token without secret
//	token-names      NAME            -> SHA-256 (32 B)
//	announcements    ID              -> JSON: announcement, prefixes as one string
//	audit            SEQ (8 B)       -> JSON: audit.Record
//	audit-head       head            -> JSON: audit.Head, the end of the chain
//	                 anchor          -> JSON: audit.Head, the last record removed for its age
//	revisions        NUMBER (8 B)    -> JSON: revision without text
//	revision-texts   NUMBER (8 B)    -> text
//	candidates       OWNER           -> JSON: candidate without text
//	candidate-texts  OWNER           -> text
//	confirm          pending         -> JSON: the commit that waits to be confirmed
//	blobs            NAME            -> JSON: digest, size, time
//	blob-data        SHA-256 (32 B)  -> bytes, kept once however many names refer to them
//	tasks            ID              -> JSON: task.Task
//
// Numbers in keys are big-endian, so that the order of keys is theirs.
//
// Beside ze.db stand ze.lock, locked while a process has the store open and
// holding its pid; ze.db.created, which tells a first start from a lost file;
// ze.db.before-N, the state before an upgrade to schema version N; and
// ze.db.replaced-TIME, what was given up for a restored or a new database.
package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Names of the files in the data directory.
const (
	FileName   = "ze.db"
	lockName   = "ze.lock"
	markerName = "ze.db.created"
	newName    = "ze.db.new" // a database being created; never opened, removed by the next attempt
)

// Options says which store to open and how.
type Options struct {
	Dir         string           // directory holding ze.db; 0700, owned by the user of the process
	Create      bool             // Open: on a first start, create directory and database
	Instance    string           // name kept in a new database
	Fallback    bool             // Open: if one of the two meta pages is damaged, use the other; loses at most the last commit
	Clock       func() time.Time // default time.Now
	Logger      zerolog.Logger
	LockTimeout time.Duration     // how long to wait for another process to let go; default 1 s
	Progress    func(step string) // Open: told what it does, as far as that may take long; may be nil

	migrations   []migration // from version 1 on; default migrations()
	compactAbove int64       // bytes; Open gives back free space in larger files; default 64 MiB
}

// DB is an open store. Its methods are safe for concurrent use; each is one
// atomic step, and a change is durable when its method returns nil.
type DB struct {
	path       string
	clock      func() time.Time
	log        zerolog.Logger
	lock       *lock
	migrations []migration
	bolt       atomic.Pointer[bolt.DB] // another one after compaction

	queue       queue         // changes that wait for a transaction
	writer      chan struct{} // holds one value while no transaction is under way
	maintenance chan struct{} // holds one value while nothing works on the file as a whole
	failing     sync.Once
	failed      chan struct{} // closed after the first I/O error
	full        atomic.Bool   // the last write found no space
	latest      atomic.Int64  // highest time seen, Unix nanoseconds

	changes atomic.Uint64 // moves with every commit, and when the database closes
	looked  lookedUp

	commits  prometheus.Histogram
	mu       sync.Mutex // guards reported
	reported map[string]bool
}

// Create makes a new, empty store in o.Dir and leaves it closed: ErrExists if
// there is one, or was one before. A crash at any point leaves either no
// database or a complete one.
func Create(o Options) error {
	o = o.withDefaults()
	if err := makeDir(o.Dir); err != nil {
		return err
	}
	if err := checkDir(o.Dir, o.Logger); err != nil {
		return err
	}
	l, err := acquire(o.Dir, o.LockTimeout)
	if err != nil {
		return err
	}
	defer l.release()
	return create(o)
}

// Open opens the store in o.Dir for this process alone. Before bbolt sees the
// file every page of it is checked, then every record; a file that fails is
// left as it is. An older form is brought up to date after a copy of the file
// was put beside it, and free space is given back when there is much of it.
// Errors are of type *Error: ErrMissing, ErrLocked, ErrAccess, ErrDamaged,
// ErrTooNew, ErrNoSpace, ErrFailed.
func Open(o Options) (*DB, error) {
	o = o.withDefaults()
	if o.Create {
		if err := makeDir(o.Dir); err != nil {
			return nil, err
		}
	} else if err := mustExist(o.Dir); err != nil {
		return nil, err
	}
	if err := checkDir(o.Dir, o.Logger); err != nil {
		return nil, err
	}
	l, err := acquire(o.Dir, o.LockTimeout)
	if err != nil {
		return nil, err
	}
	db, err := open(o, l)
	if err != nil {
		l.release()
		return nil, err
	}
	return db, nil
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.migrations == nil {
		o.migrations = migrations()
	}
	if o.compactAbove <= 0 {
		o.compactAbove = 64 << 20
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// open does what Open promises, with the lock held.
func open(o Options, l *lock) (*DB, error) {
	path := filepath.Join(o.Dir, FileName)
	switch err := mustExist(o.Dir); {
	case err == nil:
	case o.Create && isFirstStart(o.Dir):
		if err := create(o); err != nil {
			return nil, err
		}
	default:
		return nil, err
	}
	if err := checkFile(path); err != nil {
		return nil, err
	}
	o.Progress("checking the pages of the database")
	warning, err := checkPages(path, o.Fallback)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		o.Logger.Warn().Str("path", path).Msg(warning)
	}
	db, err := newDB(o, path)
	if err != nil {
		return nil, err
	}
	db.lock = l
	if err := db.prepare(o); err != nil {
		db.bolt.Load().Close()
		return nil, err
	}
	return db, nil
}

// newDB opens a file whose pages have been checked.
func newDB(o Options, path string) (*DB, error) {
	b, err := openBolt(path, path, bolt.Options{Timeout: o.LockTimeout})
	if err != nil {
		return nil, err
	}
	db := &DB{
		path: path, clock: o.Clock, log: o.Logger, migrations: o.migrations,
		writer: make(chan struct{}, 1), maintenance: make(chan struct{}, 1), failed: make(chan struct{}),
		commits: newCommitHistogram(), reported: map[string]bool{},
	}
	db.bolt.Store(b)
	db.writer <- struct{}{}
	db.maintenance <- struct{}{}
	return db, nil
}

// prepare makes an open file ready for use: checks it, upgrades it, and gives
// back what it does not need.
func (db *DB) prepare(o Options) error {
	ctx := context.Background()
	if err := db.upgrade(ctx, o.Progress); err != nil {
		return err
	}
	if err := db.addBuckets(ctx); err != nil {
		return err
	}
	o.Progress("checking the records of the database")
	if err := db.verify(ctx); err != nil {
		return err
	}
	if err := db.loadClock(ctx); err != nil {
		return err
	}
	if _, err := db.AuditHead(ctx); err != nil {
		db.log.Warn().Err(err).Msg("the audit log takes no records: every change will be refused")
	}
	// A crash between the rename and the marker leaves a complete database without one.
	if err := writeMarker(o.Dir); err != nil {
		return err
	}
	if stats, err := db.Stats(ctx); errors.Is(err, ErrBadRecord) {
		return damaged(db.path, err.Error())
	} else if err != nil {
		return err
	} else if stats.Size > o.compactAbove && stats.Free > stats.Size/2 {
		o.Progress("giving back free space of the database")
		if _, err := db.Compact(ctx); err != nil {
			db.log.Warn().Err(err).Msg("free space in the database could not be given back; going on without")
		}
	}
	return nil
}

// A file that outgrows its mapping is mapped anew, and for that a change waits
// for every reader: a backup, a check. So far more is mapped than there is, which
// takes addresses and no memory. bbolt then grows the file by steps rather than
// to the size of the mapping.
const (
	mapSize  = 1 << 30
	growStep = 1 << 20
)

// openBolt opens the file with our settings. NoFreelistSync keeps the list of
// free pages out of the file: one structure less to be torn by a crash, at the
// price of reading every page at open, which the checks do anyway.
//
// The memory of a bbolt database is the mapped file: a page that cannot be
// read, or a length that points outside, is a memory fault, which ends the
// process unless SetPanicOnFault turns it into a panic. bbolt also reads the
// tree in a goroutine of its own, where nothing can recover; so checkPages has
// walked it before, and this is the second line of defence.
//
// name is what the database is called in messages, file what is opened.
func openBolt(name, file string, o bolt.Options) (b *bolt.DB, err error) {
	var opened *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			opened.Close()
			b, err = nil, damaged(name, fmt.Sprint(r))
		}
	}()
	o.NoFreelistSync, o.FreelistType, o.InitialMmapSize = true, bolt.FreelistMapType, mapSize
	o.OpenFile = func(_ string, flag int, mode os.FileMode) (*os.File, error) {
		// Without O_CREATE: a file that vanished must not come back empty.
		f, err := os.OpenFile(file, flag&^os.O_CREATE, mode)
		opened = f
		return f, err
	}
	b, err = bolt.Open(name, fileMode, &o)
	if err != nil {
		return nil, openError(name, err)
	}
	b.AllocSize = growStep
	return b, nil
}

// Close waits for the transactions that are under way, closes the file and lets
// go of the lock.
func (db *DB) Close() error {
	db.changes.Add(1)
	err := db.bolt.Load().Close()
	db.lock.release()
	if err != nil {
		return fmt.Errorf("close store %s: %w", db.path, err)
	}
	return nil
}

// Failed is closed when the storage has failed: no write succeeds any more, and
// the daemon is to exit. A commit after a failed sync could report success for
// pages the kernel has already dropped, so there is no trying again.
func (db *DB) Failed() <-chan struct{} { return db.failed }

// Health returns what keeps the store from taking changes: that it has failed,
// that the last write found no space, or that the audit log, without which
// nothing is changed, takes no records. nil: nothing that is known.
func (db *DB) Health(ctx context.Context) error {
	select {
	case <-db.failed:
		return &Error{Kind: ErrFailed, Path: db.path, Next: nextFailed}
	default:
	}
	if db.full.Load() {
		return &Error{Kind: ErrNoSpace, Path: db.path, Next: nextSpace}
	}
	_, err := db.AuditHead(ctx)
	return err
}

// view runs fn in a read transaction. Nothing fn got from the transaction may
// be used after it: the memory is the file's.
func (db *DB) view(ctx context.Context, fn func(tx *bolt.Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = db.panicked(r)
		}
	}()
	for {
		b := db.bolt.Load()
		err = b.View(fn)
		// Compaction has put another file in its place between the two lines above.
		if !errors.Is(err, bolterrors.ErrDatabaseNotOpen) || db.bolt.Load() == b {
			return err
		}
	}
}

func (db *DB) fail(err error) {
	db.failing.Do(func() {
		db.log.Error().Err(err).Msg("storage failed; no more writes until restart")
		close(db.failed)
	})
}

// panicked turns a panic inside a transaction into an error. After checkPages
// it means that the file changed under us, or a defect; neither may cost the
// daemon its life, so the stack goes to the log.
func (db *DB) panicked(r any) error {
	db.log.Error().Interface("panic", r).Bytes("stack", debug.Stack()).Msg("panic while using the store")
	return damaged(db.path, fmt.Sprint(r))
}
