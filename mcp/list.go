package mcp

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// definition is a tool as a list shows it (page server/tools). The root of both
// schemas is an object.
type definition struct {
	Name         string         `json:"name"`
	Description  string         `json:"description"`
	InputSchema  jsontext.Value `json:"inputSchema"`
	OutputSchema jsontext.Value `json:"outputSchema"`
	Annotations  annotations    `json:"annotations"`
}

type annotations struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
}

func define(t *command.Tool) definition {
	return definition{
		Name:         t.Name,
		Description:  t.Description,
		InputSchema:  jsontext.Value(t.InputSchema),
		OutputSchema: jsontext.Value(t.OutputSchema),
		Annotations:  annotations{ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent},
	}
}

// listCache holds encoded results of tools/list, by what the caller may see.
// They are valid for one generation of the registry.
type listCache struct {
	mu         sync.Mutex
	generation uint64
	byView     map[string][]byte
}

// maxLists bounds the cache: views come from tokens, which come and go.
const maxLists = 64

func (s *Server) toolsList(_ context.Context, r *request) ([]byte, *failure) {
	var params struct {
		Cursor jsontext.Value `json:"cursor"`
	}
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return nil, invalidParams("params: %v", err)
	}
	if params.Cursor != nil {
		return nil, refusedParams("no such cursor: the list is one page; ask without a cursor")
	}
	list, err := s.list(r.principal)
	if err != nil {
		s.log.Error().Err(err).Msg("encode the list of tools")
		return nil, internalFailure()
	}
	return list, nil
}

// list returns the result of tools/list for p.
func (s *Server) list(p *access.Principal) ([]byte, error) {
	registry, view, c := s.dispatcher.Registry(), p.View(), &s.lists
	c.mu.Lock()
	defer c.mu.Unlock()
	generation := registry.Generation()
	if list, ok := c.byView[view]; ok && c.generation == generation {
		return list, nil
	}
	list, err := s.encodeList(registry.Tools(p))
	if err != nil {
		return nil, err
	}
	if c.byView == nil || c.generation != generation || len(c.byView) >= maxLists {
		c.generation, c.byView = generation, make(map[string][]byte)
	}
	c.byView[view] = list
	return list, nil
}

func (s *Server) encodeList(generated []*command.Tool) ([]byte, error) {
	tools := make([]definition, 0, len(s.builtin)+len(generated))
	for _, t := range s.builtin {
		tools = append(tools, t.definition)
	}
	slices.SortFunc(tools, func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range generated {
		tools = append(tools, define(t))
	}
	return json.Marshal(struct {
		ResultType string       `json:"resultType"`
		Tools      []definition `json:"tools"`
		cacheHints
		Meta jsontext.Value `json:"_meta"`
	}{"complete", tools, perCaller, s.info})
}
