package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A record is a version byte, a CRC32C (big-endian), and the payload. The
// checksum covers bucket and key too, so a value that turns up under another
// key is as wrong as one with a flipped bit.
const (
	recordVersion = 1
	recordHeader  = 1 + crc32.Size
)

// Buckets that hold records; each has an entry in bucketTally.
const (
	bucketMeta           = "meta"
	bucketTokens         = "tokens"
	bucketTokenNames     = "token-names"
	bucketAnnouncements  = "announcements"
	bucketAudit          = "audit"
	bucketAuditHead      = "audit-head"
	bucketRevisions      = "revisions"
	bucketRevisionTexts  = "revision-texts"
	bucketCandidates     = "candidates"
	bucketCandidateTexts = "candidate-texts"
	bucketConfirm        = "confirm"
	bucketBlobs          = "blobs"
	bucketBlobData       = "blob-data"
	bucketTasks          = "tasks"

	bucketTally = "tally"
)

var buckets = [...]string{
	bucketMeta, bucketTokens, bucketTokenNames, bucketAnnouncements, bucketAudit, bucketAuditHead,
	bucketRevisions, bucketRevisionTexts, bucketCandidates, bucketCandidateTexts, bucketConfirm, bucketBlobs, bucketBlobData,
	bucketTasks,
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(bucket string, key, payload []byte) uint32 {
	// Lengths go in, or moving a byte from key to payload would not show.
	var head [64]byte
	b := binary.BigEndian.AppendUint32(append(head[:0], recordVersion), uint32(len(key)))
	b = append(append(b, bucket...), 0)
	// By hand: what the package is given goes to the heap.
	sum := ^uint32(0)
	for _, c := range b {
		sum = castagnoli[byte(sum)^c] ^ sum>>8
	}
	return crc32.Update(crc32.Update(^sum, castagnoli, key), castagnoli, payload)
}

func encode(bucket string, key, payload []byte) []byte {
	v := make([]byte, recordHeader, recordHeader+len(payload))
	v[0] = recordVersion
	binary.BigEndian.PutUint32(v[1:], checksum(bucket, key, payload))
	return append(v, payload...)
}

// decode returns the payload, in the file's memory. It fails with ErrBadRecord.
func decode(bucket string, key, value []byte) ([]byte, error) {
	switch {
	case len(value) < recordHeader:
		return nil, badRecord(bucket, key, "too short")
	case value[0] != recordVersion:
		return nil, badRecord(bucket, key, fmt.Sprintf("version %d", value[0]))
	case binary.BigEndian.Uint32(value[1:]) != checksum(bucket, key, value[recordHeader:]):
		return nil, badRecord(bucket, key, "checksum mismatch")
	}
	return value[recordHeader:], nil
}

// BadRecord is a record that cannot be trusted. It is never returned as data.
type BadRecord struct {
	Bucket string
	Key    string // as it is stored; binary keys hold any bytes
	Reason string
}

// Error implements error.
func (b *BadRecord) Error() string {
	return fmt.Sprintf("record %q in %s: %v: %s", readableKey(b.Bucket, b.Key), b.Bucket, ErrBadRecord, b.Reason)
}

// Outage says what the user can do about it: see Error.Outage.
func (b *BadRecord) Outage() (message, next string) {
	return fmt.Sprintf("the store: record %q in %s is damaged", readableKey(b.Bucket, b.Key), b.Bucket), remedy(b.Bucket) + "; or put a backup in the place of the database"
}

// Unwrap implements errors.Is for ErrBadRecord.
func (b *BadRecord) Unwrap() error { return ErrBadRecord }

func badRecord(bucket string, key []byte, reason string) error {
	return &BadRecord{Bucket: bucket, Key: string(key), Reason: reason}
}

// get returns the payload of a record, in the file's memory, or nil if there is
// none.
func get(tx *bolt.Tx, bucket string, key []byte) ([]byte, error) {
	b, err := bucketOf(tx, bucket)
	if err != nil {
		return nil, err
	}
	v := b.Get(key)
	if v == nil {
		return nil, nil
	}
	return decode(bucket, key, v)
}

// getJSON decodes a record into v and reports whether there is one.
func getJSON(tx *bolt.Tx, bucket string, key []byte, v any) (bool, error) {
	payload, err := get(tx, bucket, key)
	if payload == nil || err != nil {
		return false, err
	}
	return true, unmarshal(bucket, key, payload, v)
}

func unmarshal(bucket string, key, payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return badRecord(bucket, key, err.Error())
	}
	return nil
}

// put writes a record and brings the tally up to date.
func put(tx *bolt.Tx, bucket string, key, payload []byte) error {
	b, err := bucketOf(tx, bucket)
	if err != nil {
		return err
	}
	old := b.Get(key)
	value := encode(bucket, key, payload)
	err = adjust(tx, b, bucket, key, old, value)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

func putJSON(tx *bolt.Tx, bucket string, key []byte, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode record for %s: %w", bucket, err)
	}
	return put(tx, bucket, key, payload)
}

// remove deletes a record, bad ones included, and reports whether it was there.
func remove(tx *bolt.Tx, bucket string, key []byte) (bool, error) {
	b, err := bucketOf(tx, bucket)
	if err != nil {
		return false, err
	}
	old := b.Get(key)
	if old == nil {
		return false, nil
	}
	if err := adjust(tx, b, bucket, key, old, nil); err != nil {
		return false, err
	}
	return true, b.Delete(key)
}

// each calls fn for the records of a bucket in the order of their keys. Bad
// ones are skipped, and reported once to the log.
func (db *DB) each(tx *bolt.Tx, bucket string, fn func(key, payload []byte) error) error {
	b, err := bucketOf(tx, bucket)
	if err != nil {
		return err
	}
	return b.ForEach(func(key, value []byte) error {
		payload, err := decode(bucket, key, value)
		if err == nil {
			err = fn(key, payload)
		}
		return db.skipBad(err)
	})
}

// skipBad turns the error of a bad record into nil, after reporting it.
func (db *DB) skipBad(err error) error {
	bad, ok := err.(*BadRecord)
	if !ok {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if id := bad.Bucket + "\x00" + bad.Key; !db.reported[id] {
		db.reported[id] = true
		db.log.Error().Str("bucket", bad.Bucket).Str("key", readableKey(bad.Bucket, bad.Key)).Str("reason", bad.Reason).Msg("damaged record skipped")
	}
	return nil
}

func bucketOf(tx *bolt.Tx, bucket string) (*bolt.Bucket, error) {
	if b := tx.Bucket([]byte(bucket)); b != nil {
		return b, nil
	}
	return nil, damaged(tx.DB().Path(), "bucket "+bucket+" is missing")
}

// CheckRecords reads every record and returns the bad ones. ErrDamaged means
// that records are missing, or that there are some too many.
func (db *DB) CheckRecords(ctx context.Context) ([]BadRecord, error) {
	var bad []BadRecord
	err := db.view(ctx, func(tx *bolt.Tx) error {
		for _, name := range buckets {
			found, err := count(tx, name)
			bad = append(bad, found.bad...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return bad, err
}

func seqKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
