package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/config"
)

// laterBuckets came after the first databases of this form. They hold what a
// database without them does not have, so they are no other form: Open adds them.
var laterBuckets = [...]string{bucketCandidates, bucketCandidateTexts, bucketConfirm, bucketTasks}

// notYet reports whether a bucket is one that Open will add. One that is gone
// but has a tally is damage.
func notYet(tx *bolt.Tx, name string) bool {
	tallies := tx.Bucket([]byte(bucketTally))
	return slices.Contains(laterBuckets[:], name) && tx.Bucket([]byte(name)) == nil &&
		tallies != nil && tallies.Get([]byte(name)) == nil
}

// addBuckets adds the later buckets that are not there.
func (db *DB) addBuckets(ctx context.Context) error {
	var missing []string
	err := db.view(ctx, func(tx *bolt.Tx) error {
		for _, name := range laterBuckets {
			if notYet(tx, name) {
				missing = append(missing, name)
			}
		}
		return nil
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		for _, name := range missing {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
			if err := (tally{}).write(tx, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// Candidate implements config.Store. ErrBadRecord.
func (db *DB) Candidate(ctx context.Context, owner string) (config.Candidate, error) {
	var c config.Candidate
	err := db.view(ctx, func(tx *bolt.Tx) error {
		ok, err := getJSON(tx, bucketCandidates, []byte(owner), &c)
		if err != nil {
			return err
		}
		text, err := get(tx, bucketCandidateTexts, []byte(owner))
		if err != nil {
			return err
		}
		if !ok || text == nil {
			return fmt.Errorf("%w of %s", config.ErrNoCandidate, owner)
		}
		c.Text = bytes.Clone(text)
		return nil
	})
	return c, err
}

// PutCandidate implements config.Store.
func (db *DB) PutCandidate(ctx context.Context, c config.Candidate) error {
	if err := checkName("owner of a candidate", c.Owner); err != nil {
		return err
	}
	if err := checkText(c.Text); err != nil {
		return err
	}
	var gone config.Candidate
	err := db.update(ctx, func(tx *bolt.Tx) (err error) {
		if gone, err = db.makeWay(tx, c); err != nil {
			return err
		}
		if err := putJSON(tx, bucketCandidates, []byte(c.Owner), c); err != nil {
			return err
		}
		return put(tx, bucketCandidateTexts, []byte(c.Owner), c.Text)
	})
	if err == nil && gone.Owner != "" {
		db.log.Warn().Str("owner", gone.Owner).Time("modified", gone.Modified).Str("for", c.Owner).Msg("an abandoned candidate has made way for a new one")
	}
	return err
}

// makeWay sees to it that there is a place for c, and returns what it removed.
func (db *DB) makeWay(tx *bolt.Tx, c config.Candidate) (oldest config.Candidate, err error) {
	b, err := bucketOf(tx, bucketCandidates)
	if err != nil || b.Get([]byte(c.Owner)) != nil {
		return oldest, err
	}
	kept, err := readTally(tx, bucketCandidates)
	if err != nil || kept.count < config.MaxCandidates {
		return oldest, err
	}
	err = db.each(tx, bucketCandidates, func(key, payload []byte) error {
		var other config.Candidate
		if err := unmarshal(bucketCandidates, key, payload, &other); err != nil {
			return err
		}
		if oldest.Owner == "" || other.Modified.Before(oldest.Modified) {
			oldest = other
		}
		return nil
	})
	if err != nil {
		return oldest, err
	}
	if !oldest.Abandoned(c.Modified) {
		return oldest, &config.FullError{Oldest: oldest}
	}
	_, err = removeCandidate(tx, oldest.Owner)
	return oldest, err
}

// DeleteCandidate implements config.Store. It works on damaged records too.
func (db *DB) DeleteCandidate(ctx context.Context, owner string) error {
	return db.update(ctx, func(tx *bolt.Tx) error {
		found, err := removeCandidate(tx, owner)
		if err == nil && !found {
			err = fmt.Errorf("%w of %s", config.ErrNoCandidate, owner)
		}
		return err
	})
}

func removeCandidate(tx *bolt.Tx, owner string) (found bool, err error) {
	for _, bucket := range []string{bucketCandidates, bucketCandidateTexts} {
		ok, err := remove(tx, bucket, []byte(owner))
		if err != nil {
			return false, err
		}
		found = found || ok
	}
	return found, nil
}
