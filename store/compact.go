package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

const compactName = "ze.db.compact" // a database being compacted; removed by the next attempt

// compactChunk bounds the bytes in one transaction of a compaction.
const compactChunk = 16 << 20

// Compacted says what a compaction gave back, in bytes of the file.
type Compacted struct{ Before, After int64 }

// Compact gives free space back to the file system: everything is copied into a
// new file, which is checked, and then takes the place of the old one. Others
// read meanwhile; changes wait. A crash leaves the old file or the new one.
func (db *DB) Compact(ctx context.Context) (c Compacted, err error) {
	release, err := db.maintain(ctx)
	if err != nil {
		return c, err
	}
	defer release()
	select {
	case <-db.writer:
	case <-ctx.Done():
		return c, ctx.Err()
	}
	old, fresh, err := db.compact()
	db.writer <- struct{}{}
	if err != nil {
		return c, fmt.Errorf("compact: %w", err)
	}
	c = Compacted{Before: fileSize(old), After: fileSize(fresh)}
	// Waits for those who still read it.
	if err := old.Close(); err != nil {
		return c, fmt.Errorf("compact: close the file before: %w", err)
	}
	return c, nil
}

// compact makes the new file and puts it in place, while nobody writes.
func (db *DB) compact() (old, fresh *bolt.DB, err error) {
	select {
	case <-db.failed:
		return nil, nil, &Error{Kind: ErrFailed, Path: db.path, Next: nextFailed}
	default:
	}
	dir := filepath.Dir(db.path)
	aside := filepath.Join(dir, compactName)
	if err := removeIfThere(aside); err != nil {
		return nil, nil, err
	}
	old = db.bolt.Load()
	if err := writeCompact(aside, old); err != nil {
		return nil, nil, withoutFile(err, aside)
	}
	if _, err := verifyCopy(aside, 1+len(db.migrations)); err != nil {
		return nil, nil, withoutFile(err, aside)
	}
	fresh, err = openBolt(db.path, aside, bolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, nil, withoutFile(err, aside)
	}
	if err := os.Rename(aside, db.path); err != nil {
		fresh.Close()
		return nil, nil, withoutFile(systemError(db.path, err), aside)
	}
	db.bolt.Store(fresh)
	if err := syncDir(dir); err != nil {
		// After a power cut the old file may be back, without what is written from
		// now on: so nothing must be.
		db.fail(err)
		return nil, nil, err
	}
	return old, fresh, nil
}

func withoutFile(err error, path string) error {
	if rerr := removeIfThere(path); rerr != nil {
		return fmt.Errorf("%w; and %w", err, rerr)
	}
	return err
}

// writeCompact copies src into a new file; durable when it returns.
func writeCompact(path string, src *bolt.DB) error {
	f, err := createFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	f.Close()
	dst, err := openNew(path)
	if err != nil {
		return err
	}
	dst.NoSync = true // once, at the end
	err = bolt.Compact(dst, src, compactChunk)
	if err == nil {
		// Both meta pages are to describe all of it.
		err = dst.Update(func(*bolt.Tx) error { return nil })
	}
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return commitError(path, err)
	}
	return syncFile(path)
}

func fileSize(b *bolt.DB) (size int64) {
	// Of the transaction, which is what the file needs; the file itself is gone
	// from its directory when this is asked of the old one.
	if err := b.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		return 0
	}
	return size
}

// freeBytes returns the size of the pages that hold nothing.
func freeBytes(tx *bolt.Tx) int64 {
	stats := tx.DB().Stats()
	return int64(stats.FreePageN+stats.PendingPageN) * int64(tx.DB().Info().PageSize)
}
