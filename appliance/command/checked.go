package command

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// What CheckJSON has passed need not be judged again by those who read it, and
// bounds are found by looking at brackets and quotes alone. None of this is for
// texts that have not passed it.

// Members calls f with each member of an object, in order, that is part of a text
// which CheckJSON has passed. Names come unquoted, values as they were sent.
// Neither is copied.
func Members(object jsontext.Value, f func(name []byte, value jsontext.Value)) {
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

// readChecked returns the value that begins at i of a checked text, and where it
// ends. Numbers become json.Number so that large integers survive.
func readChecked(b []byte, i int) (v any, end int) {
	switch b[i] {
	case '{':
		m := make(map[string]any)
		for i = skip(b, i+1, ','); b[i] != '}'; i = skip(b, i, ',') {
			end := stringEnd(b, i)
			name := unquote(b[i:end])
			m[name], i = readChecked(b, skip(b, end, ':'))
		}
		return m, i + 1
	case '[':
		a := []any{}
		for i = skip(b, i+1, ','); b[i] != ']'; i = skip(b, i, ',') {
			v, i = readChecked(b, i)
			a = append(a, v)
		}
		return a, i + 1
	case '"':
		end = stringEnd(b, i)
		return unquote(b[i:end]), end
	}
	switch end = wordEnd(b, i); b[i] {
	case 't', 'f':
		return b[i] == 't', end
	case 'n':
		return nil, end
	}
	return json.Number(b[i:end]), end
}

// unquote returns the text of a checked JSON string.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	b, _ := jsontext.AppendUnquote(make([]byte, 0, len(quoted)), quoted)
	return string(b)
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

// wordEnd returns where the number, true, false or null that begins at i ends.
func wordEnd(b []byte, i int) int {
	for i < len(b) && bytes.IndexByte([]byte(" \t\r\n,:}]"), b[i]) < 0 {
		i++
	}
	return i
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
		default:
			i = wordEnd(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}
