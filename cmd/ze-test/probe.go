package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// probe is what the next probe replaces in a request that is all right.
type probe struct {
	verb   string
	header map[string]*string // nil takes it away
	meta   map[string]any     // nil takes it away
	body   *string
}

func parseProbePair(set func(p *probe, name, value string)) func(string) (step, error) {
	return func(rest string) (step, error) {
		name, value, ok := strings.Cut(rest, " ")
		if value = strings.TrimSpace(value); !ok || name == "" || value == "" {
			return nil, errForm
		}
		return func(_ context.Context, r *runner) (outcome, error) {
			set(&r.probe, name, value)
			return outcome{}, nil
		}, nil
	}
}

func probeHeader(p *probe, name, value string) {
	if p.header == nil {
		p.header = map[string]*string{}
	}
	if p.header[name] = &value; value == "-" {
		p.header[name] = nil
	}
}

// probeMeta replaces a member of _meta. Names that the protocol does not define
// without a prefix get the protocol's.
func probeMeta(p *probe, key, value string) {
	if !strings.Contains(key, "/") && !slices.Contains([]string{"progressToken", "traceparent", "tracestate", "baggage"}, key) {
		key = "io.modelcontextprotocol/" + key
	}
	if p.meta == nil {
		p.meta = map[string]any{}
	}
	switch {
	case value == "-":
		p.meta[key] = nil
	case strings.ContainsAny(value[:1], `{["`) && json.Valid([]byte(value)):
		p.meta[key] = json.RawMessage(value)
	default:
		p.meta[key] = value
	}
}

func probeMethod(_ context.Context, r *runner, verb string) (outcome, error) {
	r.probe.verb = verb
	return outcome{}, nil
}

func parseProbeBody(rest string) (step, error) {
	if rest == "" {
		return nil, errForm
	}
	if rest == "-" {
		rest = ""
	}
	return func(_ context.Context, r *runner) (outcome, error) {
		r.probe.body = &rest
		return outcome{}, nil
	}, nil
}

func parseProbe(rest string) (step, error) {
	method, text, _ := strings.Cut(rest, " ")
	if method == "" {
		return nil, errForm
	}
	params := map[string]any{}
	if text = strings.TrimSpace(text); text != "" {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&params); err != nil || dec.More() || params == nil {
			return nil, errors.New("the params are no JSON object; what is none can be sent with probe-body")
		}
	}
	return func(ctx context.Context, r *runner) (outcome, error) { return sendProbe(ctx, r, method, params) }, nil
}

// probed is the answer to a probe.
type probed struct {
	Status        int               `json:"status"`
	Code          any               `json:"code"` // of the error; "ok": there is a result; "none": it is no response
	Message       string            `json:"message,omitempty"`
	Data          json.RawMessage   `json:"data,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	Notifications []json.RawMessage `json:"notifications,omitempty"`
	Body          string            `json:"body,omitempty"` // if it is no response
}

// sendProbe sends a request as the replacements make it. Whatever is answered
// passes; expect looks into it.
func sendProbe(ctx context.Context, r *runner, method string, params map[string]any) (outcome, error) {
	p := r.probe
	r.probe = probe{}
	if p.meta != nil {
		params["_meta"] = p.meta
	}
	m, err := r.client.Message(method, params)
	if err != nil {
		return outcome{}, err
	}
	if p.verb != "" {
		m.Verb = p.verb
		if p.verb != http.MethodPost {
			m.Body = nil
		}
	}
	if p.body != nil {
		m.Body = []byte(*p.body)
	}
	for name, value := range p.header {
		if m.Header.Del(name); value != nil {
			m.Header.Set(name, *value)
		}
	}
	a, err := r.client.Send(ctx, m)
	if err != nil {
		return outcome{}, err
	}
	out := probed{Status: a.Status, Code: "none", Result: a.Result, Notifications: a.Notifications}
	switch {
	case a.Error != nil:
		out.Code, out.Message, out.Data = a.Error.Code, a.Error.Message, a.Error.Data
	case a.Result != nil:
		out.Code = "ok"
	default:
		out.Body = string(bytes.TrimSpace(a.Body))
	}
	encoded, err := json.Marshal(out)
	return outcome{out.line(), encoded}, err
}

// line is what is printed of a probe.
func (p *probed) line() string {
	or := func(v json.RawMessage) string {
		if v == nil {
			return "none"
		}
		return string(v)
	}
	message := p.Message
	if p.Code == "none" {
		message = p.Body
	}
	return fmt.Sprintf("status=%d code=%v data=%s result=%s message=%q", p.Status, p.Code, or(p.Data), or(p.Result), message)
}
