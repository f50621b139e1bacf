package test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"ze.internal/ze/mcp/client"
)

// load is clients that call all the time.
type load struct {
	mu    sync.Mutex
	calls int
	lost  []string

	ended sync.Once
	stop  chan struct{}
	work  sync.WaitGroup
}

// startLoad calls over connections that are new each time, kept alive and busy,
// kept alive with pauses, and over the control socket.
func (b *box) startLoad() *load {
	l := &load{stop: make(chan struct{})}
	reused := func(transport http.RoundTripper, url string) func() error {
		c := client.Open(client.Options{URL: url, Token: b.token, Name: "life", Transport: transport})
		return func() error { return answered(c) }
	}
	for range 2 {
		l.client("a new connection", 0, func() error {
			c := client.New(mcpURL, b.token, "life")
			defer c.Close()
			return answered(c)
		})
		l.client("a busy connection", 0, reused(&http.Transport{}, mcpURL))
	}
	l.client("a connection with pauses", 30*time.Millisecond, reused(&http.Transport{}, mcpURL))
	// Somebody who is refused, and does not stop.
	stranger := reused(overSocket(), "http://elsewhere/mcp")
	l.client("the control socket", 10*time.Millisecond, func() error {
		if err := stranger(); err == nil || !strings.Contains(err.Error(), "403") {
			return fmt.Errorf("a stranger is not refused: %v", err)
		}
		return nil
	})
	l.client("the control socket", 0, reused(overSocket(), "http://localhost/mcp"))
	return l
}

func answered(c *client.Client) error {
	_, err := version(c)
	return err
}

// strangers connects as clients do that nobody owes an answer: one sends nothing,
// one half a request and no token. The daemon has taken them up at the return.
func (b *box) strangers() (leave func()) {
	var open []net.Conn
	for _, sends := range []string{"", "POST /mcp HTTP/1.1\r\nHost: " + mcpAddress + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n" +
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","par`} {
		c, err := net.Dial("tcp", mcpAddress)
		if err == nil {
			_, err = io.WriteString(c, sends)
		}
		if err != nil {
			failf("%v", err)
		}
		open = append(open, c)
	}
	b.version() // is taken up after them
	return func() {
		for _, c := range open {
			_ = c.Close() // the daemon may have done it
		}
	}
}

// client calls until the end, with a pause after each call.
func (l *load) client(name string, pause time.Duration, call func() error) {
	l.work.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-time.After(pause):
			}
			err := call()
			l.mu.Lock()
			l.calls++
			if err != nil {
				l.lost = append(l.lost, fmt.Sprintf("over %s: %v", name, err))
			}
			l.mu.Unlock()
		}
	})
}

// wait waits until n more calls are over.
func (l *load) wait(n int) {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.calls
	}
	first := count()
	soon("the load", 30*time.Second, func() string {
		if count() < first+n {
			return "no calls"
		}
		return ""
	})
}

// end ends the clients and returns the number of calls, and what went wrong.
func (l *load) end() (calls int, lost []string) {
	l.ended.Do(func() { close(l.stop) })
	l.work.Wait()
	return l.calls, l.lost
}

// writing stores blobs all the time, and knows which were acknowledged.
type writing struct {
	mu   sync.Mutex
	kept []string

	ended sync.Once
	stop  chan struct{}
	work  sync.WaitGroup
}

func (b *box) startWriting() *writing {
	w := &writing{stop: make(chan struct{})}
	for i := range 3 {
		w.work.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-w.stop:
					return
				default:
				}
				name := fmt.Sprintf("life-%d-%d", i, n)
				if _, err := b.execute("blob put " + name + " text"); err != nil {
					time.Sleep(20 * time.Millisecond) // it is being killed
					continue
				}
				w.mu.Lock()
				w.kept = append(w.kept, name)
				w.mu.Unlock()
			}
		})
	}
	return w
}

// wait waits until n more blobs are stored.
func (w *writing) wait(n int) {
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.kept)
	}
	first := count()
	soon("the writers", 30*time.Second, func() string {
		if count() < first+n {
			return "nothing is stored"
		}
		return ""
	})
}

func (w *writing) end() []string {
	w.ended.Do(func() { close(w.stop) })
	w.work.Wait()
	return w.kept
}
