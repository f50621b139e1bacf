package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Revision is one committed version of the configuration. Revisions are only
// ever added.
type Revision struct {
	Number  uint64    `json:"number"` // from 1, without gaps
	Time    time.Time `json:"time"`
	Who     string    `json:"who"` // principal
	How     string    `json:"how"` // surface or command
	Comment string    `json:"comment,omitempty"`
	Digest  string    `json:"digest"` // hex SHA-256 of Text
	Text    []byte    `json:"-"`
}

// MaxRevisionSize is the largest configuration text kept, in bytes.
const MaxRevisionSize = 16 << 20

// AddRevision keeps r.Text as the newest revision and returns its number.
// Number and Digest are set by the store; a zero Time is set to now.
func (db *DB) AddRevision(ctx context.Context, r Revision) (uint64, error) {
	if len(r.Text) > MaxRevisionSize {
		return 0, fmt.Errorf("configuration of %d bytes: at most %d are kept: %w", len(r.Text), MaxRevisionSize, ErrInvalid)
	}
	sum := sha256.Sum256(r.Text)
	r.Digest = hex.EncodeToString(sum[:])
	if r.Time.IsZero() {
		r.Time = db.clock()
	}
	r.Time = r.Time.UTC()
	err := db.update(ctx, func(tx *bolt.Tx) error {
		last, err := lastRevision(tx)
		if err != nil {
			return err
		}
		r.Number = last + 1
		if err := putJSON(tx, bucketRevisions, seqKey(r.Number), r); err != nil {
			return err
		}
		return put(tx, bucketRevisionTexts, seqKey(r.Number), r.Text)
	})
	if err != nil {
		return 0, err
	}
	return r.Number, nil
}

// Revision returns revision n with its text. ErrNotFound, ErrBadRecord.
func (db *DB) Revision(ctx context.Context, n uint64) (Revision, error) {
	var r Revision
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		r, err = revision(tx, n)
		return err
	})
	return r, err
}

// LatestRevision returns the newest revision with its text. ErrNotFound if
// there is none yet; ErrBadRecord if it is damaged, and not the one before.
func (db *DB) LatestRevision(ctx context.Context) (Revision, error) {
	var r Revision
	err := db.view(ctx, func(tx *bolt.Tx) error {
		n, err := lastRevision(tx)
		if err != nil {
			return err
		}
		r, err = revision(tx, n)
		return err
	})
	return r, err
}

// Revisions returns all revisions in order, without their texts.
func (db *DB) Revisions(ctx context.Context) ([]Revision, error) {
	var all []Revision
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketRevisions, func(key, payload []byte) error {
			var r Revision
			err := unmarshal(bucketRevisions, key, payload, &r)
			if err == nil {
				all = append(all, r)
			}
			return err
		})
	})
	return all, err
}

func lastRevision(tx *bolt.Tx) (uint64, error) {
	b, err := bucketOf(tx, bucketRevisions)
	if err != nil {
		return 0, err
	}
	if key, _ := b.Cursor().Last(); len(key) == 8 {
		return binary.BigEndian.Uint64(key), nil
	}
	return 0, nil
}

func revision(tx *bolt.Tx, n uint64) (Revision, error) {
	var r Revision
	ok, err := getJSON(tx, bucketRevisions, seqKey(n), &r)
	if err != nil {
		return Revision{}, err
	}
	text, err := get(tx, bucketRevisionTexts, seqKey(n))
	if err != nil {
		return Revision{}, err
	}
	if !ok || text == nil {
		return Revision{}, fmt.Errorf("configuration revision %d: %w", n, ErrNotFound)
	}
	r.Text = bytes.Clone(text)
	return r, nil
}
