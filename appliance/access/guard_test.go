package access

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGuardMatrix(t *testing.T) {
	const pass, no = true, false
	const own = "127.0.0.1:8080"
	for _, c := range []struct {
		host, origin, site string // "-" means that the header is absent
		want               bool
	}{
		// Host alone: programs.
		{"localhost", "-", "-", pass},
		{"localhost:8080", "-", "-", pass},
		{"LocalHost:8080", "-", "-", pass},
		{"127.0.0.1", "-", "-", pass},
		{"127.0.0.1:1", "-", "-", pass},
		{"127.0.0.1:65535", "-", "-", pass},
		{"[::1]", "-", "-", pass},
		{"[::1]:8080", "-", "-", pass},
		{"ze.example.net", "-", "-", pass}, // configured
		{"ze.example.net:443", "-", "-", pass},
		{"ZE.example.net", "-", "-", pass},
		{"", "-", "-", no},
		{":8080", "-", "-", no},
		{"127.0.0.1:", "-", "-", no},
		{"127.0.0.1:http", "-", "-", no},
		{"127.0.0.1:65536", "-", "-", no},
		{"127.0.0.1:-1", "-", "-", no},
		{"127.0.0.1:80:80", "-", "-", no},
		{"127.0.0.1.evil.example", "-", "-", no},
		{"127.0.0.1.evil.example:8080", "-", "-", no},
		{"localhost.evil.example", "-", "-", no},
		{"evil-localhost", "-", "-", no},
		{"localhost.", "-", "-", no},
		{"localhost@evil.example", "-", "-", no},
		{"evil.example", "-", "-", no},
		{"evil.example:8080", "-", "-", no},
		{"ze.example.net.evil.example", "-", "-", no},
		{"127.0.0.2", "-", "-", no},
		{"127.1", "-", "-", no},
		{"2130706433", "-", "-", no},
		{"0.0.0.0:8080", "-", "-", no},
		{"192.0.2.1:8080", "-", "-", no},
		{"::1", "-", "-", no},
		{"[::1", "-", "-", no},
		{"[::1]x", "-", "-", no},
		{"[::1]x80", "-", "-", no},
		{"[::1]:", "-", "-", no},
		{"[::]:8080", "-", "-", no},
		{"[::ffff:127.0.0.1]:8080", "-", "-", no},
		// Origin: only the page of this very host and port.
		{own, "http://127.0.0.1:8080", "-", pass},
		{own, "HTTP://127.0.0.1:8080", "-", no}, // browsers send lower case
		{own, "https://127.0.0.1:8080", "-", pass},
		{"localhost:8080", "http://localhost:8080", "-", pass},
		{"[::1]:8080", "http://[::1]:8080", "-", pass},
		{"ze.example.net", "https://ze.example.net", "-", pass},
		{own, "null", "-", no},
		{own, "", "-", no},
		{own, "http://127.0.0.1:8081", "-", no},
		{own, "http://127.0.0.1", "-", no},
		{own, "http://localhost:8080", "-", no},
		{own, "http://[::1]:8080", "-", no},
		{own, "http://127.0.0.1:8080.evil.example", "-", no},
		{own, "http://127.0.0.1:8080/", "-", no},
		{own, "http://127.0.0.1:8080@evil.example", "-", no},
		{own, "http://evil.example", "-", no},
		{own, "http://evil.example:8080", "-", no},
		{own, "https://ze.example.net", "-", no},
		{own, "ftp://127.0.0.1:8080", "-", no},
		{own, "chrome-extension://abcdefgh", "-", no},
		{own, "file://", "-", no},
		{own, "127.0.0.1:8080", "-", no},
		{"evil.example:8080", "http://evil.example:8080", "-", no}, // DNS rebinding
		{"evil.example:8080", "http://evil.example:8080", "same-origin", no},
		// Sec-Fetch-Site: what the browser says about the page.
		{own, "-", "none", pass},
		{own, "-", "same-origin", pass},
		{own, "http://127.0.0.1:8080", "same-origin", pass},
		{own, "-", "same-site", no},
		{own, "-", "cross-site", no},
		{own, "http://127.0.0.1:8080", "cross-site", no},
		{own, "http://127.0.0.1:8080", "same-site", no},
		{own, "-", "", no},
		{own, "-", "unknown", no},
		{own, "null", "same-origin", no},
		{own, "http://evil.example", "same-origin", no},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host = c.host
		if c.origin != "-" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "-" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		reached := false
		w := httptest.NewRecorder()
		guard := &Guard{Hosts: []string{"ze.example.net"}}
		guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true })).ServeHTTP(w, r)
		if reached != c.want || (w.Code == http.StatusForbidden) == c.want {
			t.Errorf("Host %q, Origin %q, Sec-Fetch-Site %q: passed %v, status %d", c.host, c.origin, c.site, reached, w.Code)
		}
		if !c.want && (w.Body.Len() == 0 || w.Header().Get("Access-Control-Allow-Origin") != "") {
			t.Errorf("Host %q, Origin %q: refusal %q with header %v", c.host, c.origin, w.Body, w.Header())
		}
	}
}

