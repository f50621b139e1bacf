package appliance_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/outputtest"
	"ze.internal/ze/mcp/client"
)

// sockets stand for those of the service manager: they listen as long as the test
// runs, whoever answers on them.
type sockets struct {
	t       *testing.T
	mcp     *net.TCPListener
	control *net.UnixListener
	named   string // how the daemon is told the path of control
}

func newSockets(t *testing.T) *sockets {
	t.Helper()
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "ze.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close(); _ = unix.Close() })
	link := filepath.Join(t.TempDir(), "link") // as /var/run is one to /run
	if err := os.Symlink(filepath.Dir(unix.Addr().String()), link); err != nil {
		t.Fatal(err)
	}
	return &sockets{t, tcp, unix, filepath.Join(link, "ze.sock")}
}

// handOver returns the sockets as a daemon gets them.
func (s *sockets) handOver() []net.Listener {
	s.t.Helper()
	var out []net.Listener
	for _, l := range []interface{ File() (*os.File, error) }{s.mcp, s.control} {
		f, err := l.File()
		if err != nil {
			s.t.Fatal(err)
		}
		handed, err := net.FileListener(f)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			s.t.Fatal(err)
		}
		out = append(out, handed)
	}
	return out
}

func (s *sockets) address() netip.AddrPort {
	return s.mcp.Addr().(*net.TCPAddr).AddrPort()
}

// run starts a daemon on the sockets. mcp is where it is to serve MCP.
func (s *sockets) run(dir string, mcp netip.AddrPort, log zerolog.Logger) *appliance.App {
	s.t.Helper()
	app, err := appliance.New(s.t.Context(), appliance.Options{
		DataDir: dir, Control: s.named, Listeners: s.handOver(), Logger: log,
		Overrides: appliance.Overrides{MCPListen: []netip.AddrPort{mcp}, MetricsListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}},
		Speaker:   []string{os.Args[0], speakerArg},
		Version:   builtin.Version{Version: "test", GoVersion: "test", MCPRevision: client.Revision},
	})
	if err == nil {
		err = app.Start(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return app
}

func stopApp(t *testing.T, app *appliance.App) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := app.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// showVersion is a call of a tool, by hand: no client may send it a second time.
func showVersion(hc *http.Client, url, token string) error {
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ze_show","arguments":{"action":"version"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequest(http.MethodPost, url, io.NopCloser(strings.NewReader(body)))
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(body))
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "ze_show",
	} {
		req.Header.Set(name, value)
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte("go-version"))) {
		err = fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return err
}

// TestRestartLosesNothing: while a daemon takes the place of another, again and
// again, every request of new connections and of busy ones is answered.
func TestRestartLosesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	admin := appliancetest.CreateStore(t, dir, "environment { mcp { enabled true; limit { rate 100000; burst 100000; } } }")
	s := newSockets(t)
	app := s.run(dir, s.address(), zerolog.Nop())

	var wg sync.WaitGroup
	var answered atomic.Int64
	done := make(chan struct{})
	for i := range 6 {
		transport := &http.Transport{DisableKeepAlives: i%2 == 0}
		hc := &http.Client{Transport: transport, Timeout: deadline}
		wg.Go(func() {
			defer transport.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := showVersion(hc, "http://"+s.address().String()+"/mcp", admin); err != nil {
					t.Errorf("keep-alive %v: lost: %v", !transport.DisableKeepAlives, err)
				}
				answered.Add(1)
			}
		})
	}
	for range 10 {
		before := answered.Load()
		eventually(t, "answers", func() string {
			if answered.Load() < before+20 {
				return "too few"
			}
			return ""
		})
		stopApp(t, app)
		app = s.run(dir, s.address(), zerolog.Nop())
	}
	close(done)
	wg.Wait()
	stopApp(t, app)
	t.Log(answered.Load(), "calls answered")
}

// TestLastAnswers: a daemon that stops answers what is in flight with the word
// that the connection ends, and a connection that was used a moment ago once more.
func TestLastAnswers(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: "environment { mcp { enabled true; } }"})
	address := strings.TrimPrefix(d.url(t, "metrics"), "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	get := func() string {
		if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	if first := get(); strings.Contains(first, "Connection: close") {
		t.Fatalf("at once: %s", first)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		d.stop(t)
	}()
	eventually(t, "the listener", func() string {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return ""
		}
		return fmt.Sprint("still accepts", c.Close())
	})
	if last := get(); !strings.Contains(last, "200 OK") || !strings.Contains(last, "Connection: close") {
		t.Errorf("while it stops: %s", last)
	}
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after that: %d %v", n, err)
	}
	<-stopped
}

