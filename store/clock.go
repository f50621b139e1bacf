package store

import (
	"context"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// What has expired must stay so when the wall clock is set back, also over a
// restart: the latest time seen is kept with the commits, at most once a minute.
const (
	keyClock  = "clock" // of bucketMeta: Unix time in nanoseconds, 8 bytes
	clockStep = time.Minute
)

// Now returns the time, but never an earlier one than before, by this process or
// by one that had the store open before it (give or take a minute).
func (db *DB) Now() time.Time {
	now := db.clock()
	for {
		latest := db.latest.Load()
		if now.UnixNano() <= latest {
			return time.Unix(0, latest)
		}
		if db.latest.CompareAndSwap(latest, now.UnixNano()) {
			return now
		}
	}
}

// loadClock reads the latest time that was kept.
func (db *DB) loadClock(ctx context.Context) error {
	return db.view(ctx, func(tx *bolt.Tx) error {
		kept, err := keptClock(tx)
		if err := db.skipBad(err); err != nil {
			return err
		}
		db.latest.Store(kept)
		return nil
	})
}

// keepClock writes the time if the one that is kept is a minute old.
func (db *DB) keepClock(tx *bolt.Tx) error {
	kept, err := keptClock(tx)
	if err := db.skipBad(err); err != nil {
		return err
	}
	now := db.Now().UnixNano()
	if now-kept < int64(clockStep) {
		return nil
	}
	return put(tx, bucketMeta, []byte(keyClock), binary.BigEndian.AppendUint64(nil, uint64(now)))
}

// keptClock returns 0 if no time was kept yet.
func keptClock(tx *bolt.Tx) (int64, error) {
	payload, err := get(tx, bucketMeta, []byte(keyClock))
	if err != nil || len(payload) != 8 {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(payload)), nil
}
