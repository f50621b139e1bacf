package appliance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/mcp/client"
)

// speakerArg makes the test program the BGP speaker process, as ze speaker is.
const speakerArg = "be-the-speaker"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == speakerArg {
		if err := speaker.Serve(context.Background(), os.Stdin, os.Stdout, zerolog.New(os.Stderr)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// deadline bounds everything the tests wait for.
const deadline = 30 * time.Second

// daemon is a running daemon and its clients.
type daemon struct {
	*appliance.App
	dir   string
	admin string // token
	mcp   *client.Client
}

type daemonOptions struct {
	config string
	dir    string // of an existing store; empty: a new one
	file   bool   // run from the text as from a file
	log    zerolog.Logger

	speaker []string // nil: this test program
}

func startDaemon(t *testing.T, o daemonOptions) *daemon {
	t.Helper()
	d := &daemon{dir: o.dir}
	if d.dir == "" {
		d.dir = filepath.Join(t.TempDir(), "data")
		d.admin = appliancetest.CreateStore(t, d.dir, o.config)
	}
	opts := appliance.Options{
		DataDir: d.dir, Control: filepath.Join(t.TempDir(), "ze.sock"),
		Overrides: appliance.Overrides{
			MCPListen:     []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
			MetricsListen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		},
		Speaker: []string{os.Args[0], speakerArg},
		Version: builtin.Version{Version: "test", GoVersion: "test", MCPRevision: client.Revision},
		Logger:  o.log,
	}
	if o.speaker != nil {
		opts.Speaker = o.speaker
	}
	if o.file {
		opts.File, opts.Text = "ze.conf", []byte(o.config)
	}
	app, err := appliance.New(t.Context(), opts)
	if err == nil {
		err = app.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d.App = app
	t.Cleanup(func() { d.stop(t) })
	d.mcp = client.New(d.url(t, "mcp")+"/mcp", d.admin, "test")
	t.Cleanup(d.mcp.Close)
	return d
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func (d *daemon) url(t *testing.T, name string) string {
	t.Helper()
	for _, l := range d.Addresses() {
		if l.Name == name {
			return "http://" + l.Address
		}
	}
	t.Fatalf("nothing listens for %s", name)
	return ""
}

// call runs a tool and decodes its answer into v, which may be nil.
func (d *daemon) call(t *testing.T, tool string, args, v any) {
	t.Helper()
	answer, err := d.mcp.Call(t.Context(), tool, args)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if v != nil {
		if err := json.Unmarshal(answer, v); err != nil {
			t.Fatalf("%s: %v in %s", tool, err, answer)
		}
	}
}

// execute runs a command line and decodes its answer.
func (d *daemon) execute(t *testing.T, line string, v any) {
	t.Helper()
	d.call(t, "ze_execute", map[string]string{"command": line}, v)
}

// beginTask runs a command line that takes long, as a client that takes tasks,
// and returns the id of the task.
func (d *daemon) beginTask(t *testing.T, line string) string {
	t.Helper()
	c := client.Open(client.Options{URL: d.url(t, "mcp") + "/mcp", Token: d.admin, Name: "test",
		Capabilities: map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}})
	defer c.Close()
	raw, err := c.Do(t.Context(), "tools/call", "ze_execute", map[string]any{"name": "ze_execute", "arguments": map[string]string{"command": line}})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var created struct{ TaskID string }
	if err := json.Unmarshal(raw, &created); err != nil || created.TaskID == "" {
		t.Fatalf("%s is no task: %v in %s", line, err, raw)
	}
	return created.TaskID
}

// control sends a command line over the control socket, as the command line does.
func (d *daemon) control(t *testing.T, line string) (int, string) {
	t.Helper()
	socket := strings.TrimPrefix(d.url(t, "control"), "http://")
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}}
	body, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := hc.Post("http://localhost/api/v1/execute", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if _, err := fmt.Fprint(&b, readAll(t, resp)); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b.String()
}

// eventually polls until check returns "" and fails with its last answer.
func eventually(t *testing.T, what string, check func() string) {
	t.Helper()
	end := time.Now().Add(deadline)
	for {
		problem := check()
		if problem == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %s", what, problem)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// established waits until the named peer's session carries routes.
func (d *daemon) established(t *testing.T, peer string) {
	t.Helper()
	eventually(t, "session with "+peer, func() string {
		var s struct {
			Peers []struct{ Name, State string } `json:"peer"`
		}
		d.call(t, "ze_show_bgp", nil, &s)
		for _, p := range s.Peers {
			if p.Name == peer && p.State == bgp.StateEstablished {
				return ""
			}
		}
		return fmt.Sprint(s.Peers)
	})
}

// cameBack waits until a session is established that was lost so many times: right
// after a teardown the one that is going may still be shown.
func (d *daemon) cameBack(t *testing.T, peer string, flaps int) {
	t.Helper()
	eventually(t, "session with "+peer, func() string {
		var s struct {
			Peers []struct {
				Name, State string
				Flaps       int
			} `json:"peer"`
		}
		d.execute(t, "show bgp peer "+peer, &s)
		for _, p := range s.Peers {
			if p.Name == peer && p.State == bgp.StateEstablished && p.Flaps >= flaps {
				return ""
			}
		}
		return fmt.Sprint(s)
	})
}

// lab is a pair of addresses with free ports for a daemon and its neighbour.
type lab struct {
	ours, theirs netip.AddrPort
}

func newLab(t *testing.T) lab {
	t.Helper()
	return lab{freePort(t, "127.0.0.1"), freePort(t, "127.0.0.2")}
}

func freePort(t *testing.T, address string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// config is a configuration with one peer called north.
func (l lab) config(extra string) string {
	return fmt.Sprintf(`
environment { mcp { enabled true; } %s }
bgp {
    router-id 192.0.2.1;
    local { as 64512; }
    listen { ip %s; port %d; }
    peer north {
        remote { ip %s; port %d; as 64999; }
        local { ip %s; }
        timer { connect-retry 1; }
        family ipv4/unicast;
        family ipv6/unicast;
    }
}
`, extra, l.ours.Addr(), l.ours.Port(), l.theirs.Addr(), l.theirs.Port(), l.ours.Addr())
}

// neighbour is a second speaker process that plays the peer and announces paths.
func (l lab) neighbour(t *testing.T, paths ...bgp.Path) *speaker.Client {
	t.Helper()
	cfg := bgp.Config{
		RouterID: netip.MustParseAddr("192.0.2.2"), Local: bgp.LocalConfig{AS: 64999},
		Listen: bgp.ListenConfig{IP: l.theirs.Addr(), Port: l.theirs.Port()},
		Peers: []bgp.PeerConfig{{
			Name: "ze", Remote: bgp.RemoteConfig{IP: l.ours.Addr(), Port: l.ours.Port(), AS: 64512}, Local: bgp.LocalConfig{IP: l.theirs.Addr()},
			Timer:    bgp.TimerConfig{ConnectRetry: 1},
			Families: []bgp.FamilyConfig{{Name: bgp.IPv4Unicast}, {Name: bgp.IPv6Unicast}},
		}},
	}
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	n := speaker.New(speaker.Options{
		Path: os.Args[0], Args: []string{speakerArg}, Logger: zerolog.Nop(),
		Desired: func(context.Context) (bgp.Config, []bgp.Path, error) { return cfg, paths, nil },
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}

// has waits until the neighbour's table holds exactly these prefixes.
func has(t *testing.T, n *speaker.Client, family bgp.Family, want ...string) {
	t.Helper()
	eventually(t, "the neighbour's table", func() string {
		routes, _, err := n.RIB(t.Context(), bgp.RIBQuery{Table: bgp.TableReceived, Peer: "ze", Family: family, Limit: 1000})
		if err != nil {
			if errors.Is(err, bgp.ErrUnavailable) {
				return err.Error()
			}
			t.Fatal(err)
		}
		var got []string
		for _, r := range routes {
			got = append(got, r.Prefix.String())
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("has %v, want %v", got, want)
		}
		return ""
	})
}
