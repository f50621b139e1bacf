package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"ze.internal/ze/mcp"
)

// mcpClient calls tools over HTTP as any MCP client of revision 2026-07-28 does.
type mcpClient struct {
	url, token string
	http       *http.Client
	id         int
}

func newMCPClient(url, token string) *mcpClient {
	return &mcpClient{url: url, token: token, http: &http.Client{}}
}

// call runs a tool and returns its structured content.
func (c *mcpClient) call(ctx context.Context, tool string, args map[string]any) (json.RawMessage, error) {
	const method = "tools/call"
	c.id++
	params := map[string]any{
		"name": tool,
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    mcp.Revision,
			"io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "ze demo", "version": version},
		},
	}
	if args != nil {
		params["arguments"] = args
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": mcp.Revision, "Mcp-Method": method, "Mcp-Name": tool,
		"Authorization": "Bearer " + c.token,
	} {
		req.Header.Set(name, value)
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
		Result *struct {
			Content           []struct{ Text string } `json:"content"`
			StructuredContent json.RawMessage         `json:"structuredContent"`
			IsError           bool                    `json:"isError"`
		} `json:"result"`
		Error *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(raw, &answer); {
	case err != nil:
		return nil, fmt.Errorf("the server answered %s with no JSON: %w", resp.Status, err)
	case answer.Error != nil:
		return nil, fmt.Errorf("the server answered %s, error %d: %s", resp.Status, answer.Error.Code, answer.Error.Message)
	case answer.Result == nil:
		return nil, fmt.Errorf("the server answered %s: %.200s", resp.Status, raw)
	case answer.Result.IsError:
		return nil, fmt.Errorf("the tool failed: %s", answer.Result.Content[0].Text)
	}
	return answer.Result.StructuredContent, nil
}
