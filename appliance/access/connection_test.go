package access

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// crowded is a server that lets in few connections at a time.
type crowded struct {
	t       *testing.T
	address string
	release chan struct{} // lets one handler of /wait go on
	entered chan struct{} // a handler of /wait has been entered
}

func newCrowded(t *testing.T, most int) *crowded {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &crowded{t, inner.Addr().String(), make(chan struct{}), make(chan struct{}, 10)}
	s := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		switch r.URL.Path {
		case "/wait":
			c.entered <- struct{}{}
			<-c.release
		case "/panic":
			panic(http.ErrAbortHandler)
		}
		if _, ok := Connection[*net.TCPConn](r.Context()); !ok {
			t.Error("the context of a request does not know its connection")
		}
	}), nil)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(LimitListener(inner, most)) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return c
}

// dial opens a connection and sends the beginning of a request. The server has
// accepted it when it has accepted any later one.
func (c *crowded) dial(sent string) net.Conn {
	c.t.Helper()
	conn, err := net.DialTimeout("tcp", c.address, 5*time.Second)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	c.send(conn, sent)
	return conn
}

func (c *crowded) send(conn net.Conn, text string) {
	c.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		c.t.Fatal(err)
	}
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

func post(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// answered reads an answer; ended wants the connection closed without one.
func (c *crowded) answered(conn net.Conn) {
	c.t.Helper()
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%v, %v", resp, err)
	}
}

func (c *crowded) ended(conn net.Conn) {
	c.t.Helper()
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	_, err := conn.Read(make([]byte, 1))
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		c.t.Fatalf("the connection was not closed: %v", err)
	}
}

// A connection that is slow makes room for one that is not, whatever it is slow
// with, and the oldest goes first.
func TestSlowConnectionMakesRoom(t *testing.T) {
	for name, sent := range map[string]string{
		"silence": "",
		"header":  "POST / HTTP/1.1\r\nHost: local",
		"body":    "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhe",
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowded(t, 2)
			first, second := c.dial(sent), c.dial(sent)
			c.answered(c.dial(post("/", "hello")))
			c.ended(first)
			c.dial(sent)
			c.ended(second) // not the one that was answered, which is idle
		})
	}
}

// Whoever waits for its next request keeps its place before whoever does not
// finish one.
func TestIdleConnectionStays(t *testing.T) {
	c := newCrowded(t, 2)
	idle := c.dial(get("/"))
	c.answered(idle)
	slow := c.dial("POST / HTTP/1.1\r\n") // younger than idle
	another := c.dial(get("/"))
	c.answered(another)
	c.ended(slow)
	c.send(idle, get("/"))
	c.answered(idle)
	// Of two idle ones the one goes that has been idle longer.
	third := c.dial(get("/"))
	c.answered(third)
	c.ended(another)
}

// What is being answered is never cut: the new connection is refused.
func TestAnsweredConnectionsStay(t *testing.T) {
	c := newCrowded(t, 2)
	working := []net.Conn{c.dial(get("/wait")), c.dial(post("/wait", "hello"))}
	for range working {
		<-c.entered
	}
	for range 3 {
		conn, err := net.DialTimeout("tcp", c.address, 5*time.Second)
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c.ended(conn)
		conn.Close()
	}
	for range working {
		c.release <- struct{}{}
	}
	for _, conn := range working {
		c.answered(conn)
	}
	// They are idle now, and make room.
	c.answered(c.dial(get("/")))
}

// A handler that panics has answered, too.
func TestPanicIsAnAnswer(t *testing.T) {
	c := newCrowded(t, 1)
	for range 3 {
		c.ended(c.dial(get("/panic")))
	}
	c.answered(c.dial(get("/")))
}

// direct is a listener whose connections the test reads itself.
type direct struct {
	*limitListener
	t *testing.T
}

func newDirect(t *testing.T, most int) direct {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	return direct{LimitListener(inner, most).(*limitListener), t}
}

func (d direct) accept() (client net.Conn, accepted *limitedConn) {
	d.t.Helper()
	client, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { client.Close() })
	c, err := d.Accept()
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return client, c.(*limitedConn)
}

// One that begins a request and does not finish it is idle no longer.
func TestBegunRequestIsNotIdle(t *testing.T) {
	d := newDirect(t, 2)
	_, older := d.accept()
	client, younger := d.accept()
	for _, c := range []*limitedConn{older, younger} {
		c.begin()
		c.end()
	}
	if _, err := io.WriteString(client, "G"); err != nil {
		t.Fatal(err)
	}
	if _, err := younger.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	d.accept()
	if older.at < 0 || younger.at >= 0 {
		t.Errorf("the idle connection has place %d, the one that began a request %d", older.at, younger.at)
	}
}

// Closing a connection counts once.
func TestCloseCountsOnce(t *testing.T) {
	d := newDirect(t, 2)
	_, first := d.accept()
	_, second := d.accept()
	first.Close()
	first.Close()
	_, third := d.accept()
	if len(d.open) != 2 || third.at < 0 || second.at < 0 {
		t.Errorf("%d connections are open", len(d.open))
	}
	d.accept() // in place of second
	second.Close()
	if len(d.open) != 2 || second.at >= 0 {
		t.Errorf("%d connections are open, the oldest has place %d", len(d.open), second.at)
	}
	if _, ok := third.NetConn().(*net.TCPConn); !ok {
		t.Errorf("connection inside: %T", third.NetConn())
	}
}
