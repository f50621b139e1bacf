package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
)

var _ audit.Store = (*DB)(nil)

// Keys of bucketAuditHead.
const (
	keyHead   = "head"
	keyAnchor = "anchor"
)

// AppendAudit implements audit.Store.
func (db *DB) AppendAudit(ctx context.Context, records []audit.Record) error {
	if len(records) == 0 {
		return nil
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		_, err := db.appendAudit(tx, records)
		return err
	})
}

// appendAudit seals records onto the chain and returns the Seq of the first.
func (db *DB) appendAudit(tx *bolt.Tx, records []audit.Record) (first uint64, err error) {
	head, err := auditHead(tx, db.skipBad)
	if err != nil {
		return 0, err
	}
	b, err := bucketOf(tx, bucketAudit)
	if err != nil {
		return 0, err
	}
	b.FillPercent = 1 // keys only grow: nothing will ever go between them, nor is there one to replace
	sum, err := readTally(tx, bucketAudit)
	if err != nil {
		return 0, err
	}
	first = head.Seq + 1
	var begin uint64   // Seq of the last Begin record among them
	var payload []byte // of one after the other
	for i := range records {
		r := records[i] // a transaction may be tried again: what is set here must not stay
		if r.Phase == audit.End && r.Begin == 0 {
			r.Begin = begin
		}
		payload = audit.AppendSealed(payload[:0], head.Hash, head.Seq+1, &r)
		if payload == nil {
			return 0, fmt.Errorf("audit record of %v: %w: it has no form to be kept in", r.Time, ErrInvalid)
		}
		head = audit.Head{Seq: r.Seq, Hash: r.Hash}
		if r.Phase == audit.Begin {
			begin = r.Seq
		}
		key := seqKey(r.Seq)
		value := encode(bucketAudit, key, payload)
		if err := b.Put(key, value); err != nil {
			return 0, err
		}
		sum.add(value)
		r.Begin, records[i] = records[i].Begin, r
	}
	if err := sum.write(tx, bucketAudit); err != nil {
		return 0, err
	}
	if err := putJSON(tx, bucketAuditHead, []byte(keyHead), head); err != nil {
		return 0, err
	}
	return first, db.keepClock(tx)
}

// auditHead reads the end of the chain and holds it against the last record. If
// the record of the end is damaged, the last record takes its place: nothing may
// be done without an audit record, so refusing would end all work. skip says
// whether a damaged record may be passed over.
func auditHead(tx *bolt.Tx, skip func(error) error) (audit.Head, error) {
	b, err := bucketOf(tx, bucketAudit)
	if err != nil {
		return audit.Head{}, err
	}
	key, value := b.Cursor().Last()
	last := seqOf(key)
	var head audit.Head
	_, err = getJSON(tx, bucketAuditHead, []byte(keyHead), &head)
	if errors.Is(err, ErrBadRecord) {
		if err := skip(err); err != nil {
			return head, err
		}
		r, err := decodeAudit(key, value)
		if err != nil {
			err = endless(tx, last, "neither the last record nor the record of the chain's end can be read")
		}
		return audit.Head{Seq: r.Seq, Hash: r.Hash}, err
	}
	if err == nil && last != head.Seq {
		err = endless(tx, min(head.Seq, last)+1, fmt.Sprintf("the chain should end with record %d and ends with %d", head.Seq, last))
	}
	return head, err
}

// endless is the error of a chain to which nothing can be added.
func endless(tx *bolt.Tx, seq uint64, reason string) error {
	path := tx.DB().Path()
	return &Error{Kind: ErrDamaged, Path: path, Cause: &audit.BrokenError{Seq: seq, Reason: reason}, Next: nextEndless(path)}
}

// AuditHead returns where the chain ends: the zero Head if there is no record.
func (db *DB) AuditHead(ctx context.Context) (audit.Head, error) {
	var head audit.Head
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		head, err = auditHead(tx, db.skipBad)
		return err
	})
	return head, err
}

// AuditRecords returns at most limit records in order, beginning after sequence
// number after. Damaged ones are skipped; audit.Verify finds the gap.
func (db *DB) AuditRecords(ctx context.Context, after uint64, limit int) ([]audit.Record, error) {
	return db.auditRecords(ctx, after, limit, decodeAudit)
}

func (db *DB) auditRecords(ctx context.Context, after uint64, limit int, decode func(key, value []byte) (audit.Record, error)) ([]audit.Record, error) {
	var records []audit.Record
	err := db.view(ctx, func(tx *bolt.Tx) error {
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		c := b.Cursor()
		records = nil
		for key, value := c.Seek(seqKey(after + 1)); key != nil && len(records) < limit; key, value = c.Next() {
			r, err := decode(key, value)
			if err == nil {
				records = append(records, r)
			}
			if err := db.skipBad(err); err != nil {
				return err
			}
		}
		return nil
	})
	return records, err
}

// AuditBefore implements audit.Store.
func (db *DB) AuditBefore(ctx context.Context, before uint64, limit int) (records []audit.Record, next uint64, err error) {
	err = db.view(ctx, func(tx *bolt.Tx) error {
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		c := b.Cursor()
		key, value := c.Last()
		if before != 0 {
			if k, _ := c.Seek(seqKey(before)); k != nil {
				key, value = c.Prev()
			} else {
				key, value = c.Last()
			}
		}
		for ; key != nil; key, value = c.Prev() {
			if limit == 0 {
				return nil
			}
			limit--
			next = seqOf(key)
			r, err := decodeAudit(key, value)
			if err == nil {
				records = append(records, r)
			}
			if err := db.skipBad(err); err != nil {
				return err
			}
		}
		next = 0
		return nil
	})
	return records, next, err
}

