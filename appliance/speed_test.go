//go:build !race

package appliance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

// TestSpeed compares the server with a handler that does the least there is to
// do: it decodes the body with the same library and answers constant bytes. Each
// runs in a process of its own on one processor, and they take turns. Processor
// time per request decides; the rate, which depends on what else the machine
// does, is reported. The race detector would be what is measured, so it is off.
//
// The least that passes is for regressions: on two processors a call came to 0.55
// to 0.66 and a list to 0.77 to 0.89, depending on what else ran there.
func TestSpeed(t *testing.T) {
	for _, c := range []struct {
		name, method, target, params string
		least                        float64 // of the bare handler, by processor time
	}{
		{"call", "tools/call", "ze_show", `"name":"ze_show","arguments":{"action":"uptime"},`, 0.45},
		{"list", "tools/list", "", "", 0.60},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			token := appliancetest.CreateStore(t, dir, "")
			ours := startServer(t, c.name, dir)
			request := wireRequest(c.method, c.target, c.params, token)
			answer := ours.answer(t, request)
			constant := filepath.Join(t.TempDir(), "answer")
			if err := os.WriteFile(constant, answer, 0o600); err != nil {
				t.Fatal(err)
			}
			bare := startServer(t, "bare", constant)
			var rates, costs []float64
			for range 5 {
				o, b := ours.load(t, request), bare.load(t, request)
				rates = append(rates, o.rate/b.rate)
				costs = append(costs, b.cpu/o.cpu)
				t.Logf("ours %6.0f/s, %5.1f µs of processor time each; bare %6.0f/s, %5.1f µs; %d bytes", o.rate, o.cpu, b.rate, b.cpu, len(answer))
			}
			slices.Sort(rates)
			slices.Sort(costs)
			rate, cost := rates[len(rates)/2], costs[len(costs)/2]
			t.Logf("%.2f× the rate, %.2f× by processor time", rate, cost)
			if cost < c.least {
				t.Errorf("%.2f× of the bare handler by processor time, want at least %.2f×", cost, c.least)
			}
		})
	}
}

