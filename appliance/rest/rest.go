// Package rest serves commands to programs over HTTP: a command line or a
// command's path and arguments in, JSON out. It owns the mapping of errors to
// statuses. It must not know any command, nor how a caller is recognised.
package rest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// Options of a Handler; a field that may be left out says so.
type Options struct {
	Dispatcher *command.Dispatcher
	// Principal says who sent a request; its error is answered with 401.
	Principal func(*http.Request) (*access.Principal, error)
	Limiter   *access.Limiter  // of each caller's requests; nil: none
	Throttle  *access.Throttle // of requests whose sender nobody is; nil: none
	Surface   string           // name in audit, metrics and logs
	Logger    zerolog.Logger
}

// maxBody bounds a request's body in octets: a blob of 16 MiB in base64.
const maxBody = 24 << 20

// statuses maps error codes to HTTP (RFC 9110 section 15).
var statuses = map[command.Code]int{
	command.Invalid:              http.StatusBadRequest,
	command.Unknown:              http.StatusNotFound,
	command.NotFound:             http.StatusNotFound,
	command.Conflict:             http.StatusConflict,
	command.Unavailable:          http.StatusServiceUnavailable,
	command.Canceled:             http.StatusServiceUnavailable, // nobody reads it
	command.Limit:                http.StatusTooManyRequests,
	command.Forbidden:            http.StatusForbidden,
	command.InvalidConfiguration: http.StatusBadRequest,
	command.Damaged:              http.StatusInternalServerError,
	command.Internal:             http.StatusInternalServerError,
}

// New returns the handler:
//
//	GET  /api/v1/commands          the reference, as the caller may see it
//	POST /api/v1/commands/WORD/…   run a command; the body is its argument object, or empty
//	POST /api/v1/execute           run a command line: {"command": "show bgp"}
//
// A failure answers {"error": {code, message, field, allowed, actions}}.
func New(o Options) http.Handler {
	h := &handler{o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/commands", h.as(h.reference))
	mux.HandleFunc("POST /api/v1/commands/{path...}", h.as(h.run))
	mux.HandleFunc("POST /api/v1/execute", h.as(h.execute))
	return mux
}

type handler struct{ Options }

// as recognises the caller before anything of the request is looked at.
func (h *handler) as(next func(http.ResponseWriter, *http.Request, *access.Principal)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p, err := h.Principal(r)
		if err != nil {
			h.unauthenticated(w, r, err)
			return
		}
		if h.Limiter != nil {
			leave, err := h.Limiter.Enter(p)
			if err != nil {
				h.Dispatcher.Refused(command.Call{Principal: p, Surface: h.Surface, Remote: r.RemoteAddr}, string(command.Limit))
				fail(w, command.AsError(err))
				return
			}
			defer leave()
		}
		next(w, r, p)
	}
}

func (h *handler) unauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	const code = "unauthenticated"
	h.Dispatcher.Refused(command.Call{Surface: h.Surface, Remote: r.RemoteAddr}, code)
	if h.Throttle != nil {
		if err := h.Throttle.Failed(r.RemoteAddr); err != nil {
			fail(w, command.AsError(err))
			return
		}
	}
	write(w, http.StatusUnauthorized, failure(&command.Error{Code: code, Message: err.Error()}))
}

func (h *handler) reference(w http.ResponseWriter, _ *http.Request, p *access.Principal) {
	write(w, http.StatusOK, h.Dispatcher.Registry().Reference(p))
}

func (h *handler) run(w http.ResponseWriter, r *http.Request, p *access.Principal) {
	body, ok := h.readBody(w, r, p)
	if !ok {
		return
	}
	h.do(w, r, command.Call{Principal: p, Path: strings.Split(strings.Trim(r.PathValue("path"), "/"), "/"), Args: body})
}

func (h *handler) execute(w http.ResponseWriter, r *http.Request, p *access.Principal) {
	body, ok := h.readBody(w, r, p)
	if !ok {
		return
	}
	if err := command.CheckJSON(body); err != nil {
		h.refused(r, p)
		fail(w, &command.Error{Code: command.Invalid, Message: err.Error(), Allowed: `{"command": "show bgp"}`})
		return
	}
	var in struct {
		Command *string `json:"command"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Command == nil {
		h.refused(r, p)
		fail(w, &command.Error{Code: command.Invalid, Field: "command", Message: "missing or not a string", Allowed: `{"command": "show bgp"}`})
		return
	}
	h.do(w, r, command.Call{Principal: p, Line: *in.Command})
}

func (h *handler) do(w http.ResponseWriter, r *http.Request, call command.Call) {
	call.Surface, call.Remote = h.Surface, r.RemoteAddr
	res, err := h.Dispatcher.Do(r.Context(), call)
	if err != nil {
		fail(w, command.AsError(err))
		return
	}
	write(w, http.StatusOK, res.JSON)
}

func (h *handler) readBody(w http.ResponseWriter, r *http.Request, p *access.Principal) (json.RawMessage, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		h.refused(r, p)
		write(w, http.StatusRequestEntityTooLarge, failure(&command.Error{Code: command.Limit, Message: "the body is larger than 24 MiB"}))
		return nil, false
	case err != nil:
		h.refused(r, p)
		fail(w, &command.Error{Code: command.Invalid, Message: "read the body: " + err.Error()})
		return nil, false
	}
	return body, true
}

// refused records a request that reaches no command.
func (h *handler) refused(r *http.Request, p *access.Principal) {
	h.Dispatcher.Refused(command.Call{Principal: p, Surface: h.Surface, Remote: r.RemoteAddr}, string(command.Invalid))
}

func fail(w http.ResponseWriter, e *command.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", access.RetrySeconds(e.RetryAfter))
	}
	write(w, statuses[e.Code], failure(e))
}

func failure(e *command.Error) json.RawMessage {
	b, err := json.Marshal(map[string]*command.Error{"error": e})
	if err != nil {
		panic("rest: encode an error: " + err.Error()) // plain strings
	}
	return b
}

func write(w http.ResponseWriter, status int, body json.RawMessage) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// The caller has gone if this fails; there is nobody left to tell.
	_, _ = w.Write(append(body[:len(body):len(body)], '\n'))
}
