package access

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// LimitListener returns l with at most n open connections. One more makes room
// for itself: it ends the connection that has waited longest for the rest of a
// request, or else the one that has been idle longest. So nobody can keep others
// out by opening connections and being slow on them. Where every connection is
// being answered, the new one is closed at once: a queue would only hide it.
//
// What is being answered is known of servers made by Server. Accepted
// connections have a method NetConn that returns the connection inside.
func LimitListener(l net.Listener, n int) net.Listener {
	return &limitListener{Listener: l, most: n}
}

type limitListener struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*limitedConn
	turn uint64 // counts what happens, as a clock that never stands still
}

// limitedConn is an open connection. What is below l belongs to l.mu.
type limitedConn struct {
	net.Conn
	l         *limitListener
	at        int    // index in l.open; -1 once it is closed
	answering int    // whole requests that have no answer yet
	idle      bool   // between two requests, and nothing of the next has come
	since     uint64 // turn in which it began to be idle, or to wait for the rest
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		accepted, victim := l.add(c)
		if victim != nil {
			reset(victim)
		}
		if accepted != nil {
			return accepted, nil
		}
	}
}

// add counts c in, and out which connection has to go for it: c itself if every
// other is being answered.
func (l *limitListener) add(c net.Conn) (accepted *limitedConn, victim net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.most {
		var oldest *limitedConn
		for _, o := range l.open {
			if o.answering == 0 && (oldest == nil || o.before(oldest)) {
				oldest = o
			}
		}
		if oldest == nil {
			return nil, c
		}
		l.remove(oldest)
		victim = oldest.Conn
	}
	l.turn++
	accepted = &limitedConn{Conn: c, l: l, at: len(l.open), since: l.turn}
	l.open = append(l.open, accepted)
	return accepted, victim
}

// before reports whether c has to go before o.
func (c *limitedConn) before(o *limitedConn) bool {
	if c.idle != o.idle {
		return o.idle
	}
	return c.since < o.since
}

func (l *limitListener) remove(c *limitedConn) {
	if c.at < 0 {
		return
	}
	last := len(l.open) - 1
	l.open[c.at] = l.open[last]
	l.open[c.at].at = c.at
	l.open[last] = nil
	l.open, c.at = l.open[:last], -1
}

// reset closes c so that nothing of it stays in the kernel.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// Read implements net.Conn.
func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.l.mu.Lock()
		if c.idle && c.answering == 0 {
			c.l.turn++
			c.idle, c.since = false, c.l.turn
		}
		c.l.mu.Unlock()
	}
	return n, err
}

// begin notes that a whole request has come, end that it has been answered.
func (c *limitedConn) begin() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.answering++
}

func (c *limitedConn) end() {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.answering--
	c.l.turn++
	c.idle, c.since = true, c.l.turn
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// NetConn returns the connection inside, as tls.Conn does.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// Answering reports whether a connection of a server made by Server has sent a
// whole request that has no answer yet. Of others nobody knows; they count as if.
func Answering(c net.Conn) bool {
	limited, ok := inside[*limitedConn](c)
	if !ok {
		return true
	}
	limited.l.mu.Lock()
	defer limited.l.mu.Unlock()
	return limited.answering > 0
}

// connectionKey is where the context of a request holds its connection.
type connectionKey struct{}

func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// Connection returns the connection of kind C that a request to a server made by
// Server came over, whatever wraps it. The context is the request's.
func Connection[C net.Conn](ctx context.Context) (C, bool) {
	c, _ := ctx.Value(connectionKey{}).(net.Conn)
	return inside[C](c)
}

// inside returns the connection of kind C that c is or wraps.
func inside[C net.Conn](c net.Conn) (C, bool) {
	for {
		if found, ok := c.(C); ok {
			return found, true
		}
		wrapper, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			var none C
			return none, false
		}
		c = wrapper.NetConn()
	}
}

// answering tells the listener which connections have sent a whole request.
func answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := Connection[*limitedConn](r.Context())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		body := &wholeBody{ReadCloser: r.Body, conn: c}
		defer body.finish()
		if r.Body == http.NoBody {
			body.begin()
		} else {
			r.Body = body
		}
		next.ServeHTTP(w, r)
	})
}

// wholeBody is a request's body that notes when all of it has come. A handler
// may leave a read behind when it returns, so it is safe for concurrent use.
type wholeBody struct {
	io.ReadCloser
	conn *limitedConn

	mu              sync.Mutex
	begun, finished bool
}

// Read implements io.Reader.
func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.begin()
	}
	return n, err
}

func (b *wholeBody) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.begun && !b.finished {
		b.begun = true
		b.conn.begin()
	}
}

func (b *wholeBody) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished = true; b.begun {
		b.conn.end()
	}
}
