package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deeply JSON that a caller sends may nest.
const maxDepth = 64

// CheckJSON is the gate every JSON text from outside passes: exactly one value,
// no duplicate member names, valid UTF-8, nesting of at most 64. Laxer readers
// let a message be checked as one thing and run as another.
func CheckJSON(data []byte) error {
	if off := tooDeep(data); off >= 0 {
		return fmt.Errorf("JSON nests deeper than %d levels at byte %d", maxDepth, off)
	}
	if jsontext.Value(data).IsValid() {
		return nil
	}
	_, err := decodeStrict(data) // says why
	return err
}

// decodeJSON reads one strict value; numbers become json.Number so that large
// integers survive.
func decodeJSON(data []byte) (any, error) {
	if off := tooDeep(data); off >= 0 {
		return nil, fmt.Errorf("JSON nests deeper than %d levels at byte %d", maxDepth, off)
	}
	return decodeStrict(data)
}

// decoders are kept because a new one costs more than a small value takes to read.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewReader(nil)) }}

func decodeStrict(data []byte) (any, error) {
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(data))
	v, err := decodeValue(dec)
	if err != nil {
		return nil, jsonError(err)
	}
	return v, endOfJSON(dec)
}

func decodeValue(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		m := make(map[string]any)
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String() // before the next read, which reuses the token's memory
			if m[key], err = decodeValue(dec); err != nil {
				return nil, err
			}
		}
		_, err = dec.ReadToken()
		return m, err
	case '[':
		a := []any{}
		for dec.PeekKind() != ']' {
			v, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			a = append(a, v)
		}
		_, err = dec.ReadToken()
		return a, err
	case '"':
		return tok.String(), nil
	case '0':
		return json.Number(tok.String()), nil
	case 't', 'f':
		return tok.Bool(), nil
	}
	return nil, nil
}

func endOfJSON(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != io.EOF {
		return fmt.Errorf("more data after the JSON value at byte %d", dec.InputOffset())
	}
	return nil
}

func jsonError(err error) error {
	var syn *jsontext.SyntacticError
	switch {
	case err == io.EOF:
		return errors.New("no JSON value")
	case errors.As(err, &syn):
		return fmt.Errorf("%w at byte %d", syn.Err, syn.ByteOffset)
	}
	return err
}

// tooDeep returns the offset of the first bracket that nests too deeply, or -1.
// It only counts brackets outside strings, so it is right for every text that
// the parser behind it accepts.
func tooDeep(data []byte) int {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		switch {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}
