package mcp

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// cacheHints are the members that a cacheable result must carry, zero or not.
// What is listed depends on the caller, so a shared cache may not keep it.
type cacheHints struct {
	TTL   int64  `json:"ttlMs"`
	Scope string `json:"cacheScope"`
}

var perCaller = cacheHints{TTL: 60_000, Scope: "private"}

func encodeInfo(name, version string) ([]byte, error) {
	type implementation struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	b, err := json.Marshal(struct {
		ServerInfo implementation `json:"io.modelcontextprotocol/serverInfo"`
	}{implementation{name, version}})
	if err != nil {
		return nil, fmt.Errorf("mcp server: encode name and version: %w", err)
	}
	return b, nil
}

// encodeDiscover returns the result of server/discover, which is the same for
// every caller.
func (s *Server) encodeDiscover(instructions string) ([]byte, error) {
	b, err := json.Marshal(struct {
		ResultType        string         `json:"resultType"`
		SupportedVersions []string       `json:"supportedVersions"`
		Capabilities      map[string]any `json:"capabilities"`
		Instructions      string         `json:"instructions,omitzero"`
		cacheHints
		Meta jsontext.Value `json:"_meta"`
	}{
		ResultType:        "complete",
		SupportedVersions: []string{Revision},
		Capabilities:      map[string]any{"tools": struct{}{}},
		Instructions:      instructions,
		cacheHints:        perCaller,
		Meta:              s.info,
	})
	if err != nil {
		return nil, fmt.Errorf("mcp server: encode the result of server/discover: %w", err)
	}
	return b, nil
}

func (s *Server) serverDiscover(context.Context, *request) ([]byte, *failure) {
	return s.discover, nil
}
