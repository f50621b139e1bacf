package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/command"
)

const (
	defaultKeepAlive = 15 * time.Second
	sendTimeout      = 5 * time.Second // for a caller to take one event
)

// accepts says which forms of an answer a caller takes.
type accepts struct{ json, stream bool }

// responder sends the answer to one request: as one JSON text, or, from the
// first notification on, as a stream of events that ends with the answer (page
// basic/transports/streamable-http). It is safe for concurrent use.
type responder struct {
	w        http.ResponseWriter
	accepts  accepts
	interval time.Duration // of comments on a stream that has nothing to say, so that nothing in between takes it for dead

	mu     sync.Mutex
	stream bool
	done   bool
	stop   chan struct{} // of the keep-alive
	alive  sync.WaitGroup
}

// stretch has the answer become a stream, where the caller takes one, because it
// takes long.
func (o *responder) stretch() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.accepts.stream && !o.stream && !o.done {
		o.open()
		o.comment()
	}
}

var errNoStream = errors.New("the caller takes no stream of events")

// notify sends a notification that belongs to the request, whose params are a
// JSON object. The error means that the caller takes none, or has gone.
func (o *responder) notify(method string, params []byte) error {
	b, err := jsontext.AppendQuote([]byte(`{"jsonrpc":"2.0","method":`), method)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.done:
		return http.ErrHandlerTimeout
	case !o.accepts.stream:
		return errNoStream
	}
	o.open()
	return o.event(append(b, `,"params":`...), params, []byte{'}'})
}

// open begins the stream. It lives as long as the request does, so a write
// deadline of the server does not hold.
func (o *responder) open() {
	if o.stream {
		return
	}
	o.stream, o.stop = true, make(chan struct{})
	h := o.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(o.w).SetWriteDeadline(time.Time{}) // none is set where it is not supported
	o.w.WriteHeader(http.StatusOK)
	o.alive.Go(o.keepAlive)
}

func (o *responder) comment() { _ = o.send([]byte(": keep-alive\n\n")) }

// send writes what is at once complete for the caller. One that does not read
// for long is as good as gone, and must not hold up whoever sends.
func (o *responder) send(b []byte) error {
	c := http.NewResponseController(o.w)
	_ = c.SetWriteDeadline(time.Now().Add(sendTimeout))
	defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	if _, err := o.w.Write(b); err != nil {
		return err
	}
	return c.Flush()
}

func (o *responder) keepAlive() {
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for {
		select {
		case <-o.stop:
			return
		case <-tick.C:
			o.mu.Lock()
			if !o.done {
				o.comment()
			}
			o.mu.Unlock()
		}
	}
}

// event sends one message given in parts, none of which has a line break: JSON
// escapes them.
func (o *responder) event(parts ...[]byte) error {
	b := []byte("event: message\ndata: ")
	for _, p := range parts {
		b = append(b, p...)
	}
	return o.send(append(b, "\n\n"...))
}

// finish claims the right to send the answer; only the first caller has it. It
// reports whether the answer is an event of a stream.
func (o *responder) finish() (stream bool) {
	o.mu.Lock()
	first := !o.done
	o.done, stream = true, o.stream
	o.mu.Unlock()
	if stream && first {
		close(o.stop)
		o.alive.Wait()
	}
	return stream
}

// streamOnly begins the stream for a caller that takes nothing else.
func (o *responder) streamOnly() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.accepts.json {
		o.open()
	}
}

// result sends the answer to a request.
func (o *responder) result(id jsontext.Value, result []byte) {
	o.streamOnly()
	if !o.finish() {
		writeResult(o.w, id, result)
		return
	}
	head := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	_ = o.event(append(head, `,"result":`...), result, []byte{'}'}) // whoever does not hear it has gone
}

// fail sends a failure: as JSON where the status says something, whatever the
// caller takes.
func (o *responder) fail(f *failure) {
	if f.status == http.StatusOK {
		o.streamOnly()
	}
	if !o.finish() {
		f.write(o.w)
		return
	}
	_ = o.event(f.encode())
}

// progressInterval is how often a caller hears of progress at most.
const progressInterval = 100 * time.Millisecond

// reporting returns the context in which a command's progress reaches the
// caller, if it asked for that and takes a stream.
func (s *Server) reporting(ctx context.Context, r *request) context.Context {
	if r.progress == nil || !r.out.accepts.stream {
		return ctx
	}
	var (
		last float64
		told time.Time // zero: nothing was
	)
	return command.WithProgress(ctx, func(p command.Progress) {
		now, end := s.clock(), p.Total > 0 && p.Done >= p.Total
		if !told.IsZero() && (p.Done <= last || now.Sub(told) < progressInterval && !end) {
			return
		}
		params, err := json.Marshal(struct {
			Token    jsontext.Value `json:"progressToken"`
			Progress float64        `json:"progress"`
			Total    float64        `json:"total,omitzero"`
			Message  string         `json:"message,omitzero"`
		}{r.progress, p.Done, p.Total, p.Message}, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			s.log.Error().Err(err).Msg("encode progress")
			return
		}
		last, told = p.Done, now
		_ = r.out.notify("notifications/progress", params) // whoever does not hear it has gone
	})
}
