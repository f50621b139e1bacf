package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"
)

// A tally is the number of records in a bucket and a digest of them: the sum of
// their checksums, each spread over 64 bits. It changes in the transaction that
// changes the bucket. Checksums alone do not show a record that is no longer
// there: one number in a page hides any of them with everything else correct.
type tally struct{ count, digest uint64 }

const tallySize = 8 + 8 + crc32.Size

// share is what a stored value adds to its bucket's digest. It comes from the
// checksum as stored, so that a flipped bit in a payload makes one bad record
// and does not disturb the digest.
func share(value []byte) uint64 {
	if len(value) < recordHeader {
		return 0
	}
	// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
	// pseudorandom number generators, 2014).
	x := uint64(binary.BigEndian.Uint32(value[1:])) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func readTally(tx *bolt.Tx, bucket string) (tally, error) {
	b, err := bucketOf(tx, bucketTally)
	if err != nil {
		return tally{}, err
	}
	v := b.Get([]byte(bucket))
	if len(v) != tallySize || binary.BigEndian.Uint32(v[16:]) != checksum(bucketTally, []byte(bucket), v[:16]) {
		return tally{}, damaged(tx.DB().Path(), "the record count of "+bucket+" cannot be read")
	}
	return tally{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
}

func (t tally) write(tx *bolt.Tx, bucket string) error {
	b, err := bucketOf(tx, bucketTally)
	if err != nil {
		return err
	}
	v := make([]byte, 0, tallySize)
	v = binary.BigEndian.AppendUint64(v, t.count)
	v = binary.BigEndian.AppendUint64(v, t.digest)
	v = binary.BigEndian.AppendUint32(v, checksum(bucketTally, []byte(bucket), v))
	return b.Put([]byte(bucket), v)
}

// add accounts for a value under a key that had none.
func (t *tally) add(value []byte) {
	t.count++
	t.digest += share(value)
}

// adjust accounts for old becoming value under key; nil means no record.
func adjust(tx *bolt.Tx, b *bolt.Bucket, bucket string, key, old, value []byte) error {
	t, err := readTally(tx, bucket)
	if err != nil {
		return err
	}
	if old != nil {
		t.count--
		t.digest -= share(old)
		if _, err := decode(bucket, key, old); err != nil {
			// Its checksum may be what is wrong, then the sum contains another
			// number: start anew from what the bucket holds.
			if t.digest, err = sumWithout(b, key); err != nil {
				return err
			}
		}
	}
	if value != nil {
		t.add(value)
	}
	return t.write(tx, bucket)
}

func sumWithout(b *bolt.Bucket, key []byte) (sum uint64, err error) {
	err = b.ForEach(func(k, v []byte) error {
		if string(k) != string(key) {
			sum += share(v)
		}
		return nil
	})
	return sum, err
}

// counted is what reading a whole bucket found.
type counted struct {
	tally
	bad []BadRecord
}

// count reads a bucket and holds it against its tally.
func count(tx *bolt.Tx, bucket string) (counted, error) {
	var c counted
	b, err := bucketOf(tx, bucket)
	if err != nil {
		return c, err
	}
	err = b.ForEach(func(k, v []byte) error {
		if bucket == bucketMeta && string(k) == keySchema {
			return nil
		}
		c.count++
		c.digest += share(v)
		if _, err := decode(bucket, k, v); err != nil {
			c.bad = append(c.bad, *err.(*BadRecord))
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	want, err := readTally(tx, bucket)
	if err != nil {
		return c, err
	}
	// A bad record may have lost its checksum, and with it the digest; the count holds.
	if c.count != want.count || c.digest != want.digest && len(c.bad) == 0 {
		return c, damaged(tx.DB().Path(), fmt.Sprintf("%s holds %d records (digest %016x) and should hold %d (%016x)",
			bucket, c.count, c.digest, want.count, want.digest))
	}
	return c, nil
}
