package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
)

var _ audit.Store = (*DB)(nil)

const keyHead = "head"

// AppendAudit implements audit.Store.
func (db *DB) AppendAudit(ctx context.Context, records []audit.Record) error {
	if len(records) == 0 {
		return nil
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		head, err := db.auditHead(tx)
		if err != nil {
			return err
		}
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		b.FillPercent = 1 // keys only grow: nothing will ever go between them
		for i := range records {
			r := &records[i]
			audit.Seal(head.Hash, head.Seq+1, r)
			head = audit.Head{Seq: r.Seq, Hash: r.Hash}
			if err := putJSON(tx, bucketAudit, seqKey(r.Seq), r); err != nil {
				return err
			}
		}
		return putJSON(tx, bucketAuditHead, []byte(keyHead), head)
	})
}

// auditHead reads the end of the chain and holds it against the last record. If
// the record of the end is damaged, the last record takes its place: nothing may
// be done without an audit record, so refusing would end all work.
func (db *DB) auditHead(tx *bolt.Tx) (audit.Head, error) {
	b, err := bucketOf(tx, bucketAudit)
	if err != nil {
		return audit.Head{}, err
	}
	key, value := b.Cursor().Last()
	var last uint64
	if len(key) == 8 {
		last = binary.BigEndian.Uint64(key)
	}
	var head audit.Head
	_, err = getJSON(tx, bucketAuditHead, []byte(keyHead), &head)
	if errors.Is(err, ErrBadRecord) {
		var r audit.Record
		if err := db.skipBad(err); err != nil {
			return head, err
		}
		payload, err := decode(bucketAudit, key, value)
		if err == nil {
			err = unmarshal(bucketAudit, key, payload, &r)
		}
		return audit.Head{Seq: r.Seq, Hash: r.Hash}, err
	}
	if err == nil && last != head.Seq {
		err = damaged(db.path, fmt.Sprintf("the audit chain should end with record %d and ends with %d", head.Seq, last))
	}
	return head, err
}

// AuditHead returns where the chain ends: the zero Head if there is no record.
func (db *DB) AuditHead(ctx context.Context) (audit.Head, error) {
	var head audit.Head
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		head, err = db.auditHead(tx)
		return err
	})
	return head, err
}

// AuditRecords returns at most limit records in order, beginning after sequence
// number after. Damaged ones are skipped; audit.Verify finds the gap.
func (db *DB) AuditRecords(ctx context.Context, after uint64, limit int) ([]audit.Record, error) {
	var records []audit.Record
	err := db.view(ctx, func(tx *bolt.Tx) error {
		b, err := bucketOf(tx, bucketAudit)
		if err != nil {
			return err
		}
		c := b.Cursor()
		for key, value := c.Seek(seqKey(after + 1)); key != nil && len(records) < limit; key, value = c.Next() {
			var r audit.Record
			payload, err := decode(bucketAudit, key, value)
			if err == nil {
				err = unmarshal(bucketAudit, key, payload, &r)
			}
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