// TrimAudit implements audit.Store. A damaged record has no time and goes with
// the ones before it.
func (db *DB) TrimAudit(ctx context.Context, before time.Time, keep, limit int) (removed int, err error) {
	// Nothing to do is the rule, and costs no commit.
	if n, err := db.trimmable(ctx, before, keep, limit); err != nil || n == 0 {
		return 0, err
	}
	err = db.update(ctx, func(tx *bolt.Tx) error {
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		keys, anchor, err := trim(tx, b, before, keep, limit)
		if err != nil || len(keys) == 0 {
			return err
		}
		for _, key := range keys {
			if _, err := remove(tx, bucketAudit, key); err != nil {
				return err
			}
		}
		removed = len(keys)
		return putJSON(tx, bucketAuditHead, []byte(keyAnchor), anchor)
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

func (db *DB) trimmable(ctx context.Context, before time.Time, keep, limit int) (n int, err error) {
	err = db.view(ctx, func(tx *bolt.Tx) error {
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		keys, _, err := trim(tx, b, before, keep, limit)
		n = len(keys)
		return err
	})
	return n, err
}

// trim returns the keys of the records to remove and the anchor they leave. What
// goes ends with a sound record, whose hash the next one must follow.
func trim(tx *bolt.Tx, b *bolt.Bucket, before time.Time, keep, limit int) (keys [][]byte, anchor audit.Head, err error) {
	count, err := readTally(tx, bucketAudit)
	if err != nil {
		return nil, anchor, err
	}
	surplus := int64(0)
	if keep > 0 {
		surplus = int64(count.count) - int64(max(keep, 1))
	}
	c, sound := b.Cursor(), 0
	for key, value := c.First(); key != nil && len(keys) < limit && int64(len(keys)) < int64(count.count)-1; key, value = c.Next() {
		r, err := decodeAudit(key, value)
		old := err == nil && r.Time.Before(before)
		if err == nil && !old && int64(len(keys)) >= surplus {
			break
		}
		keys = append(keys, append([]byte(nil), key...))
		if err == nil {
			sound, anchor = len(keys), audit.Head{Seq: r.Seq, Hash: r.Hash}
		}
	}
	return keys[:sound], anchor, nil
}

// AuditAnchor returns the last record removed for its age or number: the zero
// Head if none was.
func (db *DB) AuditAnchor(ctx context.Context) (audit.Head, error) {
	var anchor audit.Head
	err := db.view(ctx, func(tx *bolt.Tx) error {
		_, err := getJSON(tx, bucketAuditHead, []byte(keyAnchor), &anchor)
		return err
	})
	return anchor, err
}

// VerifyAudit follows the chain from its anchor to its end and returns how many
// records it holds. A *audit.BrokenError says where it is broken. What is added
// meanwhile is not looked at, what is removed meanwhile is no fault.
func (db *DB) VerifyAudit(ctx context.Context) (records uint64, err error) {
	head, err := db.AuditHead(ctx)
	if broken := (*audit.BrokenError)(nil); errors.As(err, &broken) {
		return 0, broken
	}
	if err != nil {
		return 0, err
	}
	for {
		anchor, err := db.AuditAnchor(ctx)
		if err != nil {
			return 0, &audit.BrokenError{Seq: 1, Reason: "where the chain begins cannot be told: " + err.Error()}
		}
		err = audit.Verify(db.auditChain(ctx, head.Seq), anchor, head)
		if err == nil {
			return head.Seq - anchor.Seq, nil
		}
		if now, again := db.AuditAnchor(ctx); again != nil || now == anchor || now.Seq >= head.Seq {
			return 0, err
		}
	}
}

// auditChain yields the records up to a number, a page at a time: a read
// transaction that lasts keeps pages from being used again.
func (db *DB) auditChain(ctx context.Context, last uint64) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		const page = 1000
		for after := uint64(0); ; {
			records, err := db.auditRecords(ctx, after, page, sealedAudit)
			if err != nil {
				yield(audit.Record{}, err)
				return
			}
			for _, r := range records {
				if r.Seq > last {
					return
				}
				if after = r.Seq; !yield(r, nil) {
					return
				}
			}
			if len(records) < page {
				return
			}
		}
	}
}

func decodeAudit(key, value []byte) (r audit.Record, err error) {
	payload, err := decode(bucketAudit, key, value)
	if err == nil {
		err = unmarshal(bucketAudit, key, payload, &r)
	}
	return r, err
}

// sealedAudit is decodeAudit for audit.Verify: what is kept must be what sealing
// gives, byte for byte, or members that nobody reads could have been added. If it
// is not, the record loses its hash, and with it its place in the chain.
func sealedAudit(key, value []byte) (audit.Record, error) {
	r, err := decodeAudit(key, value)
	if err != nil {
		return r, err
	}
	again := r
	if !bytes.Equal(audit.Seal(r.Prev, r.Seq, &again), value[recordHeader:]) {
		r.Hash = ""
	}
	return r, nil
}

// seqOf is the inverse of seqKey; 0 for a key of another form.
func seqOf(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}
