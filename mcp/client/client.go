// Package client speaks MCP revision 2026-07-28 over HTTP as the strictest host
// would: every header, all metadata, a new id for each request. It owns the
// client's half of the wire; it must not know any tool. The demonstration, the
// stdio server, the test client and the tests use it.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
)

// Revision is the protocol revision the client speaks.
const Revision = "2026-07-28"

// Options is what a Client is made of.
type Options struct {
	URL          string            // where the server answers
	Token        string            // sent as the bearer; "" sends none
	Name         string            // how the client introduces itself
	Capabilities map[string]any    // declared on every request; nil declares none
	Transport    http.RoundTripper // default: connections of its own
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	url, token   string
	name         string
	capabilities map[string]any
	http         *http.Client
	id           atomic.Int64
	mirrors      mirrors
}

// Open returns a client. Nothing is sent before the first request.
func Open(o Options) *Client {
	if o.Capabilities == nil {
		o.Capabilities = map[string]any{}
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{}
	}
	return &Client{url: o.URL, token: o.Token, name: o.Name, capabilities: o.Capabilities, http: &http.Client{Transport: o.Transport}}
}

// New returns a client that declares nothing, of the server at url, that sends
// token as its bearer; "" sends none. name is how it introduces itself.
func New(url, token, name string) *Client {
	return Open(Options{URL: url, Token: token, Name: name})
}

// Close releases idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// StatusError is an answer that is no JSON-RPC response.
type StatusError struct {
	Status int    // HTTP status
	Body   string // beginning of the body
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered %d: %s", e.Status, e.Body)
}

// RPCError is a JSON-RPC error (section 5.1 of JSON-RPC 2.0).
type RPCError struct {
	Status  int             `json:"-"` // HTTP status
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *RPCError) Error() string {
	return fmt.Sprintf("the server answered %d, error %d: %s", e.Status, e.Code, e.Message)
}

// ToolError is a tools/call result with isError.
type ToolError struct {
	Text string // first text block
}

// Error implements error.
func (e *ToolError) Error() string { return "the tool failed: " + e.Text }

// Do sends one request. params may be nil; _meta is added to it. target is the
// value of Mcp-Name, "" for methods that have none. The result is returned raw.
func (c *Client) Do(ctx context.Context, method, target string, params map[string]any) (json.RawMessage, error) {
	result, err := c.do(ctx, method, target, params)
	if e := (*RPCError)(nil); method != "tools/call" || !errors.As(err, &e) || e.Code != codeHeaderMismatch {
		return result, err
	}
	// The tools have changed, or nobody has asked for them: which arguments
	// belong into headers is in their schemas.
	if err := c.relist(ctx, Revision, c.meta()); err != nil {
		return nil, err
	}
	return c.do(ctx, method, target, params)
}

func (c *Client) do(ctx context.Context, method, target string, params map[string]any) (json.RawMessage, error) {
	m, err := c.Message(method, params)
	if err != nil {
		return nil, err
	}
	if m.Header.Del("Mcp-Name"); target != "" {
		m.Header.Set("Mcp-Name", encodeHeader(target))
	}
	a, err := c.Send(ctx, m)
	switch {
	case err != nil:
		return nil, err
	case a.Error != nil:
		return nil, a.Error
	case a.Result != nil:
		return a.Result, nil
	}
	return nil, &StatusError{Status: a.Status, Body: string(a.Body[:min(len(a.Body), 300)])}
}

// Call runs a tool and returns its structured content. args is encoded as the
// argument object; nil sends none.
func (c *Client) Call(ctx context.Context, tool string, args any) (json.RawMessage, error) {
	r, err := c.CallTool(ctx, tool, args, nil)
	switch {
	case err != nil:
		return nil, err
	case r.IsError:
		return nil, &ToolError{r.Text()}
	case r.Task != nil:
		return nil, fmt.Errorf("the call has become task %s", r.Task.ID)
	}
	return r.Structured, nil
}
