package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/config"
)

var _ config.Store = (*DB)(nil)

// keyPending is the one record of bucketConfirm.
const keyPending = "pending"

// MaxRevisionSize is the largest configuration text kept, in bytes.
const MaxRevisionSize = 16 << 20

func checkText(text []byte) error {
	if len(text) > MaxRevisionSize {
		return fmt.Errorf("configuration of %d bytes: at most %d are kept: %w", len(text), MaxRevisionSize, ErrInvalid)
	}
	return nil
}

// CommitRevision implements config.Store.
func (db *DB) CommitRevision(ctx context.Context, s config.Step) error {
	if err := checkText(s.Revision.Text); err != nil {
		return err
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		last, err := lastRevision(tx)
		if err != nil {
			return err
		}
		if s.Revision.Number != last+1 {
			return fmt.Errorf("configuration revision %d cannot follow %d: %w", s.Revision.Number, last, ErrInvalid)
		}
		if err := putJSON(tx, bucketRevisions, seqKey(s.Revision.Number), s.Revision); err != nil {
			return err
		}
		if err := put(tx, bucketRevisionTexts, seqKey(s.Revision.Number), s.Revision.Text); err != nil {
			return err
		}
		if s.Owner != "" {
			if _, err := removeCandidate(tx, s.Owner); err != nil {
				return err
			}
		}
		if s.Confirm != nil {
			return putJSON(tx, bucketConfirm, []byte(keyPending), s.Confirm)
		}
		_, err = remove(tx, bucketConfirm, []byte(keyPending))
		return err
	})
}

// Revision implements config.Store. A *config.DamagedError is ErrBadRecord.
func (db *DB) Revision(ctx context.Context, n uint64) (config.Revision, error) {
	var r config.Revision
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		r, err = revision(tx, n)
		return err
	})
	return r, err
}

// LatestRevision implements config.Store. If the newest revision is damaged that
// is the answer, and not the one before.
func (db *DB) LatestRevision(ctx context.Context) (config.Revision, error) {
	var r config.Revision
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

// Revisions implements config.Store. Damaged ones are skipped.
func (db *DB) Revisions(ctx context.Context) ([]config.Revision, error) {
	var all []config.Revision
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketRevisions, func(key, payload []byte) error {
			var r config.Revision
			err := unmarshal(bucketRevisions, key, payload, &r)
			if err == nil {
				all = append(all, r)
			}
			return err
		})
	})
	return all, err
}

// PendingConfirm implements config.Store. A damaged record counts as none: the
// commit stays, and nothing is blocked.
func (db *DB) PendingConfirm(ctx context.Context) (config.Confirm, error) {
	var c config.Confirm
	err := db.view(ctx, func(tx *bolt.Tx) error {
		ok, err := getJSON(tx, bucketConfirm, []byte(keyPending), &c)
		if err = db.skipBad(err); err == nil && !ok {
			err = config.ErrNoConfirm
		}
		return err
	})
	return c, err
}

// ClearConfirm implements config.Store.
func (db *DB) ClearConfirm(ctx context.Context, revision uint64) error {
	return db.update(ctx, func(tx *bolt.Tx) error {
		var c config.Confirm
		ok, err := getJSON(tx, bucketConfirm, []byte(keyPending), &c)
		if err != nil {
			return err
		}
		if !ok || c.Revision != revision {
			return fmt.Errorf("confirm revision %d: %w", revision, config.ErrNoConfirm)
		}
		_, err = remove(tx, bucketConfirm, []byte(keyPending))
		return err
	})
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

func revision(tx *bolt.Tx, n uint64) (config.Revision, error) {
	r, err := readRevision(tx, n)
	if errors.Is(err, ErrBadRecord) {
		err = &config.DamagedError{Number: n, Err: err}
	}
	return r, err
}

func readRevision(tx *bolt.Tx, n uint64) (config.Revision, error) {
	var r config.Revision
	ok, err := getJSON(tx, bucketRevisions, seqKey(n), &r)
	if err != nil {
		return config.Revision{}, err
	}
	text, err := get(tx, bucketRevisionTexts, seqKey(n))
	if err != nil {
		return config.Revision{}, err
	}
	if !ok || text == nil {
		return config.Revision{}, fmt.Errorf("%w: number %d: %w", config.ErrNoRevision, n, ErrNotFound)
	}
	r.Text = bytes.Clone(text)
	return r, nil
}
