// Package mcp is the daemon's door for AI assistants: a Model Context Protocol
// server of revision 2026-07-28 and no other, over stateless HTTP. Every message
// is a POST of its own that carries version, capabilities and credential; nothing
// is remembered from one to the next. The package owns the wire: the order of
// the checks, JSON-RPC, the tool list and the two hand-written tools. What a
// tool does belongs to the command it stands for, which is run by the one
// dispatcher; this package must not know any command, the database, or BGP.
package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/task"
)

// Revision is the protocol revision served.
const Revision = "2026-07-28"

const defaultMaxBody = 4 << 20

// Authenticator tells who sends a request from the value of its Authorization
// header, "" if there is none. The error's text is for the caller and says what
// to do; access.ErrAuthUnavailable means that nobody can be told now.
type Authenticator interface {
	Authenticate(ctx context.Context, header string) (*access.Principal, error)
}

// Options is what a Server is made of.
type Options struct {
	Dispatcher    *command.Dispatcher // required
	Auth          Authenticator       // required
	Limiter       *access.Limiter     // of each caller's requests; nil: none
	Throttle      *access.Throttle    // of requests that are not authenticated; nil: none
	Name, Version string              // required: what the server calls itself
	Instructions  string              // how a model should use the tools; "" sends none
	Clock         func() time.Time    // default time.Now
	Logger        zerolog.Logger
	Tasks         *task.Manager     // runs long commands for clients that take a task; nil: everybody waits
	Events        *event.Bus        // what callers may listen for; nil: they cannot listen
	MaxStreams    int               // of one caller that are open at a time; default 8
	Assets        map[string][]byte // by ui:// address: documents that a host shows; nil: none, and no app is offered
	MaxBody       int64             // bytes a request's body may have; default 4 MiB
	KeepAlive     time.Duration     // between comments on a stream, and how long an answer may take before it becomes one; default 15 s
	StateKey      []byte            // 32 random bytes that seal what callers carry from round to round; default new ones
}

// Server answers MCP requests. It is safe for concurrent use, and holds nothing
// between requests but caches.
type Server struct {
	dispatcher *command.Dispatcher
	auth       Authenticator
	limiter    *access.Limiter
	throttle   *access.Throttle
	clock      func() time.Time
	log        zerolog.Logger
	maxBody    int64
	keepAlive  time.Duration
	sealer     *sealer
	assets     map[string][]byte
	tasks      *task.Manager // nil: no tasks
	events     *event.Bus    // nil: nobody can listen
	streams    streams
	watch      watch
	large      budget

	methods  map[string]method
	builtin  map[string]*builtinTool
	info     []byte // the _meta object of every result
	discover []byte // the result of server/discover
	lists    listCache
	metrics  *metrics
}

// New returns a server. It fails if an option is missing or if a registered
// command generates a tool with the name of a hand-written one.
func New(o Options) (*Server, error) {
	switch {
	case o.Dispatcher == nil:
		return nil, errors.New("mcp server: no dispatcher")
	case o.Auth == nil:
		return nil, errors.New("mcp server: no authenticator")
	case o.Name == "" || o.Version == "":
		return nil, errors.New("mcp server: name and version are required")
	case o.MaxBody < 0:
		return nil, errors.New("mcp server: the limit of a request's body is negative")
	case o.KeepAlive < 0:
		return nil, errors.New("mcp server: the interval of keep-alive comments is negative")
	}
	s := &Server{
		dispatcher: o.Dispatcher,
		auth:       o.Auth,
		limiter:    o.Limiter,
		throttle:   o.Throttle,
		clock:      o.Clock,
		log:        o.Logger,
		maxBody:    o.MaxBody,
		keepAlive:  o.KeepAlive,
		assets:     o.Assets,
		tasks:      o.Tasks,
		events:     o.Events,
		streams:    streams{most: o.MaxStreams},
		metrics:    newMetrics(),
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.maxBody == 0 {
		s.maxBody = defaultMaxBody
	}
	s.large.total, s.large.share = largeBodies*s.maxBody, s.maxBody
	if s.keepAlive == 0 {
		s.keepAlive = defaultKeepAlive
	}
	s.watch.every, s.watch.look = min(checkInterval, s.keepAlive), s.look
	if s.streams.most == 0 {
		s.streams.most = defaultMaxStreams
	}
	if err := checkAssets(o.Assets); err != nil {
		return nil, err
	}
	var err error
	if s.sealer, err = newSealer(o.StateKey, s.clock); err != nil {
		return nil, err
	}
	if s.info, err = encodeInfo(o.Name, o.Version); err != nil {
		return nil, err
	}
	if s.discover, err = s.encodeDiscover(o.Instructions); err != nil {
		return nil, err
	}
	s.methods = map[string]method{
		"server/discover": s.serverDiscover,
		"tools/list":      s.toolsList,
		"tools/call":      s.toolsCall,

		"resources/list":           s.resourcesList,
		"resources/templates/list": s.templatesList,
		"resources/read":           s.resourcesRead,
		"prompts/list":             s.promptsList,
		"prompts/get":              s.promptsGet,
		"completion/complete":      s.completionComplete,
	}
	if s.tasks != nil {
		s.methods["tasks/get"] = s.tasksGet
		s.methods["tasks/update"] = s.tasksUpdate
		s.methods["tasks/cancel"] = s.tasksCancel
	}
	if s.events != nil || s.tasks != nil {
		s.methods["subscriptions/listen"] = s.subscriptionsListen
	}
	if err := s.addBuiltinTools(); err != nil {
		return nil, err
	}
	return s, nil
}

// Collectors returns the server's metrics, for the wiring to register.
func (s *Server) Collectors() []prometheus.Collector { return s.metrics.collectors() }

// ServeHTTP answers one request; which path it is served at is the wiring's
// choice, as is the guard in front of it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &request{header: r.Header, remote: r.RemoteAddr, out: responder{w: w, accepts: accepts{json: true}, interval: s.keepAlive}}
	defer req.out.finish() // a panic that net/http is to see, too
	label, fail := s.serve(req, w, r)
	outcome := "ok"
	if fail != nil {
		outcome = fail.label()
		req.out.fail(fail)
	}
	s.metrics.request(label, outcome).Inc()
}

