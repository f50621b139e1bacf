package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

// Identifiers of the extensions served.
const (
	extensionTasks = "io.modelcontextprotocol/tasks"
	extensionUI    = "io.modelcontextprotocol/ui"
)

// capabilities is what a client declares it can do, for one request (page
// basic/index). What is not an object is not declared.
type capabilities struct {
	form  bool // elicitation in form mode
	tasks bool
	ui    bool
	raw   jsontext.Value
}

func parseCapabilities(v jsontext.Value) (capabilities, *failure) {
	c := capabilities{raw: v}
	if len(v) == len(`{}`) {
		return c, nil
	}
	var in struct {
		Elicitation jsontext.Value            `json:"elicitation"`
		Extensions  map[string]jsontext.Value `json:"extensions"`
	}
	if err := jsonv2.Unmarshal(v, &in, checked); err != nil {
		return c, invalidParams("params._meta: %s: %v", metaCapabilities, err)
	}
	c.form = declaresForm(in.Elicitation)
	c.tasks = in.Extensions[extensionTasks].Kind() == '{'
	c.ui = declaresUI(in.Extensions[extensionUI])
	return c, nil
}

// declaresForm reports whether an elicitation capability includes forms: an
// empty one means nothing else.
func declaresForm(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	var modes map[string]jsontext.Value
	if err := jsonv2.Unmarshal(v, &modes, checked); err != nil {
		return false
	}
	return len(modes) == 0 || modes["form"].Kind() == '{'
}

// declaresUI reports whether a client shows documents of the kind served. Some
// leave out the list of kinds, though it is required: they mean this one, which
// is all there is.
func declaresUI(v jsontext.Value) bool {
	if v.Kind() != '{' {
		return false
	}
	var in struct {
		MIMETypes jsontext.Value `json:"mimeTypes"`
	}
	if err := jsonv2.Unmarshal(v, &in, checked); err != nil {
		return false
	}
	if in.MIMETypes == nil {
		return true
	}
	var kinds []string
	if err := jsonv2.Unmarshal(in.MIMETypes, &kinds, checked); err != nil {
		return false
	}
	return slices.ContainsFunc(kinds, func(kind string) bool {
		base, params, err := mime.ParseMediaType(kind)
		return err == nil && base == "text/html" && params["profile"] == "mcp-app"
	})
}

// capabilityNeeds are client capabilities, by name, each with the members it
// must have.
type capabilityNeeds map[string]map[string]struct{}

func (n capabilityNeeds) add(more capabilityNeeds) {
	for name, members := range more {
		if n[name] == nil {
			n[name] = make(map[string]struct{})
		}
		maps.Copy(n[name], members)
	}
}

// encode returns the needs as the client-capabilities object that would do.
func (n capabilityNeeds) encode() jsontext.Value {
	b, err := jsonv2.Marshal(n, jsonv2.Deterministic(true))
	if err != nil {
		panic("mcp: encode capabilities: " + err.Error()) // they are maps of strings
	}
	return b
}

// needsOf returns what a caller must have declared to be asked q (page
// basic/patterns/mrtr). The error is a defect of the command that asks.
func needsOf(q command.Question) (capabilityNeeds, error) {
	var params struct {
		Mode           string          `json:"mode"`
		Tools          json.RawMessage `json:"tools"`
		ToolChoice     json.RawMessage `json:"toolChoice"`
		IncludeContext string          `json:"includeContext"`
	}
	if q.Params != nil {
		if err := json.Unmarshal(q.Params, &params); err != nil {
			return nil, fmt.Errorf("question %s: %w", q.Key, err)
		}
	}
	members := map[string]struct{}{}
	switch q.Method {
	case elicitationMethod:
		mode := params.Mode
		if mode == "" {
			mode = "form"
		}
		members[mode] = struct{}{}
		return capabilityNeeds{"elicitation": members}, nil
	case "sampling/createMessage":
		if params.Tools != nil || params.ToolChoice != nil {
			members["tools"] = struct{}{}
		}
		if params.IncludeContext != "" && params.IncludeContext != "none" {
			members["context"] = struct{}{}
		}
		return capabilityNeeds{"sampling": members}, nil
	case "roots/list":
		return capabilityNeeds{"roots": members}, nil
	}
	return nil, fmt.Errorf("question %s: there is no method %s to ask with", q.Key, q.Method)
}

// satisfy reports whether the client has declared all of n.
func (c *capabilities) satisfy(n capabilityNeeds) bool {
	var declared map[string]jsontext.Value
	if err := jsonv2.Unmarshal(c.raw, &declared, checked); err != nil {
		return false
	}
	for name, members := range n {
		if declared[name].Kind() != '{' {
			return false
		}
		var has map[string]jsontext.Value
		if err := jsonv2.Unmarshal(declared[name], &has, checked); err != nil {
			return false
		}
		for m := range members {
			if name == "elicitation" && m == "form" {
				if !c.form {
					return false
				}
			} else if has[m].Kind() != '{' {
				return false
			}
		}
	}
	return true
}

// CanAnswer reports whether a client that declared these capabilities, a JSON
// object, can be asked q.
func CanAnswer(client json.RawMessage, q command.Question) bool {
	needs, err := needsOf(q)
	if err != nil {
		return false
	}
	c, fail := parseCapabilities(jsontext.Value(client))
	return fail == nil && c.satisfy(needs)
}
