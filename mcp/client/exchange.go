package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxMessage bounds one message of an answer in octets.
const maxMessage = 64 << 20

// ErrBroken means that an answer ended before the response.
var ErrBroken = errors.New("the answer ended before the response")

// Exchange sends one request as it is, _meta included, and hands every message
// of the answer to each, as it comes: notifications, then the response. It adds
// the headers that repeat what is in the request. The error is each's, or says
// why there is no response: *StatusError, ErrBroken, or one of the transport.
func (c *Client) Exchange(ctx context.Context, request []byte, each func(message json.RawMessage) error) error {
	head, err := readHead(request)
	if err != nil {
		return err
	}
	mismatch := false
	err = c.post(ctx, request, head, func(m json.RawMessage) error {
		if mismatch = head.Method == "tools/call" && errorCode(m) == codeHeaderMismatch; mismatch {
			return nil
		}
		if head.Method == "tools/list" {
			c.learn(m)
		}
		return each(m)
	})
	if err != nil || !mismatch {
		return err
	}
	// The tools have changed, or nobody has asked for them: which arguments
	// belong into headers is in their schemas.
	if err := c.relist(ctx, head.version, head.Params.Meta); err != nil {
		return err
	}
	return c.post(ctx, request, head, each)
}

// head is what of a request is repeated in headers.
type head struct {
	Method  string     `json:"method"`
	Params  headParams `json:"params"`
	version string
}

type headParams struct {
	Name      string          `json:"name"`
	URI       string          `json:"uri"`
	TaskID    string          `json:"taskId"`
	Arguments json.RawMessage `json:"arguments"`
	Meta      json.RawMessage `json:"_meta"`
}

func readHead(request []byte) (head, error) {
	var h head
	// Members of other types are the server's to refuse.
	if err := json.Unmarshal(request, &h); err != nil && !isTypeError(err) {
		return h, fmt.Errorf("read the request: %w", err)
	}
	var meta struct {
		Version string `json:"io.modelcontextprotocol/protocolVersion"`
	}
	if err := json.Unmarshal(h.Params.Meta, &meta); err == nil {
		h.version = meta.Version
	}
	return h, nil
}

func isTypeError(err error) bool {
	var typeErr *json.UnmarshalTypeError
	return errors.As(err, &typeErr)
}

// target returns the value of Mcp-Name, and whether the method has one.
func (h *head) target() (string, bool) {
	switch h.Method {
	case "tools/call", "prompts/get":
		return h.Params.Name, true
	case "resources/read":
		return h.Params.URI, true
	case "tasks/get", "tasks/update", "tasks/cancel":
		return h.Params.TaskID, true
	}
	return "", false
}

// post sends a request and reads its answer.
func (c *Client) post(ctx context.Context, request []byte, h head, each func(json.RawMessage) error) error {
	resp, stream, err := c.open(ctx, c.message(request, h))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if stream {
		return readEvents(resp.Body, each)
	}
	raw, err := readBody(resp.Body)
	switch {
	case err != nil:
		return err
	case !isResponse(raw):
		return &StatusError{Status: resp.StatusCode, Body: refusalText(raw)}
	}
	return each(raw)
}

// isResponse reports whether raw answers a request: an error without id belongs
// to none.
func isResponse(raw []byte) bool {
	var m struct {
		ID            json.RawMessage `json:"id"`
		Result, Error json.RawMessage
	}
	return json.Unmarshal(raw, &m) == nil && m.ID != nil && (m.Result != nil || m.Error != nil)
}

// errorCode returns the code of an error response, 0 of anything else.
func errorCode(raw []byte) int {
	var m struct {
		Error struct{ Code int } `json:"error"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return 0
	}
	return m.Error.Code
}

// refusalText returns what a body says that is no response.
func refusalText(raw []byte) string {
	var m struct {
		Error struct{ Message string } `json:"error"`
	}
	if json.Unmarshal(raw, &m) == nil && m.Error.Message != "" {
		return m.Error.Message
	}
	return strings.TrimSpace(string(raw[:min(len(raw), 300)]))
}

// readEvents reads a stream of events (WHATWG HTML, section 9.2) until the
// response, which ends it.
func readEvents(r io.Reader, each func(json.RawMessage) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var data []byte
	size := 0 // of what has been read since the last event
	for {
		line, err := lines.ReadSlice('\n')
		if size += len(line); size > maxMessage {
			return fmt.Errorf("read the answer: an event has more than %d octets", maxMessage)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			line = bytes.Clone(line) // the next read takes the buffer
			rest, err := readRest(lines, maxMessage-size)
			if err != nil {
				return err
			}
			line = append(line, rest...)
			size += len(rest)
		case errors.Is(err, io.EOF):
			return ErrBroken
		case err != nil:
			return fmt.Errorf("read the answer: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
			continue
		}
		if len(line) > 0 {
			continue // a comment, or a field that says nothing here
		}
		message := bytes.TrimSuffix(data, []byte("\n"))
		data, size = nil, 0
		if len(message) == 0 {
			continue
		}
		if err := each(message); err != nil {
			return err
		}
		if isResponse(message) {
			return nil
		}
	}
}

// readRest reads what is left of a line that did not fit the buffer.
func readRest(lines *bufio.Reader, most int) ([]byte, error) {
	var rest []byte
	for {
		part, err := lines.ReadSlice('\n')
		if len(rest)+len(part) > most {
			return nil, fmt.Errorf("read the answer: an event has more than %d octets", maxMessage)
		}
		rest = append(rest, part...)
		switch {
		case err == nil:
			return rest, nil
		case errors.Is(err, io.EOF):
			return nil, ErrBroken
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
}
