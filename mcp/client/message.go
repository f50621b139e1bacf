package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
)

// Members of _meta on every request.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
)

// meta returns the members of _meta that every request has.
func (c *Client) meta() map[string]any {
	return map[string]any{
		metaVersion:      Revision,
		metaCapabilities: c.capabilities,
		metaClientInfo:   map[string]string{"name": c.name, "version": "1"},
	}
}

// Message is a request as it goes over the wire. Whoever tests a server may
// change it before it is sent.
type Message struct {
	Verb   string // HTTP method
	Header http.Header
	Body   []byte
}

// Message returns a request that fulfils the protocol. Members of _meta in
// params come on top of the required ones; one that is nil takes it away.
func (c *Client) Message(method string, params map[string]any) (*Message, error) {
	all := maps.Clone(params)
	if all == nil {
		all = map[string]any{}
	}
	meta := c.meta()
	if given, ok := all["_meta"].(map[string]any); ok {
		for k, v := range given {
			if meta[k] = v; v == nil {
				delete(meta, k)
			}
		}
	}
	all["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id.Add(1), "method": method, "params": all})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	h, err := readHead(body)
	if err != nil {
		return nil, err
	}
	h.version = Revision
	return c.message(body, h), nil
}

// message returns the request with the headers that repeat what is in it.
func (c *Client) message(request []byte, h head) *Message {
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	header.Set("MCP-Protocol-Version", h.version)
	header.Set("Mcp-Method", h.Method)
	if name, ok := h.target(); ok {
		header.Set("Mcp-Name", encodeHeader(name))
	}
	if h.Method == "tools/call" {
		c.mirror(header, h)
	}
	if c.token != "" {
		header.Set("Authorization", "Bearer "+c.token)
	}
	return &Message{Verb: http.MethodPost, Header: header, Body: request}
}

// open sends a request. The answer's body is a stream of events, or one text.
func (c *Client) open(ctx context.Context, m *Message) (resp *http.Response, stream bool, err error) {
	req, err := http.NewRequestWithContext(ctx, m.Verb, c.url, bytes.NewReader(m.Body))
	if err != nil {
		return nil, false, err
	}
	req.Header = m.Header
	if host := m.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if resp, err = c.http.Do(req); err != nil {
		return nil, false, fmt.Errorf("call the server: %w", err)
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return resp, err == nil && kind == "text/event-stream", nil
}

// readBody reads the one text of an answer.
func readBody(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxMessage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(raw) > maxMessage:
		return nil, fmt.Errorf("read the answer: it has more than %d octets", maxMessage)
	}
	return raw, nil
}

// Answer is what came back. Neither Result nor Error is set if it is no JSON-RPC
// response.
type Answer struct {
	Status        int // HTTP status
	Header        http.Header
	Body          []byte            // of a stream, its last event
	Notifications []json.RawMessage // that came before the response
	Result        json.RawMessage
	Error         *RPCError
}

// Send sends a request as it is and reads its answer, be it one text or a
// stream. An error means that there is none.
func (c *Client) Send(ctx context.Context, m *Message) (*Answer, error) {
	resp, stream, err := c.open(ctx, m)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if stream {
		err = readEvents(resp.Body, func(m json.RawMessage) error {
			if a.Body = m; !isResponse(m) {
				a.Notifications = append(a.Notifications, m)
			}
			return nil
		})
	} else {
		a.Body, err = readBody(resp.Body)
	}
	if err != nil {
		return nil, err
	}
	var response struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if json.Unmarshal(a.Body, &response) == nil {
		if a.Result, a.Error = response.Result, response.Error; a.Error != nil {
			a.Error.Status = a.Status
		}
	}
	return a, nil
}
