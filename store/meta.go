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
	if err := writeSchema(tx, schemaVersion); err != nil {
		return err
	}
	return putJSON(tx, bucketMeta, []byte(keyInstance), Meta{Instance: instance, Created: now.UTC()})
}

// schema reads the version of the database's form, whatever it is.
func schema(tx *bolt.Tx) (int, error) {
	b := tx.Bucket([]byte(bucketMeta))
	if b == nil {
		return 0, damaged(tx.DB().Path(), "it is a bbolt database, but not one of ze's: bucket meta is missing")
	}
	v, err := strconv.Atoi(string(b.Get([]byte(keySchema))))
	if err != nil || v < 1 {
		return 0, damaged(tx.DB().Path(), "the schema version cannot be read")
	}
	return v, nil
}

// knownSchema is schema, and ErrTooNew for a version this program does not know.
func knownSchema(tx *bolt.Tx, known int) (int, error) {
	v, err := schema(tx)
	if err == nil && v > known {
		path := tx.DB().Path()
		err = &Error{Kind: ErrTooNew, Path: path, Next: nextTooNew(path, known),
			Detail: fmt.Sprintf("schema version %d, this version knows up to %d", v, known)}
	}
	return v, err
}

func writeSchema(tx *bolt.Tx, v int) error {
	// Raw, so that any version can read it.
	return tx.Bucket([]byte(bucketMeta)).Put([]byte(keySchema), strconv.AppendInt(nil, int64(v), 10))
}

// verify reads every record and tally. Bad records are reported and left alone;
// records that are missing are not tolerated.
func (db *DB) verify(ctx context.Context) error {
	bad, err := db.CheckRecords(ctx)
	for i := range bad {
		db.skipBad(&bad[i])
	}
	return err
}
