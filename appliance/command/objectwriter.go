package command

import (
	"bytes"
	"encoding/json"
)

// objectWriter assembles a JSON Schema of an object, members in the order given.
type objectWriter struct {
	buf   bytes.Buffer
	count int
}

func newObjectWriter() *objectWriter {
	w := &objectWriter{}
	w.buf.WriteString(`{"type":"object","properties":{`)
	return w
}

func (w *objectWriter) property(name string, s json.RawMessage) {
	if w.count++; w.count > 1 {
		w.buf.WriteByte(',')
	}
	w.buf.WriteString(quote(name))
	w.buf.WriteByte(':')
	w.buf.Write(s)
}

func (w *objectWriter) close(required []string, closed bool) json.RawMessage {
	w.buf.WriteByte('}')
	if len(required) > 0 {
		names, _ := json.Marshal(required)
		w.buf.WriteString(`,"required":`)
		w.buf.Write(names)
	}
	if closed {
		w.buf.WriteString(`,"additionalProperties":false`)
	}
	w.buf.WriteByte('}')
	return w.buf.Bytes()
}

// quote encodes a string as JSON; a string always can be.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
