// Package audit keeps the append-only, hash-chained record of every call. It
// owns the record's form and when it reaches the disk; it must not know
// commands, surfaces or the database, which appends through Store.
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
	Begin     uint64        `json:"begin,omitempty"` // End: Seq of the Begin record
	Principal string        `json:"principal"`
	Accessor  string        `json:"accessor,omitempty"`
	Surface   string        `json:"surface"`
	Remote    string        `json:"remote,omitempty"`
	Command   string        `json:"command"`               // path of a registered command, else ""
	Args      string        `json:"args,omitempty"`        // changing calls: arguments as JSON, sensitive values masked
	Digest    string        `json:"args-digest,omitempty"` // hex SHA-256 of the arguments' JSON
	Outcome   string        `json:"outcome,omitempty"`     // "ok" or an error code; empty in Begin
	Duration  time.Duration `json:"duration-ns,omitempty"`
	Prev      string        `json:"prev"` // hex hash of the record before, "" for the first
	Hash      string        `json:"hash"` // hex SHA-256 over the record without Hash, and Prev
}

// Store appends records. Append seals them (see Seal) in order onto the chain
// in one transaction, durable when it returns, and sets their Seq.
type Store interface {
	AppendAudit(ctx context.Context, records []Record) error
}