// TestStopWithHalfARequest: who sends half a request, with a token or without,
// does not hold up the end of the daemon.
func TestStopWithHalfARequest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	admin := appliancetest.CreateStore(t, dir, "environment { mcp { enabled true; } }")
	s := newSockets(t)
	var log outputtest.Output
	app := s.run(dir, s.address(), zerolog.New(&log))
	for _, authorization := range []string{"", "Authorization: Bearer " + admin + "\r\n"} {
		conn, err := net.Dial("tcp", s.address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: 100\r\n\r\n{", authorization); err != nil {
			t.Fatal(err)
		}
	}
	// Once this is answered the server has taken up the connections before it.
	if err := showVersion(http.DefaultClient, "http://"+s.address().String()+"/mcp", admin); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	stopApp(t, app)
	if strings.Contains(log.String(), "cut off") {
		t.Errorf("the daemon waited as long as it may: %s", log.String())
	}
}

// TestReloadWhileStopping: what is applied while the doors close opens none again.
func TestReloadWhileStopping(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	appliancetest.CreateStore(t, dir, "environment { mcp { enabled true; } }")
	s := newSockets(t)
	var log outputtest.Output
	app := s.run(dir, s.address(), zerolog.New(&log))
	// It is left some time for its first request, in which the daemon is stopping.
	conn, err := net.Dial("tcp", s.address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := make(chan struct{})
	var refused atomic.Int64
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := app.Reload(context.Background()); err != nil && strings.Contains(err.Error(), "the daemon is stopping") {
				refused.Add(1)
			}
		}
	})
	stopApp(t, app)
	close(done)
	reloading.Wait()
	if open := app.Addresses(); len(open) > 0 || refused.Load() == 0 {
		t.Errorf("open after the end: %v; %d reloads were refused", open, refused.Load())
	}
}

// TestHandedSockets: a socket with another address than the daemon's is closed
// with a warning, one with an equal address is served, whatever happens to the
// listener meanwhile.
func TestHandedSockets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	admin := appliancetest.CreateStore(t, dir, "environment { mcp { enabled true; } }")
	s := newSockets(t)
	var log outputtest.Output
	app := s.run(dir, freePort(t, "127.0.0.1"), zerolog.New(&log))
	if want := s.address().String(); !strings.Contains(log.String(), "nothing in the configuration answers on "+want) {
		t.Errorf("no warning about %s: %s", want, log.String())
	}
	if strings.Contains(log.String(), "answers on "+s.control.Addr().String()) {
		t.Errorf("the control socket is not served: %s", log.String())
	}
	stopApp(t, app)
	if _, err := os.Stat(s.control.Addr().String()); err != nil {
		t.Error("the socket is gone with the daemon:", err)
	}

	// Away from the socket and back to it.
	app = s.run(dir, s.address(), zerolog.New(&log))
	defer stopApp(t, app)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: deadline}
	if err := showVersion(c, "http://"+s.address().String()+"/mcp", admin); err != nil {
		t.Error(err)
	}
	control := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.control.Addr().String())
	}}, Timeout: deadline}
	resp, err := control.Post("http://localhost/api/v1/execute", "application/json", strings.NewReader(`{"command":"show version"}`))
	if err != nil {
		t.Fatal(err)
	}
	if body := readAll(t, resp); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, body)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

// TestSocketComesBack: a reload that leaves a socket of the service manager warns,
// and one that returns to it serves it again.
func TestSocketComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := newSockets(t)
	config := func(at netip.AddrPort) string {
		return fmt.Sprintf("environment { mcp { enabled true; server main { ip %s; port %d; } } metrics { server main { ip 127.0.0.1; port %d; } } }",
			at.Addr(), at.Port(), freePort(t, "127.0.0.1").Port())
	}
	admin := appliancetest.CreateStore(t, dir, config(s.address()))
	text := []byte(config(s.address()))
	var log outputtest.Output
	app, err := appliance.New(t.Context(), appliance.Options{
		DataDir: dir, File: "ze.conf", Text: text, Reread: func() ([]byte, error) { return text, nil },
		Control: s.named, Listeners: s.handOver(), Logger: zerolog.New(&log), Speaker: []string{os.Args[0], speakerArg},
		Version: builtin.Version{Version: "test", GoVersion: "test", MCPRevision: client.Revision},
	})
	if err == nil {
		err = app.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stopApp(t, app)
	text = []byte(config(freePort(t, "127.0.0.1")))
	if err := app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the warning", func() string {
		if strings.Contains(log.String(), "nothing in the configuration answers on "+s.address().String()) {
			return ""
		}
		return log.String()
	})
	text = []byte(config(s.address()))
	if err := app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	if err := showVersion(c, "http://"+s.address().String()+"/mcp", admin); err != nil {
		t.Error(err)
	}
}
