package audit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// FuzzAppendRecord holds the hand-written form against encoding/json, whose
// bytes the hashes of older chains are of.
func FuzzAppendRecord(f *testing.F) {
	f.Add(uint64(1), int64(0), 0, "call", "ops", "127.0.0.1:1", `{"a":"<b>&\"\\"}`, int64(5), uint64(0))
	f.Add(uint64(0), int64(-1), 3600, "", "\x00\x1f\x7f\b\f\n\r\t", "\u2028\u2029é😀", "\xff\xc0", int64(0), uint64(7))
	f.Add(^uint64(0), int64(253402300800), -3600, "end", "", "", "", int64(-1), ^uint64(0))
	f.Fuzz(func(t *testing.T, n uint64, at int64, zone int, a, b, c, d string, took int64, count uint64) {
		r := Record{
			Seq: n, Time: time.Unix(at, took).In(time.FixedZone("", zone)), Phase: Phase(a), Begin: count, Principal: b, Accessor: c,
			Surface: d, Remote: a, Command: b, Args: d, Digest: c, Outcome: a, Duration: time.Duration(took), Count: n, Prev: b, Hash: c,
		}
		sameAsJSON(t, r)
		// Each member alone, so that leaving out one that is empty is seen.
		for i := range reflect.TypeFor[Record]().NumField() {
			var one Record
			reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(r).Field(i))
			sameAsJSON(t, one)
		}
	})
}

func sameAsJSON(t *testing.T, r Record) {
	t.Helper()
	want, wantErr := json.Marshal(r)
	got, err := appendRecord(nil, &r)
	switch {
	case (err != nil) != (wantErr != nil):
		t.Errorf("appendRecord(%+v): error %v, encoding/json's: %v", r, err, wantErr)
	case err == nil && !bytes.Equal(got, want):
		t.Errorf("appendRecord gives\n%s\nencoding/json gives\n%s", got, want)
	}
}
