package store

import (
	"context"
	"fmt"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"
)

// schemaVersion is the form of the bucket tree and of its records. Version 1 is
// the first.
const schemaVersion = 1

const (
	keySchema   = "schema"
	keyInstance = "instance"
)

const nextTooNew = "install that version again, or restore the backup made before the upgrade; the file was not changed"

// Meta is what the database says about itself.
type Meta struct {
	Instance string    `json:"instance"`
	Created  time.Time `json:"created"`
	Schema   int       `json:"-"`
}

// Meta returns what the database says about itself.
func (db *DB) Meta(ctx context.Context) (Meta, error) {
	var m Meta
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		if m.Schema, err = schema(tx); err != nil {
			return err
		}
		ok, err := getJSON(tx, bucketMeta, []byte(keyInstance), &m)
		if err == nil && !ok {
			err = damaged(db.path, "the instance record is missing")
		}
		return err
	})
	return m, err
}

// initialize fills an empty database.
func initialize(tx *bolt.Tx, instance string, now time.Time) error {
	if _, err := tx.CreateBucket([]byte(bucketTally)); err != nil {
		return err
	}
	for _, name := range buckets {
		if _, err := tx.CreateBucket([]byte(name)); err != nil {
			return err
		}
		if err := (tally{}).write(tx, name); err != nil {
			return err
		}
	}
	if err := tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), strconv.AppendInt(nil, schemaVersion, 10)); err != nil {
		return err
	}
	return putJSON(tx, bucketMeta, []byte(keyInstance), Meta{Instance: instance, Created: now.UTC()})
}

func schema(tx *bolt.Tx) (int, error) {
	b := tx.Bucket([]byte(bucketMeta))
	if b == nil {
		return 0, damaged(tx.DB().Path(), "it is a bbolt database, but not one of ze's: bucket meta is missing")
	}
	v, err := strconv.Atoi(string(b.Get([]byte(keySchema))))
	if err != nil || v < 1 {
		return 0, damaged(tx.DB().Path(), "the schema version cannot be read")
	}
	if v > schemaVersion {
		return 0, &Error{Kind: ErrTooNew, Path: tx.DB().Path(),
			Detail: fmt.Sprintf("schema version %d, this version knows up to %d", v, schemaVersion), Next: nextTooNew}
	}
	return v, nil
}

// verify checks the schema version, then every record and tally. Bad records
// are reported and left alone; records that are missing are not tolerated.
func (db *DB) verify() error {
	ctx := context.Background()
	if err := db.view(ctx, func(tx *bolt.Tx) error { _, err := schema(tx); return err }); err != nil {
		return err
	}
	bad, err := db.CheckRecords(ctx)
	for i := range bad {
		db.skipBad(&bad[i])
	}
	return err
}
