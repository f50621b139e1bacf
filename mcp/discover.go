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

// capabilities returns what this server offers; a member that is there means that
// its methods answer.
func (s *Server) capabilities() map[string]any {
	type object struct{}
	extensions := map[string]any{}
	if s.tasks != nil {
		extensions[extensionTasks] = object{}
	}
	if len(s.assets) > 0 {
		extensions[extensionUI] = object{}
	}
	type list struct {
		Changed   bool `json:"listChanged,omitzero"`
		Subscribe bool `json:"subscribe,omitzero"`
	}
	told := s.events != nil
	all := map[string]any{"tools": list{Changed: told}, "resources": list{Changed: told, Subscribe: told}, "prompts": list{Changed: told},
		"completions": object{}}
	if len(extensions) > 0 {
		all["extensions"] = extensions
	}
	return all
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
		Capabilities:      s.capabilities(),
		Instructions:      instructions,
		cacheHints:        perCaller,
		Meta:              s.info,
	}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("mcp server: encode the result of server/discover: %w", err)
	}
	return b, nil
}

func (s *Server) serverDiscover(context.Context, *request) ([]byte, *failure) {
	return s.discover, nil
}
