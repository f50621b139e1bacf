package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Head is a place in a chain: the sequence number and hash of a record. The zero
// Head lies before the first. Where the chain ends is its head; where what is
// kept of it begins, after the last record removed for its age, its anchor.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// Seal makes r the link with number seq after the one with prevHash: it sets
// Seq, Prev and Hash. Text that is not UTF-8 is mended first, and the time loses
// its zone, because the hash must be the same after the record was kept as JSON,
// which is what it returns; nil if the record has no JSON form.
func Seal(prevHash string, seq uint64, r *Record) []byte {
	return AppendSealed(nil, prevHash, seq, r)
}

// AppendSealed is Seal for many records: it appends the JSON to b.
func AppendSealed(b []byte, prevHash string, seq uint64, r *Record) []byte {
	for _, s := range []*string{&r.Principal, &r.Accessor, &r.Surface, &r.Remote, &r.Command, &r.Args, &r.Digest, &r.Outcome} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	r.Time = r.Time.UTC()
	r.Seq, r.Prev = seq, prevHash
	from := len(b)
	b = appendUnsealed(b, *r)
	r.Hash = sum(b[from:])
	open, ok := bytes.CutSuffix(b, []byte(`"}`)) // the hash is the last member, and empty so far
	if !ok {
		return nil
	}
	return append(append(open, r.Hash...), `"}`...)
}

// hash returns the hex SHA-256 of the record's JSON with an empty hash. Prev is
// part of it, so a hash vouches for every record before.
func hash(r Record) string { return sum(appendUnsealed(nil, r)) }

// appendUnsealed appends the record's JSON with an empty hash.
func appendUnsealed(b []byte, r Record) []byte {
	const rest = 512 // for all but the arguments, and the hash to come
	b = slices.Grow(b, rest+len(r.Args))
	r.Hash = ""
	sealable, err := appendRecord(b, &r)
	if err != nil {
		// Strings, integers and a time: only a year outside 0..9999 can do this.
		return fmt.Appendf(b, "%+v", r)
	}
	return sealable
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return string(hex.AppendEncode(make([]byte, 0, 2*sha256.Size), s[:]))
}

// BrokenError says where a chain is broken.
type BrokenError struct {
	Seq    uint64 // of the first record that is wrong, or missing
	Reason string
}

// Error implements error.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("audit chain broken at record %d: %s; everything before it is as it was written", e.Seq, e.Reason)
}

// Verify follows a chain from the record after anchor to head. It returns a
// *BrokenError for the first record that was changed, moved, removed or added,
// or the error of the sequence itself.
func Verify(records iter.Seq2[Record, error], anchor, head Head) error {
	at := anchor
	for r, err := range records {
		if err != nil {
			return fmt.Errorf("read audit record %d: %w", at.Seq+1, err)
		}
		broken := func(reason string) error { return &BrokenError{Seq: at.Seq + 1, Reason: reason} }
		switch {
		case r.Seq != at.Seq+1:
			return broken(fmt.Sprintf("record %d stands in its place", r.Seq))
		case r.Prev != at.Hash:
			return broken("it does not follow the record before")
		case r.Hash != hash(r):
			return broken("it was changed")
		case r.Seq > head.Seq:
			return broken("it lies beyond the end of the chain")
		}
		at = Head{Seq: r.Seq, Hash: r.Hash}
	}
	switch {
	case at.Seq < head.Seq:
		return &BrokenError{Seq: at.Seq + 1, Reason: fmt.Sprintf("it is missing, the chain ends with record %d", head.Seq)}
	case at != head:
		return &BrokenError{Seq: at.Seq, Reason: "it is not the record the chain ended with"}
	}
	return nil
}
