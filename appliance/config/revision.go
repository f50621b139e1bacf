package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Revision is one committed version of the configuration. Revisions are only
// ever added, and the newest one is the running configuration.
type Revision struct {
	Number  uint64    `json:"number"` // from 1, without gaps
	Time    time.Time `json:"time"`
	Who     string    `json:"who"` // principal
	How     string    `json:"how"` // "commit", "rollback 3"
	Comment string    `json:"comment,omitempty"`
	Digest  string    `json:"digest"` // hex SHA-256 of Text
	Text    []byte    `json:"-"`
}

// NewRevision returns text as the revision that follows number before.
func NewRevision(before uint64, now time.Time, who, how, comment string, text []byte) Revision {
	sum := sha256.Sum256(text)
	return Revision{
		Number: before + 1, Time: now.UTC(), Who: who, How: how, Comment: comment,
		Digest: hex.EncodeToString(sum[:]), Text: text,
	}
}

// lost reports whether nothing but the number is left of a revision.
func (r Revision) lost() bool { return r.Number > 0 && r.Digest == "" }

// Candidate is a configuration somebody is working on. It keeps to the model,
// but something that is required may still be missing in it.
type Candidate struct {
	Owner    string    `json:"owner"`
	Base     uint64    `json:"base"` // revision it began as; 0 if there was none
	Modified time.Time `json:"modified"`
	Text     []byte    `json:"-"`
}

// MaxCandidates is how many candidates are kept, one for each owner.
const MaxCandidates = 100

// abandonedAfter is how long a candidate must be left alone before it may make
// way for a new one.
const abandonedAfter = 7 * 24 * time.Hour

// Abandoned reports whether c may make way for another one.
func (c Candidate) Abandoned(now time.Time) bool { return now.Sub(c.Modified) >= abandonedAfter }

// Confirm is a commit that is taken back unless somebody confirms it in time.
type Confirm struct {
	Revision uint64    `json:"revision"`  // the one to be confirmed
	RevertTo uint64    `json:"revert-to"` // the one whose text comes back
	Deadline time.Time `json:"deadline"`
	Who      string    `json:"who"` // who committed
}

// Step is one change of the configuration that is kept, all of it or nothing.
type Step struct {
	Revision Revision // becomes the newest
	Owner    string   // whose candidate has become this revision; "" for nobody's
	Confirm  *Confirm // waits from now on; nil: nothing waits any more
}

// Store is what this package needs kept. Every method is one atomic step, and
// durable when it returns nil.
type Store interface {
	Revision(ctx context.Context, n uint64) (Revision, error) // ErrNoRevision, *DamagedError
	LatestRevision(ctx context.Context) (Revision, error)     // ErrNoRevision, *DamagedError
	Revisions(ctx context.Context) ([]Revision, error)        // in order, without texts; damaged ones left out
	CommitRevision(ctx context.Context, s Step) error         // fails unless the number is the next one

	Candidate(ctx context.Context, owner string) (Candidate, error) // ErrNoCandidate
	// PutCandidate keeps c. A new one beyond MaxCandidates takes the place of the
	// one left alone the longest; if that is not Abandoned, *FullError.
	PutCandidate(ctx context.Context, c Candidate) error
	DeleteCandidate(ctx context.Context, owner string) error // ErrNoCandidate

	PendingConfirm(ctx context.Context) (Confirm, error)     // ErrNoConfirm
	ClearConfirm(ctx context.Context, revision uint64) error // ErrNoConfirm
}

// What may not be there; test with errors.Is.
var (
	ErrNoRevision  = errors.New("no such configuration revision")
	ErrNoCandidate = errors.New("there is no candidate configuration")
	ErrNoConfirm   = errors.New("no commit waits to be confirmed")
)

// DamagedError says that a kept revision cannot be read any more.
type DamagedError struct {
	Number uint64
	Err    error
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("revision %d of the configuration: %v", e.Number, e.Err)
}

// Unwrap implements errors.Unwrap.
func (e *DamagedError) Unwrap() error { return e.Err }

// ErrUnchanged says that the candidate is the running configuration.
var ErrUnchanged = errors.New("the candidate is the same as the running configuration")

// FullError says that as many candidates are kept as can be, and somebody works
// on each of them.
type FullError struct{ Oldest Candidate } // left alone the longest

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("%d candidates are kept, and there can be no more; the oldest one, of %s, was last changed at %s",
		MaxCandidates, e.Oldest.Owner, e.Oldest.Modified.UTC().Format(time.RFC3339))
}

// ConflictError says that the running configuration is no longer the one that
// a candidate began as.
type ConflictError struct {
	Base    uint64     // what the candidate began as
	Since   []Revision // what was committed since, in order, without texts
	Changed []string   // paths whose values have changed since
}

// Error implements error. It says what changed, by whom and when.
func (e *ConflictError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the candidate began as revision %d, and the configuration has changed since:", e.Base)
	for i, r := range e.Since {
		if i > 0 {
			b.WriteByte(';')
		}
		fmt.Fprintf(&b, " revision %d (%s) by %s at %s", r.Number, r.How, r.Who, r.Time.UTC().Format(time.RFC3339))
	}
	if len(e.Changed) == 0 {
		return b.String() + "; no value differs, only comments or layout"
	}
	const shown = 10
	paths := e.Changed[:min(len(e.Changed), shown)]
	fmt.Fprintf(&b, "; other values than before: %s", strings.Join(paths, ", "))
	if more := len(e.Changed) - len(paths); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// PendingError says that a commit waits to be confirmed, and nothing else can
// be committed before that is decided.
type PendingError struct{ Confirm Confirm }

// Error implements error.
func (e *PendingError) Error() string {
	return fmt.Sprintf("revision %d, committed by %s, waits to be confirmed until %s",
		e.Confirm.Revision, e.Confirm.Who, e.Confirm.Deadline.UTC().Format(time.RFC3339))
}

// RevertError says that a commit waiting to be confirmed could not be taken back
// if something were done.
type RevertError struct {
	Confirm Confirm
	Err     error // why not
}

// Error implements error.
func (e *RevertError) Error() string {
	return fmt.Sprintf("revision %d, committed by %s, waits to be confirmed until %s, and revision %d, which comes back otherwise, could not run then: %v",
		e.Confirm.Revision, e.Confirm.Who, e.Confirm.Deadline.UTC().Format(time.RFC3339), e.Confirm.RevertTo, e.Err)
}

// Unwrap implements errors.Unwrap.
func (e *RevertError) Unwrap() error { return e.Err }

// FileError says that the daemon runs from a file and not from what is kept.
type FileError struct{ File string }

// Error implements error.
func (e *FileError) Error() string {
	return "the daemon runs from the file " + e.File + ", so the configuration kept in the store is not in use"
}

// ApplyError says that the daemon refused a configuration that passed every
// check; the one before stays in force.
type ApplyError struct{ Err error }

// Error implements error.
func (e *ApplyError) Error() string {
	return "the daemon cannot run it, the configuration before stays in force: " + e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *ApplyError) Unwrap() error { return e.Err }
