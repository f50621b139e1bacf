package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"
)

// Blob describes named bytes. Equal bytes are kept once.
type Blob struct {
	Name     string    `json:"name"`
	Digest   string    `json:"digest"` // hex SHA-256
	Size     int       `json:"size"`   // bytes
	Modified time.Time `json:"modified"`
}

// MaxBlobSize is the largest blob kept, in bytes.
const MaxBlobSize = 16 << 20

// PutBlob keeps data under name, in the place of what was there.
func (db *DB) PutBlob(ctx context.Context, name string, data []byte) (Blob, error) {
	if err := checkName("blob name", name); err != nil {
		return Blob{}, err
	}
	if len(data) > MaxBlobSize {
		return Blob{}, fmt.Errorf("blob %s of %d bytes: at most %d are kept: %w", name, len(data), MaxBlobSize, ErrInvalid)
	}
	sum := sha256.Sum256(data)
	blob := Blob{Name: name, Digest: hex.EncodeToString(sum[:]), Size: len(data), Modified: db.clock().UTC()}
	err := db.update(ctx, func(tx *bolt.Tx) error {
		// Written even if it is there: that mends a damaged copy.
		if err := put(tx, bucketBlobData, sum[:], data); err != nil {
			return err
		}
		if err := putJSON(tx, bucketBlobs, []byte(name), blob); err != nil {
			return err
		}
		return db.dropUnnamed(tx)
	})
	if err != nil {
		return Blob{}, err
	}
	return blob, nil
}

// Blob returns what is kept under name. ErrNotFound, ErrBadRecord.
func (db *DB) Blob(ctx context.Context, name string) ([]byte, Blob, error) {
	var (
		data []byte
		blob Blob
	)
	err := db.view(ctx, func(tx *bolt.Tx) error {
		ok, err := getJSON(tx, bucketBlobs, []byte(name), &blob)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("blob %s: %w", name, ErrNotFound)
		}
		key, err := hex.DecodeString(blob.Digest)
		if err != nil {
			return badRecord(bucketBlobs, []byte(name), err.Error())
		}
		payload, err := get(tx, bucketBlobData, key)
		if err == nil && payload == nil {
			err = badRecord(bucketBlobData, key, "the bytes of blob "+name+" are missing")
		}
		data = bytes.Clone(payload)
		return err
	})
	if err != nil {
		return nil, Blob{}, err
	}
	return data, blob, nil
}

// Blobs returns all blobs, sorted by name, without their bytes.
func (db *DB) Blobs(ctx context.Context) ([]Blob, error) {
	var all []Blob
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketBlobs, func(key, payload []byte) error {
			var b Blob
			err := unmarshal(bucketBlobs, key, payload, &b)
			if err == nil {
				all = append(all, b)
			}
			return err
		})
	})
	return all, err
}

// DeleteBlob forgets name. ErrNotFound.
func (db *DB) DeleteBlob(ctx context.Context, name string) error {
	return db.update(ctx, func(tx *bolt.Tx) error {
		ok, err := remove(tx, bucketBlobs, []byte(name))
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("delete blob %s: %w", name, ErrNotFound)
		}
		return db.dropUnnamed(tx)
	})
}

// dropUnnamed removes the bytes that no blob refers to, unless a damaged blob
// record might.
func (db *DB) dropUnnamed(tx *bolt.Tx) error {
	found, err := count(tx, bucketBlobs)
	if err != nil || len(found.bad) > 0 {
		return err
	}
	named := map[string]bool{}
	err = db.each(tx, bucketBlobs, func(key, payload []byte) error {
		var b Blob
		err := unmarshal(bucketBlobs, key, payload, &b)
		named[b.Digest] = true
		return err
	})
	if err != nil {
		return err
	}
	b, err := bucketOf(tx, bucketBlobData)
	if err != nil {
		return err
	}
	var drop [][]byte // a bucket must not change while it is walked
	err = b.ForEach(func(key, _ []byte) error {
		if !named[hex.EncodeToString(key)] {
			drop = append(drop, bytes.Clone(key))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, key := range drop {
		if _, err := remove(tx, bucketBlobData, key); err != nil {
			return err
		}
	}
	return nil
}

// maxName is the longest name of a token, blob or announcement, in bytes.
const maxName = 255

// checkName refuses names that cannot be keys or would garble a listing.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("%s %q: %w: 1 to %d bytes of UTF-8 without control characters", what, name, ErrInvalid, maxName)
	}
	return nil
}
