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
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
	Annotations  annotations    `json:"annotations"`
	Meta         jsontext.Value `json:"_meta,omitzero"`
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
	byView     map[listKey][]byte
}

// listKey says which list: what the caller may see, and whether it shows apps.
type listKey struct {
	view string
	ui   bool
}

// maxLists bounds the cache: views come from tokens, which come and go.
const maxLists = 64

func (s *Server) toolsList(_ context.Context, r *request) ([]byte, *failure) {
	if fail := r.onePage(); fail != nil {
		return nil, fail
	}
	list, err := s.list(r.principal, r.client.ui)
	if err != nil {
		s.log.Error().Err(err).Msg("encode the list of tools")
		return nil, internalFailure()
	}
	return list, nil
}

// list returns the result of tools/list for p. Tools name the app that shows
// their result only to a client that can show it.
func (s *Server) list(p *access.Principal, ui bool) ([]byte, error) {
	registry, key, c := s.dispatcher.Registry(), listKey{p.View(), ui}, &s.lists
	c.mu.Lock()
	defer c.mu.Unlock()
	generation := registry.Generation()
	if list, ok := c.byView[key]; ok && c.generation == generation {
		return list, nil
	}
	list, err := s.encodeList(registry.Tools(p), ui)
	if err != nil {
		return nil, err
	}
	if c.byView == nil || c.generation != generation || len(c.byView) >= maxLists {
		c.generation, c.byView = generation, make(map[listKey][]byte)
	}
	c.byView[key] = list
	return list, nil
}

func (s *Server) encodeList(generated []*command.Tool, ui bool) ([]byte, error) {
	tools := make([]definition, 0, len(s.builtin)+len(generated))
	for _, t := range s.builtin {
		tools = append(tools, t.definition)
	}
	slices.SortFunc(tools, func(a, b definition) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range generated {
		d := define(t)
		if _, ok := s.assets[t.UIResource]; ok && ui {
			var err error
			if d.Meta, err = uiMeta(t); err != nil {
				return nil, err
			}
		}
		tools = append(tools, d)
	}
	return json.Marshal(struct {
		ResultType string       `json:"resultType"`
		Tools      []definition `json:"tools"`
		cacheHints
		Meta jsontext.Value `json:"_meta"`
	}{"complete", tools, perCaller, s.info})
}
