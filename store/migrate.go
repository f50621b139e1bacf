package store

import (
	"context"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
)

// migration brings a database from the version before to version to. It runs in
// the transaction that also writes the new version, on its own or with the
// migrations before it; it must keep the tallies right, as put and remove do.
type migration struct {
	to  int
	run func(tx *bolt.Tx) error
}

// migrations lists every step from version 1 on, in order, without gaps.
func migrations() []migration { return []migration{} }

// beforeSuffix and a version are what the copy made before the upgrade to that
// version is called.
const beforeSuffix = ".before-"

// upgrade brings an older database to the version this program works with: the
// file as it was is kept aside, and then all steps are one transaction. A crash
// leaves the old form or the new one.
func (db *DB) upgrade(ctx context.Context, progress func(step string)) error {
	target := 1 + len(db.migrations)
	var from int
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		if from, err = knownSchema(tx, target); err != nil || from == target {
			return err
		}
		found := inspect(tx, from) // a damaged database must not become the copy to go back to
		return found.fatal(db.path)
	})
	if err != nil || from == target {
		return err
	}
	progress("keeping a copy of the database before its upgrade")
	aside := fmt.Sprintf("%s%s%d", db.path, beforeSuffix, target)
	if err := db.keepAside(ctx, aside, from); err != nil {
		return fmt.Errorf("upgrade from schema version %d to %d: keep a copy: %w; the file was not changed", from, target, err)
	}
	err = db.update(ctx, func(tx *bolt.Tx) error {
		for _, m := range db.migrations[from-1:] {
			progress(fmt.Sprintf("upgrading the database to schema version %d", m.to))
			if err := m.run(tx); err != nil {
				return fmt.Errorf("to version %d: %w", m.to, err)
			}
		}
		if err := writeSchema(tx, target); err != nil {
			return err
		}
		found := inspect(tx, target)
		return found.fatal(db.path)
	})
	if err != nil {
		return fmt.Errorf("upgrade from schema version %d to %d: %w; the file was not changed", from, target, err)
	}
	db.log.Info().Int("from", from).Int("to", target).Str("copy", aside).Msg("database upgraded; the copy is its state before")
	return nil
}

// keepAside puts a verified copy of the database beside it. One of that name is
// left from an upgrade that did not come about.
func (db *DB) keepAside(ctx context.Context, aside string, version int) error {
	partial := aside + partialSuffix
	if err := os.Remove(partial); err != nil && !os.IsNotExist(err) {
		return systemError(partial, err)
	}
	if _, err := db.copyTo(ctx, partial, version); err != nil {
		return err
	}
	return publish(partial, aside, true)
}
