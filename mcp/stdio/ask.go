package stdio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

var errEnding = errors.New("the host is going away")

// comeBack is how long to wait when the server only says to call again.
const comeBack = 200 * time.Millisecond

// fulfil has the host answer what the server asks, and prepares the parameters
// for the next round.
func (s *server) fulfil(ctx context.Context, h *host, params *object, asked object) error {
	params.drop("inputResponses", "requestState")
	if state := asked.get("requestState"); state != nil {
		params.set("requestState", state)
	}
	requests := parseObject(asked.get("inputRequests"))
	if len(requests) == 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(comeBack):
			return nil
		}
	}
	answers := object{}
	for _, r := range requests {
		answer, err := s.question(ctx, h, parseObject(r.value))
		if err != nil {
			return err
		}
		answers.set(r.name, answer)
	}
	params.set("inputResponses", answers.encode())
	return nil
}

// question asks the host one thing. A host that cannot answer a form has
// cancelled it; what else it cannot answer nobody can do without.
func (s *server) question(ctx context.Context, h *host, q object) (jsontext.Value, error) {
	method := q.text("method")
	needs := map[string]string{"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}[method]
	if needs == "" || parseObject(parseObject(h.clientCapabilities()).get(needs)) == nil {
		return nil, fmt.Errorf("the server asks for %q, which this host did not offer", method)
	}
	params := parseObject(q.get("params"))
	var lists []string
	if needs == "elicitation" {
		if mode := params.text("mode"); mode != "" && mode != "form" {
			return nil, fmt.Errorf("the server asks for elicitation in mode %q, which this host did not offer", mode)
		}
		params, lists = h.form(params)
	}
	r, err := s.askHost(ctx, method, params)
	switch {
	case err != nil:
		return nil, err
	case needs == "elicitation" && parseObject(r.result) == nil:
		return jsontext.Value(`{"action":"cancel"}`), nil
	case r.error != nil:
		return nil, fmt.Errorf("the host refused %s: %s", method, parseObject(r.error).text("message"))
	}
	if len(lists) > 0 {
		return splitLists(r.result, lists), nil
	}
	return r.result, nil
}

// askHost sends a request to the host and waits for the answer.
func (s *server) askHost(ctx context.Context, method string, params object) (response, error) {
	id, answer := s.nextID(), make(chan response, 1)
	key := string(quote(id))
	s.mu.Lock()
	s.asked[key] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, key)
		s.mu.Unlock()
	}()
	request := object{{"jsonrpc", quote("2.0")}, {"id", quote(id)}, {"method", quote(method)}}
	if params != nil {
		request.set("params", params.encode())
	}
	s.write(request.encode())
	select {
	case r := <-answer:
		return r, nil
	case <-s.ending:
		return response{}, errEnding
	case <-ctx.Done():
		s.notify("notifications/cancelled", object{{"requestId", quote(id)}, {"reason", quote("the call was cancelled")}})
		return response{}, ctx.Err()
	}
}

// answered takes the host's answer to a question.
func (s *server) answered(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to := s.asked[string(m.id)]; to != nil {
		delete(s.asked, string(m.id)) // a second answer is nobody's
		to <- m.response
	}
}

// form returns the parameters of a form as the host's revision has them. The
// first with forms has no choice of several: those become texts, whose names are
// returned.
func (h *host) form(params object) (object, []string) {
	if h.version >= revision202511 {
		return params, nil
	}
	var lists []string
	params.drop("mode")
	params.change("requestedSchema", func(v jsontext.Value) jsontext.Value {
		schema := parseObject(v)
		schema.drop("$schema")
		schema.change("properties", func(v jsontext.Value) jsontext.Value {
			properties := parseObject(v)
			for i, p := range properties {
				property := parseObject(p.value)
				if property.text("type") == "array" {
					lists = append(lists, p.name)
					property = textForList(property)
				}
				properties[i].value = oldEnum(property).encode()
			}
			return properties.encode()
		})
		return schema.encode()
	})
	return params, lists
}

// oldEnum returns a property whose titled choices are written as they once were.
func oldEnum(property object) object {
	values, titles := choices(property, "oneOf")
	if values == nil || property.get("enum") != nil {
		return property
	}
	property.drop("oneOf")
	property.set("enum", encodeArray(values))
	property.set("enumNames", encodeArray(titles))
	return property
}

// choices returns the values of a titled choice, and their titles.
func choices(property object, name string) (values, titles []jsontext.Value) {
	for _, v := range parseArray(property.get(name)) {
		choice := parseObject(v)
		if choice.get("const") == nil {
			return nil, nil
		}
		title := choice.get("title")
		if title == nil {
			title = choice.get("const")
		}
		values, titles = append(values, choice.get("const")), append(titles, title)
	}
	return values, titles
}

// textForList returns a text property in place of a choice of several.
func textForList(property object) object {
	items := parseObject(property.get("items"))
	values := parseArray(items.get("enum"))
	if values == nil {
		values, _ = choices(items, "anyOf")
	}
	var allowed []string
	for _, v := range values {
		if s, ok := text(v); ok {
			allowed = append(allowed, s)
		}
	}
	out := object{{"type", quote("string")}}
	if title := property.get("title"); title != nil {
		out.set("title", title)
	}
	about := strings.TrimSpace(property.text("description") + " Several with commas, of: " + strings.Join(allowed, ", "))
	out.set("description", quote(about))
	return out
}

// splitLists turns the texts that stand for lists in a form's answer into those.
func splitLists(answer jsontext.Value, lists []string) jsontext.Value {
	o := parseObject(answer)
	o.change("content", func(v jsontext.Value) jsontext.Value {
		content := parseObject(v)
		for i, m := range content {
			given, ok := text(m.value)
			if !ok || !slices.Contains(lists, m.name) {
				continue
			}
			values := []jsontext.Value{}
			for part := range strings.SplitSeq(given, ",") {
				if part = strings.TrimSpace(part); part != "" {
					values = append(values, quote(part))
				}
			}
			content[i].value = encodeArray(values)
		}
		return content.encode()
	})
	return o.encode()
}
