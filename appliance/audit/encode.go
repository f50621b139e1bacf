package audit

import (
	"encoding/json"
	"strconv"
)

// appendRecord appends r as encoding/json writes it, octet for octet: the hashes
// of every chain there is are of that form. Every call has its record, and
// without reflection it costs a third.
func appendRecord(b []byte, r *Record) ([]byte, error) {
	var err error
	b = strconv.AppendUint(append(b, `{"seq":`...), r.Seq, 10)
	if b, err = r.Time.AppendText(append(b, `,"time":"`...)); err != nil {
		return b, err
	}
	b = appendString(append(b, `","phase":`...), string(r.Phase))
	if r.Begin != 0 {
		b = strconv.AppendUint(append(b, `,"begin":`...), r.Begin, 10)
	}
	b = appendString(append(b, `,"principal":`...), r.Principal)
	b = appendGiven(b, `,"accessor":`, r.Accessor)
	b = appendString(append(b, `,"surface":`...), r.Surface)
	b = appendGiven(b, `,"remote":`, r.Remote)
	b = appendString(append(b, `,"command":`...), r.Command)
	b = appendGiven(b, `,"args":`, r.Args)
	b = appendGiven(b, `,"args-digest":`, r.Digest)
	b = appendGiven(b, `,"outcome":`, r.Outcome)
	if r.Duration != 0 {
		b = strconv.AppendInt(append(b, `,"duration-ns":`...), int64(r.Duration), 10)
	}
	if r.Count != 0 {
		b = strconv.AppendUint(append(b, `,"count":`...), r.Count, 10)
	}
	b = appendString(append(b, `,"prev":`...), r.Prev)
	b = appendString(append(b, `,"hash":`...), r.Hash)
	return append(b, '}'), nil
}

// appendGiven appends a member that is left out when it is empty.
func appendGiven(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

// appendString appends s as a JSON string. Whatever might be escaped is left to
// encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, _ := json.Marshal(s) // a string always can be
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
