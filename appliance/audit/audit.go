// Package audit keeps the append-only, hash-chained record of every call. It
// owns the record's form and when it reaches the disk; it must not know
// commands, surfaces or the database, which appends through Store.
//
// Recorded are calls of commands and tools, reads included, and every request to
// call something that is refused: of nobody known, from a foreign origin, beyond
// a limit, malformed. What only says what could be called, as tools/list and
// server/discover of MCP, is no call: answered it leaves no record, refused it
// does. Metrics and health leave none.
package audit

import (
	"context"
	"time"
)

// Phase says which part of a call a Record describes.
type Phase string

// A call with outside effects leaves a Begin record before it acts and an End
// record after; every other call leaves one Call record.
const (
	Begin Phase = "begin"
	End   Phase = "end"
	Call  Phase = "call"
)

// Record is one link of the chain. Seq, Prev and Hash are set when it is
// appended, in the same transaction.
type Record struct {
	Seq       uint64        `json:"seq"`
	Time      time.Time     `json:"time"`
	Phase     Phase         `json:"phase"`
	Begin     uint64        `json:"begin,omitempty"` // End: Seq of the Begin record; appended with 0, that of the one before it
	Principal string        `json:"principal"`
	Accessor  string        `json:"accessor,omitempty"`
	Surface   string        `json:"surface"`
	Remote    string        `json:"remote,omitempty"`
	Command   string        `json:"command"`               // path of a registered command, else ""
	Args      string        `json:"args,omitempty"`        // changing calls: arguments as JSON, sensitive values masked
	Digest    string        `json:"args-digest,omitempty"` // hex SHA-256 of the arguments' JSON
	Outcome   string        `json:"outcome,omitempty"`     // "ok" or an error code; empty in Begin
	Duration  time.Duration `json:"duration-ns,omitempty"`
	Count     uint64        `json:"count,omitempty"` // of equal requests this record stands for, over Duration; 0: one
	Prev      string        `json:"prev"`            // hex hash of the record before, "" for the first
	Hash      string        `json:"hash"`            // hex SHA-256 over the record without Hash, and Prev
}

// Store keeps the chain. Every method is one transaction, durable when it returns.
type Store interface {
	// AppendAudit appends records, sealed (see Seal) in order, and sets their Seq.
	AppendAudit(ctx context.Context, records []Record) error
	// TrimAudit removes the oldest records: those from before a time (zero: none
	// for that reason) and those beyond keep in number (0: all may stay), at most
	// limit of them, and never the last one. Number and hash of the last one removed are kept
	// as the anchor from which the rest still verifies.
	TrimAudit(ctx context.Context, before time.Time, keep, limit int) (removed int, err error)
	// AuditBefore looks at up to limit records with numbers below before (0: the
	// newest) and returns them newest first, damaged ones left out, and the number
	// to go on from; 0 means that there are no older ones.
	AuditBefore(ctx context.Context, before uint64, limit int) (records []Record, next uint64, err error)
}