// serve takes a request through the checks and answers it unless it returns a
// failure. The order is part of the protocol: the caller first, so that nobody
// unknown can probe; then what HTTP says, JSON, the message, its envelope, the
// method; then what the method checks. The label is the method for the metrics.
func (s *Server) serve(req *request, w http.ResponseWriter, r *http.Request) (label string, fail *failure) {
	if req.principal, fail = s.authenticate(w, r); fail != nil {
		return unknownLabel, fail
	}
	if req.leave, fail = s.enter(w, r, req.principal); fail != nil {
		return unknownLabel, fail
	}
	defer req.leave()
	defer func() {
		if fail != nil && !req.recorded {
			s.dispatcher.Refused(command.Call{Principal: req.principal, Surface: surface, Remote: r.RemoteAddr}, string(command.Invalid))
		}
	}()
	if req.out.accepts, fail = checkTransport(w, r); fail != nil {
		return unknownLabel, fail
	}
	body, give, fail := s.readBody(w, r, req.principal)
	defer give()
	if fail != nil {
		return unknownLabel, fail
	}
	if req.message, fail = parseMessage(body); fail != nil {
		return unknownLabel, fail
	}
	req.give, label = give, unknownLabel
	run, known := s.methods[req.method]
	if known {
		label = req.method
	}
	if req.id == nil {
		if known {
			return label, invalidRequest("%s is a request and needs an id, a string or an integer", req.method)
		}
		writeAccepted(w)
		return label, nil
	}
	if fail := req.checkEnvelope(); fail != nil {
		return label, fail.to(req.id)
	}
	if !known {
		return label, s.unknownMethod(req.method).to(req.id)
	}
	result, fail := s.run(r.Context(), run, req)
	if fail != nil {
		return label, fail.to(req.id)
	}
	req.out.result(req.id, result)
	return label, nil
}

func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) (*access.Principal, *failure) {
	p, err := s.principal(r.Context(), r.Header)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, access.ErrAuthUnavailable):
		s.log.Error().AnErr("cause", errors.Unwrap(err)).Msg("look up a token")
		return nil, refusal(http.StatusServiceUnavailable, err.Error())
	}
	s.dispatcher.Refused(command.Call{Surface: surface, Remote: r.RemoteAddr}, "unauthenticated")
	if s.throttle != nil {
		if err := s.throttle.Failed(r.RemoteAddr); err != nil {
			return nil, overLimit(w, err)
		}
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	return nil, refusal(http.StatusUnauthorized, err.Error())
}

// enter holds a caller to its limits, before anything more is done for it.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, p *access.Principal) (leave func(), fail *failure) {
	if s.limiter == nil {
		return func() {}, nil
	}
	leave, err := s.limiter.Enter(p)
	if err != nil {
		s.dispatcher.Refused(command.Call{Principal: p, Surface: surface, Remote: r.RemoteAddr}, string(command.Limit))
		return nil, overLimit(w, err)
	}
	return leave, nil
}

func overLimit(w http.ResponseWriter, err error) *failure {
	e := command.AsError(err)
	w.Header().Set("Retry-After", access.RetrySeconds(e.RetryAfter))
	return refusal(http.StatusTooManyRequests, e.Message)
}

// readBody reads the whole body. It trusts the announced length only so far as
// to save copying: a caller can claim more than it sends.
//
// A body of more than a little holds its size, until give is called, of what
// all requests together may hold: answering it takes many times as much memory,
// and any caller could ask for that on every connection.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, p *access.Principal) (body []byte, give func(), fail *failure) {
	const little = 64 << 10
	give = func() {}
	if r.ContentLength > s.maxBody {
		return nil, give, tooLarge(s.maxBody)
	}
	body = make([]byte, 0, min(max(r.ContentLength, 0), little)+1) // one more, so that the end is seen without growing
	for size, held := r.ContentLength, false; ; size = int64(len(body)) {
		if size > little && !held {
			most := r.ContentLength
			if most < 0 {
				most = s.maxBody
			}
			if give, held = s.large.take(p.Owner(), most); !held {
				w.Header().Set("Retry-After", "1")
				return nil, func() {}, refusal(http.StatusServiceUnavailable, "other large requests are being answered; try again in a moment, or send less at a time")
			}
		}
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > s.maxBody:
			return nil, give, tooLarge(s.maxBody)
		case err == io.EOF:
			return body, give, nil
		case err != nil:
			if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
				return nil, give, tooLarge(limit.Limit) // of the guard, if that is lower
			}
			return nil, give, refusal(http.StatusBadRequest, "the body could not be read to its end")
		}
	}
}

func tooLarge(limit int64) *failure {
	return refusal(http.StatusRequestEntityTooLarge, "the body is larger than the "+strconv.FormatInt(limit, 10)+" bytes allowed")
}

// largeBodies is how many bodies of the largest size may be held at a time, by
// as many callers.
const largeBodies = 4
