package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzCheckJSON holds the gate against a slower reader of another library: both
// let the same texts pass.
func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"b":[true,null,-0.5e-7]}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1},"c":{"b":1}}`, `"\ud800"`, "\"\xff\"",
		"{} {}", "", " \n[1]\t", strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65), `[1,]`, `{"a"}`, `01`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := CheckJSON(text)
		if want := slowCheck(text); (err == nil) != want {
			t.Errorf("%q: %v; the other reader lets it pass: %v", text, err, want)
		}
	})
}

// slowCheck reports whether text is one JSON value in valid UTF-8 without lone
// surrogates and names given twice, at most 64 deep.
func slowCheck(text []byte) bool {
	if !utf8.Valid(text) || !json.Valid(text) || loneSurrogate(text) {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	type level struct {
		names map[string]bool // nil: an array
		value bool            // a value comes next, not a name
	}
	var open []level
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 {
			if top := &open[len(open)-1]; top.names != nil {
				if !top.value {
					name := token.(string)
					if top.names[name] {
						return false
					}
					top.names[name], top.value = true, true
					continue
				}
				top.value = false
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		}
		if len(open) > 64 {
			return false
		}
	}
}

// loneSurrogate reports whether valid JSON escapes half of a character.
func loneSurrogate(text []byte) bool {
	high := false // the escape just before was a high surrogate
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			if high {
				return true
			}
			i++
			continue
		}
		if text[i+1] != 'u' {
			if high {
				return true
			}
			i += 2
			continue
		}
		hex := strings.ToLower(string(text[i+2 : i+6]))
		low := hex >= "dc00" && hex <= "dfff"
		if low != high {
			return true
		}
		high = hex >= "d800" && hex <= "dbff"
		i += 6
	}
	return high
}