// Names that a certificate is for are this server's, too, and refusals are told.
func TestGuardNames(t *testing.T) {
	var refused []string
	guard := &Guard{Names: func(host string) bool { return host == "ze.example" }, Refused: func(r *http.Request) { refused = append(refused, r.Host) }}
	h := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for host, want := range map[string]int{"ze.example:8443": 204, "localhost": 204, "evil.example": 403, "ze.example:x": 403} {
		r, w := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
		r.Host = host
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
	if len(refused) != 2 {
		t.Errorf("told of %q", refused)
	}
}

func TestGuardTwoOrigins(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Host = "localhost"
	r.Header["Origin"] = []string{"http://localhost", "http://evil.example"}
	w := httptest.NewRecorder()
	new(Guard).Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("status %d", w.Code)
	}
}

func TestGuardLimitsBody(t *testing.T) {
	for _, c := range []struct {
		size int
		ok   bool
	}{{9, true}, {10, true}, {11, false}} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", c.size)))
		r.Host = "localhost"
		var err error
		(&Guard{MaxBody: 10}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err = io.ReadAll(r.Body)
		})).ServeHTTP(httptest.NewRecorder(), r)
		var tooLarge *http.MaxBytesError
		if (err == nil) != c.ok || !c.ok && !errors.As(err, &tooLarge) {
			t.Errorf("%d bytes: %v", c.size, err)
		}
	}
}

// pipeListener hands out one end of an in-memory connection, so that a server
// runs inside a synctest bubble, on its clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.done); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func servePipe(t *testing.T, h http.Handler) (dial func() net.Conn) {
	l := &pipeListener{make(chan net.Conn), make(chan struct{})}
	s := Server(h, nil)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-ended })
	return func() net.Conn {
		client, server := net.Pipe()
		l.conns <- server
		return client
	}
}

// An answer may take longer than a request may take to arrive, whether the
// request has a body or not.
func TestSlowAnswerIsNotCancelled(t *testing.T) {
	for _, body := range []string{"", "hello"} {
		synctest.Test(t, func(t *testing.T) {
			dial := servePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				select {
				case <-r.Context().Done():
					w.WriteHeader(http.StatusInternalServerError)
				case <-time.After(10 * time.Minute):
				}
			}))
			c := dial()
			defer c.Close()
			go fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("body %q: %v, %v", body, resp, err)
			}
		})
	}
}

func TestSlowRequestsAreCut(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		within     time.Duration
	}{
		{"header", "POST / HTTP/1.1\r\nHost: local", 11 * time.Second},
		{"body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhe", 31 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 61 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			dial := servePipe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					w.WriteHeader(http.StatusRequestTimeout)
				}
			}))
			conn := dial()
			defer conn.Close()
			start := time.Now()
			go io.WriteString(conn, c.sent)
			io.Copy(io.Discard, conn)
			if d := time.Since(start); d > c.within || d < c.within/2 {
				t.Errorf("%s: closed after %v", c.name, d)
			}
		})
	}
}
