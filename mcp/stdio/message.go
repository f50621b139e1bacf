package stdio

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Error codes of JSON-RPC 2.0 and MCP.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeUnsupportedVersion = -32022
	codeResourceNotFound   = -32002 // before 2026-07-28
)

// Members of _meta.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClientInfo   = "io.modelcontextprotocol/clientInfo"
	metaServerInfo   = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// message is one JSON-RPC message of the host.
type message struct {
	raw    jsontext.Value
	id     jsontext.Value // as it was sent; nil: a notification
	method string
	params jsontext.Value // nil if absent
	response
}

// response is the answer to a request; both are nil in anything else.
type response struct{ result, error jsontext.Value }

// failure is an error that this program answers with itself.
type failure struct {
	code    int
	message string
	data    jsontext.Value
}

func (f *failure) encode() jsontext.Value {
	e := object{{"code", jsontext.Value(fmt.Sprint(f.code))}, {"message", quote(f.message)}}
	if f.data != nil {
		e.set("data", f.data)
	}
	return e.encode()
}

// answer is the JSON-RPC response to the request with this id; nil leaves it out.
func (r response) answer(id jsontext.Value) jsontext.Value {
	m := object{{"jsonrpc", jsontext.Value(`"2.0"`)}}
	if id != nil {
		m.set("id", id)
	}
	if r.error != nil {
		m.set("error", r.error)
	} else {
		m.set("result", r.result)
	}
	return m.encode()
}

func failed(code int, format string, args ...any) response {
	return response{error: (&failure{code: code, message: fmt.Sprintf(format, args...)}).encode()}
}

// parseMessage reads valid JSON. The response of an error goes to the id, if
// there is one.
func parseMessage(v jsontext.Value) (m message, invalid *response) {
	o := parseObject(v)
	refuse := func(text string) *response { r := failed(codeInvalidRequest, "%s", text); return &r }
	m = message{raw: v, id: o.get("id"), params: o.get("params"), response: response{o.get("result"), o.get("error")}}
	if m.id != nil && !isID(m.id) {
		m.id = nil
		return m, refuse("id must be a string or an integer")
	}
	method, isString := text(o.get("method"))
	m.method = method
	switch {
	case o == nil:
		return m, refuse("a message must be a JSON-RPC object")
	case o.text("jsonrpc") != "2.0":
		return m, refuse(`jsonrpc must be "2.0"`)
	case o.get("method") == nil && (m.result != nil || m.error != nil):
		return m, nil
	case !isString || method == "":
		return m, refuse("method must be a string that is not empty")
	case m.result != nil || m.error != nil:
		return m, refuse("a request has no result and no error")
	}
	return m, nil
}

func isID(v jsontext.Value) bool {
	return v.Kind() == '"' || v.Kind() == '0' && !bytes.ContainsAny(v, ".eE")
}

// line takes what the host sent.
func (s *server) line(ctx context.Context, l line) {
	v := jsontext.Value(l.text)
	switch {
	case l.tooLong:
		s.write(failed(codeInvalidRequest, "the line has more than %d octets; send less at a time", maxLine).answer(nil))
	case !v.IsValid():
		s.write(failed(codeParse, "the line is not one JSON text in UTF-8; send each message on a line of its own").answer(nil))
	case v.Kind() == '[':
		s.batch(ctx, v)
	default:
		s.message(ctx, v, s.write)
	}
}

// batch takes several messages at once, which only revision 2025-03-26 has. The
// answers become one message.
func (s *server) batch(ctx context.Context, v jsontext.Value) {
	messages := parseArray(v)
	h := s.shaken()
	switch {
	case h == nil || !h.batches():
		s.write(failed(codeInvalidRequest, "batches are not part of this revision: send each message on a line of its own").answer(nil))
		return
	case len(messages) == 0:
		s.write(failed(codeInvalidRequest, "the batch is empty").answer(nil))
		return
	}
	var (
		mu      sync.Mutex
		answers []jsontext.Value
		left    sync.WaitGroup
	)
	for _, m := range messages {
		left.Add(1)
		s.part(ctx, m, func(answer jsontext.Value) {
			if answer != nil {
				mu.Lock()
				answers = append(answers, answer)
				mu.Unlock()
			}
			left.Done()
		})
	}
	s.work.Go(func() {
		left.Wait()
		if len(answers) > 0 {
			s.write(encodeArray(answers))
		}
	})
}

// part takes one message of a batch and calls done once, with nil if there is
// no answer.
func (s *server) part(ctx context.Context, v jsontext.Value, done func(answer jsontext.Value)) {
	if parseObject(v).text("method") == "initialize" {
		done(failed(codeInvalidRequest, "initialize must not be part of a batch").answer(parseObject(v).get("id")))
		return
	}
	s.take(ctx, v, done)
}

// message takes one message, and writes its answer if there is one.
func (s *server) message(ctx context.Context, v jsontext.Value, write func(jsontext.Value)) {
	s.take(ctx, v, func(answer jsontext.Value) {
		if answer != nil {
			write(answer)
		}
	})
}

// take takes one message and calls done once, with nil if there is no answer.
func (s *server) take(ctx context.Context, v jsontext.Value, done func(answer jsontext.Value)) {
	m, invalid := parseMessage(v)
	switch {
	case invalid != nil:
		done(invalid.answer(m.id))
	case m.method == "":
		s.answered(m)
		done(nil)
	case m.id == nil:
		s.notified(ctx, m)
		done(nil)
	default:
		s.request(ctx, m, done)
	}
}

// notified takes a notification.
func (s *server) notified(ctx context.Context, m message) {
	switch m.method {
	case "notifications/cancelled":
		s.cancel(parseObject(m.params).get("requestId"))
	case "notifications/initialized":
		s.watchFor(ctx)
	}
}

// request answers a request, most of them later.
func (s *server) request(ctx context.Context, m message, done func(answer jsontext.Value)) {
	modern := parseObject(parseObject(m.params).get("_meta")).get(metaVersion) != nil
	h := s.shaken()
	var run func(ctx context.Context) response
	switch {
	case modern:
		run = func(ctx context.Context) response { return s.relay(ctx, m) }
	case m.method == "initialize":
		h = s.shake(m)
		run = func(ctx context.Context) response { return s.initialize(ctx, h) }
	case m.method == "ping":
		done(response{result: jsontext.Value(`{}`)}.answer(m.id))
		return
	case h == nil:
		done(failed(codeInvalidParams, "params._meta has no %s: send it with every request for revision %s, or begin with initialize for %s", metaVersion, Revision, legacyList).answer(m.id))
		return
	default:
		run = func(ctx context.Context) response { return s.translate(ctx, h, m) }
	}
	ctx, running, fail := s.begin(ctx, m)
	if fail != nil {
		done(response{error: fail.encode()}.answer(m.id))
		return
	}
	s.work.Go(func() {
		r := run(ctx)
		gone := ctx.Err() != nil // and nobody waits for what came of that
		if !s.end(m.id, running) || gone || r.result == nil && r.error == nil {
			done(nil)
			return
		}
		done(r.answer(m.id))
	})
}
