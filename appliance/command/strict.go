package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

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
	for dec := jsontext.NewDecoder(bytes.NewReader(data)); ; { // says why
		if _, err := dec.ReadToken(); err != nil {
			return jsonError(err)
		}
		if dec.StackDepth() == 0 {
			return endOfJSON(dec)
		}
	}
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
	// To count them is many times as fast as to follow them, and mostly settles it.
	if bytes.Count(data, []byte{'{'})+bytes.Count(data, []byte{'['}) <= maxDepth {
		return -1
	}
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

// DecodeArgs reads an argument object strictly; numbers become json.Number. The
// error is an *Error.
func DecodeArgs(raw json.RawMessage) (map[string]any, error) { return decodeArgs(raw) }

// decodeArgs reads an argument object; nothing counts as an empty one.
func decodeArgs(raw json.RawMessage) (map[string]any, error) {
	object, err := argsObject(raw)
	if err != nil {
		return nil, err
	}
	args := map[string]any{}
	Members(object, func(name []byte, value jsontext.Value) { args[string(name)], _ = readChecked(value, 0) })
	return args, nil
}

// argsObject returns raw as an object that CheckJSON has passed.
func argsObject(raw json.RawMessage) (jsontext.Value, error) {
	if len(raw) == 0 {
		return jsontext.Value(emptyObject), nil
	}
	if err := CheckJSON(raw); err != nil {
		return nil, &Error{Code: Invalid, Message: "arguments: " + err.Error(), Err: err}
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, &Error{Code: Invalid, Message: "arguments must be an object"}
	}
	return jsontext.Value(raw), nil
}
