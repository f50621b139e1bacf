package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// members calls f with each member of an object, in order. The object is part of
// a text that command.CheckJSON has passed, so its bounds are found without
// judging it again; names come unquoted, values as they were sent. Neither is
// copied.
func members(object jsontext.Value, f func(name []byte, value jsontext.Value)) {
	for i := bytes.IndexByte(object, '{') + 1; ; {
		i = skip(object, i, ',')
		if object[i] == '}' {
			return
		}
		end := stringEnd(object, i)
		name := object[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name, _ = jsontext.AppendUnquote(nil, object[i:end]) // it has been checked
		}
		i = skip(object, end, ':')
		end = valueEnd(object, i)
		f(name, object[i:end:end])
		i = end
	}
}

// skip returns where something else than space and separators follows.
func skip(b []byte, i int, separator byte) int {
	for b[i] == separator || b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n' {
		i++
	}
	return i
}

// stringEnd returns where the string that begins at i ends.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(b []byte, i int) int {
	for depth := 0; ; {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
			continue
		default: // a number, true, false, null
			for i < len(b) && bytes.IndexByte([]byte(" \t\r\n,:}]"), b[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}
