package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/builtin"
)

// asProgram makes the test program ze-mcp itself, for tests that start one.
const asProgram = "ZE_MCP_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// It waits for a failure of the store for as long as the process lives.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("ze.internal/ze/appliance.(*App).watchStore"))
}

// deadline bounds everything the tests wait for.
const deadline = 30 * time.Second

// daemon is a running daemon.
type daemon struct {
	*appliance.App
	dir, socket, token string
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	secret := appliancetest.CreateStore(t, dir, "environment { mcp { enabled true; } }")
	return &daemon{dir: dir, socket: filepath.Join(t.TempDir(), "ze.sock"), token: secret}
}

// start starts the daemon; stop may be called twice.
func (d *daemon) start(t *testing.T) (stop func()) {
	t.Helper()
	loopback := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	app, err := appliance.New(t.Context(), appliance.Options{
		DataDir: d.dir, Control: d.socket, Speaker: []string{os.Args[0]}, Logger: zerolog.Nop(),
		Overrides: appliance.Overrides{MCPListen: loopback, MetricsListen: loopback},
		Version:   builtin.Version{Version: "test", GoVersion: "test", MCPRevision: "2026-07-28"},
	})
	if err == nil {
		err = app.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d.App = app
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := app.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func (d *daemon) url(t *testing.T) string {
	t.Helper()
	for _, l := range d.Addresses() {
		if l.Name == "mcp" {
			return "http://" + l.Address + "/mcp"
		}
	}
	t.Fatal("nothing listens for mcp")
	return ""
}

// host is the other end of ze-mcp's pipes.
type host struct {
	t    *testing.T
	to   *io.PipeWriter
	from chan string
	code chan int
	log  strings.Builder // read it after end
}

// newHost runs ze-mcp as a host does.
func newHost(t *testing.T, args []string, environment ...string) *host {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	h := &host{t: t, to: to, from: make(chan string, 100), code: make(chan int, 1)}
	go func() {
		h.code <- run(context.WithoutCancel(t.Context()), streams{in, out, &h.log}, args, environment)
		_ = out.Close()
	}()
	go func() {
		defer close(h.from)
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			h.from <- line
		}
	}()
	t.Cleanup(h.end)
	return h
}

func (h *host) send(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.to, line+"\n"); err != nil {
		h.t.Fatal(err)
	}
}

// receive returns the next message, which must be one line of JSON.
func (h *host) receive() any {
	h.t.Helper()
	select {
	case line, ok := <-h.from:
		var v any
		if !ok {
			h.t.Fatalf("ze-mcp ended; it said: %s", h.log.String())
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			h.t.Fatalf("%v: %s", err, line)
		}
		return v
	case <-time.After(deadline):
		h.t.Fatal("no answer")
	}
	return nil
}

// end closes the pipe and waits for ze-mcp to end well.
func (h *host) end() {
	if h.to.Close(); h.code == nil {
		return
	}
	select {
	case code := <-h.code:
		if code != exitOK {
			h.t.Errorf("exit code %d: %s", code, h.log.String())
		}
	case <-time.After(deadline):
		h.t.Error("ze-mcp does not end when its input does")
	}
	for line := range h.from {
		// A daemon that stops may take up one more stream first: then the host
		// hears of its lists twice, which costs it nothing.
		if !strings.Contains(line, "/list_changed\"") {
			h.t.Errorf("left over: %s", line)
		}
	}
	h.code = nil
}

// differs says where got does not have what want asks for: every member it
// names, null for one that must not be there, "*" for any value.
func differs(at string, want, got any) string {
	switch want := want.(type) {
	case string:
		if want == "*" && got != nil {
			return ""
		}
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s: %v is no object", at, got)
		}
		for name, w := range want {
			g, there := object[name]
			if w == nil && there {
				return fmt.Sprintf("%s.%s must not be there", at, name)
			}
			if w != nil {
				if d := differs(at+"."+name, w, g); d != "" {
					return d
				}
			}
		}
		return ""
	case []any:
		array, ok := got.([]any)
		if !ok || len(array) != len(want) {
			return fmt.Sprintf("%s: %v does not have %d elements", at, got, len(want))
		}
		for i := range want {
			if d := differs(fmt.Sprintf("%s[%d]", at, i), want[i], array[i]); d != "" {
				return d
			}
		}
		return ""
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Sprintf("%s: got %v, want %v", at, got, want)
	}
	return ""
}

// TestTranscripts plays what hosts of each revision send, and holds what they
// are answered against testdata: lines that begin with > are sent, with < are
// expected, in the form of differs.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	d := newDaemon(t)
	d.start(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"--socket", d.socket}
			if strings.HasPrefix(filepath.Base(file), "without-daemon") {
				args[1] = filepath.Join(t.TempDir(), "none.sock")
			}
			h := newHost(t, args)
			for i, line := range strings.Split(string(text), "\n") {
				kind, rest, _ := strings.Cut(line, " ")
				switch kind {
				case ">":
					h.send(rest)
				case "<":
					var want any
					if err := json.Unmarshal([]byte(rest), &want); err != nil {
						t.Fatalf("line %d: %v", i+1, err)
					}
					if got := h.receive(); differs("", want, got) != "" {
						t.Fatalf("line %d: %s\nin %v", i+1, differs("", want, got), got)
					}
				case "", "#":
				default:
					t.Fatalf("line %d: begin it with >, < or #", i+1)
				}
			}
		})
	}
}
