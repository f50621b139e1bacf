package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

const codeHeaderMismatch = -32020

// encodeHeader returns s as the value of a header that repeats it: as it is, or
// in Base64 where a header could not hold it, or would be taken for that (page
// basic/transports/streamable-http).
func encodeHeader(s string) string {
	plain := strings.Trim(s, " \t") == s && !(strings.HasPrefix(s, "=?base64?") && strings.HasSuffix(s, "?="))
	for i := 0; plain && i < len(s); i++ {
		plain = ' ' <= s[i] && s[i] <= '~'
	}
	if plain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// mirrored is an argument that a tool wants to have repeated in a header.
type mirrored struct {
	path   []string // member names
	header string   // without Mcp-Param-
}

// mirrors holds the mirrored arguments of the tools that have some, by name.
type mirrors struct {
	mu    sync.Mutex
	tools map[string][]mirrored
}

// learn takes the mirrored arguments from the answer to tools/list.
func (c *Client) learn(answer []byte) {
	var in struct {
		Result struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &in) != nil {
		return
	}
	c.mirrors.mu.Lock()
	defer c.mirrors.mu.Unlock()
	if c.mirrors.tools == nil {
		c.mirrors.tools = map[string][]mirrored{}
	}
	for _, t := range in.Result.Tools {
		if found := findMirrored(t.InputSchema, nil); len(found) > 0 {
			c.mirrors.tools[t.Name] = found
		} else {
			delete(c.mirrors.tools, t.Name)
		}
	}
}

// findMirrored returns the annotated properties of a schema that are reached
// through properties alone.
func findMirrored(schema json.RawMessage, path []string) []mirrored {
	const deepest = 16
	var in struct {
		Header     string                     `json:"x-mcp-header"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if len(path) > deepest || json.Unmarshal(schema, &in) != nil {
		return nil
	}
	var out []mirrored
	if in.Header != "" && isToken(in.Header) {
		out = append(out, mirrored{path, in.Header})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
		out = append(out, findMirrored(in.Properties[name], append(slices.Clip(path), name))...)
	}
	return out
}

// isToken reports whether s may stand in a header's name (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// mirror sets the headers that repeat arguments of a call.
func (c *Client) mirror(to http.Header, h head) {
	c.mirrors.mu.Lock()
	wanted := c.mirrors.tools[h.Params.Name]
	c.mirrors.mu.Unlock()
	for _, m := range wanted {
		value := h.Params.Arguments
		for _, name := range m.path {
			var members map[string]json.RawMessage
			if json.Unmarshal(value, &members) != nil {
				members = nil
			}
			value = members[name]
		}
		var text string
		switch {
		case len(value) == 0 || string(value) == "null" || value[0] == '{' || value[0] == '[':
			continue
		case value[0] != '"':
			text = string(value)
		case json.Unmarshal(value, &text) != nil:
			continue
		}
		to.Set("Mcp-Param-"+m.header, encodeHeader(text))
	}
}

// relist asks for the tools with the _meta of a request, to learn from them.
func (c *Client) relist(ctx context.Context, version string, meta any) error {
	const mostPages = 100
	list := head{Method: "tools/list", version: version}
	params := map[string]any{"_meta": meta}
	for range mostPages {
		request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id.Add(1), "method": list.Method, "params": params})
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		var page struct {
			Result struct {
				Next *string `json:"nextCursor"`
			} `json:"result"`
		}
		err = c.post(ctx, request, list, func(m json.RawMessage) error {
			c.learn(m)
			return json.Unmarshal(m, &page)
		})
		if err != nil {
			return fmt.Errorf("list the tools: %w", err)
		}
		if page.Result.Next == nil {
			return nil
		}
		params["cursor"] = *page.Result.Next
	}
	return errors.New("list the tools: the list does not end")
}
