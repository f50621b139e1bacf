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

// The revisions with a handshake. Their names sort by age.
const (
	revision202503 = "2025-03-26"
	revision202506 = "2025-06-18"
	revision202511 = "2025-11-25"
	legacyList     = revision202511 + ", " + revision202506 + " or " + revision202503
)

const (
	maxRounds    = 10              // of questions about one call
	discoverTime = 3 * time.Second // for the server to say what it can, before the handshake goes on without
)

// host is what a host told in its handshake.
type host struct {
	version      string
	capabilities object
	info         jsontext.Value
	watching     func(context.Context) // starts to watch what changes; once
	leave        func()                // ends that
	missed       bool                  // the server could not be asked for its capabilities
}

func (h *host) batches() bool { return h.version == revision202503 }

// shaken returns the host as it introduced itself, nil if it has not.
func (s *server) shaken() *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// shake takes the host's half of the handshake. A revision that is unknown, or
// has no handshake, is answered with the newest that has one.
func (s *server) shake(m message) *host {
	params := parseObject(m.params)
	h := &host{version: params.text("protocolVersion"), capabilities: parseObject(params.get("capabilities")), info: params.get("clientInfo")}
	if !slices.Contains([]string{revision202503, revision202506, revision202511}, h.version) {
		h.version = revision202511
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.leave = cancel
	h.watching = s.watcher(ctx, h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host != nil {
		s.host.leave()
	}
	s.host = h
	return h
}

// initialize answers the handshake with what the server can do, as far as the
// host's revision has it; without the server, with what it would.
func (s *server) initialize(ctx context.Context, h *host) response {
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	capabilities := jsontext.Value(`{"tools":{"listChanged":true},"resources":{"listChanged":true},"prompts":{"listChanged":true},"completions":{}}`)
	instructions := jsontext.Value(nil)
	r, err := s.ask(ctx, h, "server/discover", nil)
	switch discovered := parseObject(r.result); {
	case err != nil:
		s.mu.Lock()
		h.missed = true
		s.mu.Unlock()
		instructions = quote(err.Error())
	case discovered != nil:
		capabilities, instructions = h.serverCapabilities(discovered.get("capabilities")), discovered.get("instructions")
	}
	result := object{{"protocolVersion", quote(h.version)}, {"capabilities", capabilities}, {"serverInfo", s.info()}}
	if instructions != nil {
		result.set("instructions", instructions)
	}
	return response{result: result.encode()}
}

// ask sends a request in the name of the host. params may be nil.
func (s *server) ask(ctx context.Context, h *host, method string, params object) (response, error) {
	request := object{{"jsonrpc", quote("2.0")}, {"id", quote(s.nextID())}, {"method", quote(method)}, {"params", h.params(params)}}
	return s.exchange(ctx, request.encode(), func(method string, n jsontext.Value) {
		if method == "notifications/progress" {
			s.write(n)
		}
	})
}

// passed are the methods that mean the same in every revision.
var passed = []string{
	"completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read",
	"resources/templates/list", "tools/call", "tools/list",
}

var errRounds = errors.New("the server asked too often; call again with all arguments")

// translate answers a request of a host with a handshake. What the server asks
// before it can answer is asked of the host.
func (s *server) translate(ctx context.Context, h *host, m message) response {
	if !slices.Contains(passed, m.method) {
		return failed(codeMethodNotFound, "no method %s; this server answers %s and ping", m.method, strings.Join(passed, ", "))
	}
	if m.params != nil && parseObject(m.params) == nil {
		return failed(codeInvalidParams, "params must be an object")
	}
	params := parseObject(m.params)
	params.drop("task", "inputResponses", "requestState")
	for range maxRounds {
		r, err := s.ask(ctx, h, m.method, params)
		switch {
		case err != nil:
			return s.notReached(m, err)
		case r.error != nil:
			return response{error: h.downError(m.method, r.error)}
		}
		result := parseObject(r.result)
		switch kind := result.text("resultType"); kind {
		case "input_required":
			switch err := s.fulfil(ctx, h, &params, result); {
			case errors.Is(err, errEnding):
				return response{}
			case err != nil:
				return s.notReached(m, err)
			}
		case "", "complete":
			return response{result: h.down(m.method, result)}
		default:
			return failed(codeInternal, "the server answered with a result of type %s, which revision %s does not have", kind, h.version)
		}
	}
	return s.notReached(m, errRounds)
}

// notReached answers a request that the server did not answer.
func (s *server) notReached(m message, err error) response {
	if m.method == "tools/call" {
		return response{result: toolError(err).encode()}
	}
	return failed(codeInternal, "%v", err)
}

// params returns the parameters of a request in the name of the host.
func (h *host) params(params object) jsontext.Value {
	meta := parseObject(params.get("_meta"))
	meta.set(metaVersion, quote(Revision))
	meta.set(metaCapabilities, h.clientCapabilities())
	if info := parseObject(h.info); info.text("name") != "" && info.text("version") != "" {
		meta.set(metaClientInfo, h.info)
	}
	params = slices.Clone(params)
	params.set("_meta", meta.encode())
	return params.encode()
}

// clientCapabilities returns what the host can do, in the words of Revision. Its
// requests for input reach the host as requests; only forms do so in every
// revision that has them.
func (h *host) clientCapabilities() jsontext.Value {
	out := object{}
	if modes := parseObject(h.capabilities.get("elicitation")); modes != nil && h.version >= revision202506 && (len(modes) == 0 || modes.get("form") != nil) {
		out.set("elicitation", jsontext.Value(`{"form":{}}`))
	}
	if sampling := parseObject(h.capabilities.get("sampling")); sampling != nil {
		if h.version < revision202511 {
			sampling = object{}
		}
		out.set("sampling", sampling.encode())
	}
	if parseObject(h.capabilities.get("roots")) != nil {
		out.set("roots", jsontext.Value(`{}`))
	}
	if ui := parseObject(h.capabilities.get("extensions")).get(extensionUI); ui != nil {
		out.set("extensions", object{{extensionUI, ui}}.encode())
	}
	return out.encode()
}

// serverCapabilities returns what the server can do in the host's words.
func (h *host) serverCapabilities(v jsontext.Value) jsontext.Value {
	out := object{}
	for _, m := range parseObject(v) {
		switch m.name {
		case "tools", "prompts", "completions":
			out = append(out, m)
		case "resources":
			changes := parseObject(m.value)
			changes.drop("subscribe")
			out.set(m.name, append(object{}, changes...).encode())
		case "extensions":
			if ui := parseObject(m.value).get(extensionUI); ui != nil && parseObject(h.capabilities.get("extensions")).get(extensionUI) != nil {
				out.set(m.name, object{{extensionUI, ui}}.encode())
			}
		}
	}
	return out.encode()
}

const extensionUI = "io.modelcontextprotocol/ui"

// downError returns an error of the server in the host's words.
func (h *host) downError(method string, v jsontext.Value) jsontext.Value {
	e := parseObject(v)
	if method == "resources/read" && string(e.get("code")) == fmt.Sprint(codeInvalidParams) && parseObject(e.get("data")).get("uri") != nil {
		e.set("code", jsontext.Value(fmt.Sprint(codeResourceNotFound)))
	}
	return e.encode()
}
