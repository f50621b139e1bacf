package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
)

// line is what the host sent on one line.
type line struct {
	text    []byte // without the line break
	tooLong bool   // then text is empty
	err     error  // nothing could be read; io.EOF at the end
}

// readLines sends every line of r that is not blank, then the error that ended
// it, until ctx ends.
func readLines(ctx context.Context, r io.Reader, to chan<- line) {
	in := bufio.NewReader(r)
	for {
		l := readLine(in, maxLine)
		if l.err == nil && !l.tooLong && len(l.text) == 0 {
			continue
		}
		select {
		case to <- l:
		case <-ctx.Done():
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads one line, and the whole of it even if it has more than most
// octets: what follows would be no message. The last line may lack its end.
func readLine(in *bufio.Reader, most int) (l line) {
	for {
		part, err := in.ReadSlice('\n')
		if len(l.text)+len(part) > most+len("\r\n") {
			l.text, l.tooLong = nil, true
		}
		if !l.tooLong {
			l.text = append(l.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, errors.Is(err, io.EOF) && (len(l.text) > 0 || l.tooLong):
			l.text = bytes.Trim(l.text, " \t\r\n")
			return l
		default:
			return line{err: err}
		}
	}
}