func wireRequest(method, target, params, token string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"load","version":"1"}}}}`, method, params, mcp.Revision)
	head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
		"MCP-Protocol-Version: " + mcp.Revision + "\r\nMcp-Method: " + method + "\r\n"
	if target != "" {
		head += "Mcp-Name: " + target + "\r\n"
	}
	return fmt.Appendf(nil, "%sAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", head, token, len(body), body)
}

const serverArg = "be-a-server"

// init makes the test program one of the servers that are compared.
func init() {
	if len(os.Args) != 4 || os.Args[1] != serverArg {
		return
	}
	if err := serveKind(os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveKind prints an address and serves there until its input ends.
func serveKind(kind, from string) error {
	var handler http.Handler
	switch kind {
	case "bare":
		constant, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		handler = bareHandler(constant)
	case "list":
		var err error
		if handler, err = manyTools(from); err != nil {
			return err
		}
	case "call":
		return serveDaemon(from)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { _ = access.Server(handler, nil).Serve(l) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// bareHandler is the yardstick.
func bareHandler(constant []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var in struct {
			JSONRPC string         `json:"jsonrpc"`
			ID      jsontext.Value `json:"id"`
			Method  string         `json:"method"`
			Params  struct {
				Name      string         `json:"name"`
				Arguments jsontext.Value `json:"arguments"`
				Meta      jsontext.Value `json:"_meta"`
			} `json:"params"`
		}
		if err := jsonv2.Unmarshal(body, &in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(constant)))
		_, _ = w.Write(constant)
	})
}

// serveDaemon is the daemon, its garbage collector set as cmd/ze does.
func serveDaemon(dir string) error {
	debug.SetGCPercent(appliance.GCPercent)
	app, err := appliance.New(context.Background(), appliance.Options{
		DataDir: dir, File: "speed.conf", Text: []byte("environment { metrics { enabled false; } mcp { enabled true; limit { rate 1000000; burst 1000000; } } }"),
		Overrides: appliance.Overrides{MCPListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}},
		Speaker:   []string{os.Args[0]}, Version: builtin.Version{Version: "speed"}, Logger: zerolog.New(io.Discard).Level(zerolog.InfoLevel),
	})
	if err != nil {
		return err
	}
	if err := app.Start(context.Background()); err != nil {
		return err
	}
	for _, l := range app.Addresses() {
		if l.Name == "mcp" {
			fmt.Println(l.Address)
		}
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, app.Stop(context.Background()))
}

// manyTools is the MCP server with 300 tools, on the database in dir.
func manyTools(dir string) (http.Handler, error) {
	debug.SetGCPercent(appliance.GCPercent)
	db, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	log := audit.NewLog(audit.Options{Store: db})
	log.Start()
	auth, err := access.NewAuthenticator(access.AuthOptions{Mode: access.ModeBearer, Store: db})
	if err != nil {
		return nil, err
	}
	registry := command.NewRegistry()
	var commands []*command.Command
	for i := range 300 {
		input, err := schema.FromJSON(json.RawMessage(`{"type":"object","properties":{` +
			`"peer":{"type":"string","description":"The peer by its name in the configuration, or by its address."},` +
			`"family":{"type":"string","enum":["ipv4/unicast","ipv6/unicast"],"description":"Only routes of this family."},` +
			`"count":{"type":"integer","minimum":1,"maximum":10000,"description":"At most so many."}},"required":["peer"],"additionalProperties":false}`))
		if err != nil {
			return nil, err
		}
		c, err := command.NewRuntime(&schema.Command{
			Path: []string{"tool", strconv.Itoa(i)}, Effect: "read", Input: input,
			Description: "Shows what the peer has sent, newest first, as far as it is kept and the caller may see it.",
		}, fmt.Sprintf("tool_%03d", i), func(context.Context, *command.Request) (any, error) { return struct{}{}, nil })
		if err != nil {
			return nil, err
		}
		commands = append(commands, c)
	}
	if err := registry.Register(commands...); err != nil {
		return nil, err
	}
	server, err := mcp.New(mcp.Options{
		Dispatcher: command.NewDispatcher(command.Options{Registry: registry, Audit: log, Clock: time.Now, Logger: zerolog.Nop()}),
		Auth:       auth, Name: "speed", Version: "1", Logger: zerolog.Nop(),
	})
	if err != nil {
		return nil, err
	}
	return (&access.Guard{}).Wrap(server), nil
}

// server is one of those that are compared.
type server struct {
	pid  int
	addr string
}

func startServer(t *testing.T, kind, from string) *server {
	t.Helper()
	cmd := exec.Command(os.Args[0], serverArg, kind, from)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("server %s does not start: %v", kind, err)
	}
	return &server{cmd.Process.Pid, strings.TrimSpace(line)}
}

// measured is what one round of load came to.
type measured struct {
	rate float64 // requests a second
	cpu  float64 // µs of processor time for each, user and system
}

// load sends request over and over on 64 connections for a second. It never
// sleeps but looks at one after the other: to wake somebody on another processor
// costs a server more than a small answer does, and the less the busier it is.
func (s *server) load(t *testing.T, request []byte) measured {
	t.Helper()
	conns := make([]*polled, 64)
	for i := range conns {
		conns[i] = dialPolled(t, s.addr)
		defer unix.Close(conns[i].fd)
	}
	start, before, n := time.Now(), s.cpu(t), 0
	for _, c := range conns {
		c.send(t, request)
	}
	for end := start.Add(time.Second); time.Now().Before(end); {
		for _, c := range conns {
			if c.answered(t) {
				c.send(t, request)
				n++
			}
		}
	}
	if n == 0 {
		t.Fatal("nothing was answered")
	}
	return measured{float64(n) / time.Since(start).Seconds(), (s.cpu(t) - before) / float64(n) * 1e6}
}

// answer sends request once and returns the body of a success.
func (s *server) answer(t *testing.T, request []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(body, []byte(`"resultType":"complete"`)) || bytes.Contains(body, []byte(`"isError":true`)) {
		t.Fatalf("the answer is no success: %.500s", body)
	}
	return body
}

// cpu returns the processor time the server has used, in seconds: fields 14 and
// 15 of /proc/PID/stat, in hundredths (proc(5)).
func (s *server) cpu(t *testing.T) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), ") ") // the name of the program may have spaces
	fields := strings.Fields(rest)
	var ticks float64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}
