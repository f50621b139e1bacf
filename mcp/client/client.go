// Package client speaks MCP revision 2026-07-28 over HTTP as the strictest host
// would: every header, all metadata, a new id for each request. It owns the
// client's half of the wire; it must not know any tool. The demonstration and
// the tests use it.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// Revision is the protocol revision the client speaks.
const Revision = "2026-07-28"

// Client calls one server. It is safe for concurrent use.
type Client struct {
	url, token string
	name       string
	http       *http.Client
	id         atomic.Int64
}

// New returns a client of the server at url that sends token as its bearer; ""
// sends none. name is how it introduces itself.
func New(url, token, name string) *Client {
	return &Client{url: url, token: token, name: name, http: &http.Client{Transport: &http.Transport{}}}
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
	Data    json.RawMessage `json:"data"`
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
	all := map[string]any{"_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    Revision,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": c.name, "version": "1"},
	}}
	for k, v := range params {
		all[k] = v
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id.Add(1), "method": method, "params": all})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", Revision)
	req.Header.Set("Mcp-Method", method)
	if target != "" {
		req.Header.Set("Mcp-Name", target)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("call the server: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	err = json.Unmarshal(raw, &answer)
	switch {
	case err == nil && answer.Error != nil:
		answer.Error.Status = resp.StatusCode
		return nil, answer.Error
	case err == nil && answer.Result != nil:
		return answer.Result, nil
	}
	return nil, &StatusError{Status: resp.StatusCode, Body: string(raw[:min(len(raw), 300)])}
}

// Call runs a tool and returns its structured content. args is encoded as the
// argument object; nil sends none.
func (c *Client) Call(ctx context.Context, tool string, args any) (json.RawMessage, error) {
	params := map[string]any{"name": tool}
	if args != nil {
		params["arguments"] = args
	}
	raw, err := c.Do(ctx, "tools/call", tool, params)
	if err != nil {
		return nil, err
	}
	var result struct {
		Content           []struct{ Text string } `json:"content"`
		StructuredContent json.RawMessage         `json:"structuredContent"`
		IsError           bool                    `json:"isError"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if result.IsError {
		e := &ToolError{}
		if len(result.Content) > 0 {
			e.Text = result.Content[0].Text
		}
		return nil, e
	}
	return result.StructuredContent, nil
}
