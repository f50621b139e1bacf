package appliance

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
)

// Plain Shutdown of a server closes every connection that is idle at that very
// moment, and what a client is just about to send on it is lost. So a door that
// closes first lets its connections come to rest: each request is answered, with
// the word that the connection ends, and one that was used a moment ago is left
// to its client for as long as a busy one pauses.
const (
	quietTime = time.Second     // without a request, then a connection counts as left alone
	newTime   = 2 * time.Second // for the first request on a new connection, and the rest of one that has begun to come
)

// connections knows what each connection of a server is doing. Its method state
// is the server's ConnState.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]pause
	change chan struct{} // has a value when open has changed
}

// pause tells when a connection may be closed.
type pause struct {
	from   time.Time // if no request comes
	active bool      // a request is coming or being answered; from counts if it is still coming
	first  bool      // no request came yet
}

func newConnections() *connections {
	return &connections{open: map[net.Conn]pause{}, change: make(chan struct{}, 1)}
}

func (c *connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.open[conn] = pause{from: time.Now().Add(newTime), first: true}
	case http.StateIdle:
		c.open[conn] = pause{from: time.Now().Add(quietTime)}
	case http.StateActive:
		c.open[conn] = pause{from: time.Now().Add(newTime), active: true}
	default:
		delete(c.open, conn)
	}
	select {
	case c.change <- struct{}{}:
	default:
	}
}

// count returns how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// drain waits until every connection is closed or at rest, or ctx ends. No new
// ones may come meanwhile.
func (c *connections) drain(ctx context.Context) {
	begun := time.Now()
	for {
		wait := c.unrest(begun)
		if wait == 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.change:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// unrest returns how long it takes until all connections may be closed if nothing
// comes any more; 0: they may be. Those that never sent a request, or do not send
// the rest of one, are closed on the way: the server itself waits longer for them
// than anybody wants to, and nobody is owed an answer to half a question.
func (c *connections) unrest(begun time.Time) (wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, r := range c.open {
		left := time.Until(r.from)
		if r.active {
			left = max(left, time.Until(begun.Add(newTime)))
			if access.Answering(conn) {
				left = time.Hour // until the answer, which is a change
			}
		}
		if left <= 0 && (r.first || r.active) {
			_ = conn.Close()
		}
		wait = max(wait, left)
	}
	return wait
}

// lastAnswers has next tell its clients, once the door begins to close, that the
// connection ends with the answer (RFC 9112 section 9.6).
func lastAnswers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &lastAnswer{ResponseWriter: w, ending: command.Ending(r.Context())}
		next.ServeHTTP(a, r)
		a.begin()
	})
}

type lastAnswer struct {
	http.ResponseWriter
	ending <-chan struct{}
	begun  bool // the header is sent
}

func (a *lastAnswer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	select {
	case <-a.ending:
		a.Header().Set("Connection", "close")
	default:
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *lastAnswer) WriteHeader(status int) {
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *lastAnswer) Write(b []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (a *lastAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
