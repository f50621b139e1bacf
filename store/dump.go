package store

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Stats is what a store holds and how much room that takes, in bytes.
type Stats struct {
	Path     string
	Schema   int
	Instance string
	Created  time.Time
	Size     int64 // of the file
	Free     int64 // of it, not in use
	Kinds    []KindStats
}

// KindStats counts the records of one kind.
type KindStats struct {
	Kind    string
	Records uint64
}

// Stats returns what the store holds.
func (db *DB) Stats(ctx context.Context) (Stats, error) {
	meta, err := db.Meta(ctx)
	if err != nil {
		return Stats{}, err
	}
	s := Stats{Path: db.path, Schema: meta.Schema, Instance: meta.Instance, Created: meta.Created}
	err = db.view(ctx, func(tx *bolt.Tx) error {
		info, err := os.Stat(db.path)
		if err != nil {
			return systemError(db.path, err)
		}
		s.Size = info.Size()
		s.Free = s.Size - tx.Size() + freeBytes(tx)
		for _, k := range kinds {
			t, err := readTally(tx, k.bucket)
			if err != nil {
				return err
			}
			s.Kinds = append(s.Kinds, KindStats{k.kind, t.count})
		}
		return nil
	})
	return s, err
}

// Kinds returns what Dump knows.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.kind
	}
	return names
}

// Record is one record for people: its key as it is called, and its content as
// a JSON object without anything secret.
type Record struct {
	Key  string
	JSON json.RawMessage
}

// Dump returns at most limit records of a kind in the order they are kept,
// skipping the first offset. Tokens come without digest, configurations and
// blobs without their text. Damaged records are left out; Check lists them.
// ErrInvalid for a kind it does not know.
func (db *DB) Dump(ctx context.Context, kind string, offset, limit int) ([]Record, error) {
	i := slices.Index(Kinds(), kind)
	if i < 0 {
		return nil, fmt.Errorf("dump %q: %w: allowed are %s", kind, ErrInvalid, strings.Join(Kinds(), ", "))
	}
	bucket := kinds[i].bucket
	var records []Record
	err := db.view(ctx, func(tx *bolt.Tx) error {
		n := 0
		return db.each(tx, bucket, func(key, payload []byte) error {
			if n++; n <= offset || len(records) == limit {
				return nil
			}
			r := Record{Key: readableKey(bucket, string(key)), JSON: slices.Clone(payload)}
			if bucket == bucketTokens {
				t, err := decodeToken(key, payload)
				if err != nil {
					return err
				}
				r.Key = t.Name // the key is the digest
			}
			records = append(records, r)
			return nil
		})
	})
	return records, err
}
