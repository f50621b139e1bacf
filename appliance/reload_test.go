package appliance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/mcp/client"
)

// fromFile is a daemon whose file can be changed.
type fromFile struct {
	*appliance.App
	text atomic.Pointer[string]
}

func startFromFile(t *testing.T, text string, more ...func(*appliance.Options)) *fromFile {
	t.Helper()
	f := &fromFile{}
	f.text.Store(&text)
	dir := filepath.Join(t.TempDir(), "data")
	appliancetest.CreateStore(t, dir, plainConfig)
	o := appliance.Options{
		DataDir: dir, File: "ze.conf", Text: []byte(text), Control: filepath.Join(t.TempDir(), "ze.sock"),
		Reread:  func() ([]byte, error) { return []byte(*f.text.Load()), nil },
		Speaker: []string{os.Args[0], speakerArg}, Version: builtin.Version{Version: "test"}, Logger: zerolog.Nop(),
	}
	for _, change := range more {
		change(&o)
	}
	app, err := appliance.New(t.Context(), o)
	if err == nil {
		err = app.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	f.App = app
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := app.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fromFile) reload(t *testing.T, text string) error {
	t.Helper()
	f.text.Store(&text)
	before := f.ReloadStatus().Generation
	err := f.Reload(t.Context())
	if s := f.ReloadStatus(); s.Generation != before+1 || (s.LastOutcome == "applied") != (err == nil) {
		t.Errorf("reload status %+v after %v", s, err)
	}
	return err
}

func mcpConfig(mcp netip.AddrPort, token, more string) string {
	return fmt.Sprintf("environment {\n mcp { enabled true; token %s; server main { ip %s; port %d; } }\n metrics { enabled false; }\n}\n%s",
		token, mcp.Addr(), mcp.Port(), more)
}

func answers(t *testing.T, at netip.AddrPort, token string) error {
	t.Helper()
	c := client.New("http://"+at.String()+"/mcp", token, "test")
	defer c.Close()
	_, err := c.Call(t.Context(), "ze_show", map[string]any{"action": "version"})
	return err
}

// TestReload: a reload applies fully, live, or changes nothing and says why.
func TestReload(t *testing.T) {
	const one, two = "the-first-token-of-all", "the-second-token-of-all"
	a, b := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.1")
	f := startFromFile(t, mcpConfig(a, one, ""))
	if err := answers(t, a, one); err != nil {
		t.Fatal(err)
	}

	// Another token: the old one is refused on the next call.
	if err := f.reload(t, mcpConfig(a, two, "")); err != nil {
		t.Fatal(err)
	}
	if err := answers(t, a, two); err != nil {
		t.Error(err)
	}
	var rpc *client.RPCError
	if err := answers(t, a, one); !errors.As(err, &rpc) || rpc.Status != http.StatusUnauthorized {
		t.Errorf("the token before: %v", err)
	}

	// Refused: a text that is wrong, and one whose listener cannot open. Nothing changes.
	var problems config.Problems
	if err := f.reload(t, mcpConfig(a, one, "nonsense")); !errors.As(err, &problems) {
		t.Errorf("a wrong text: %v", err)
	}
	taken, err := net.Listen("tcp", b.String())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.reload(t, mcpConfig(b, one, "bgp { router-id 192.0.2.1; local { as 1; } }")); err == nil || !strings.Contains(err.Error(), b.String()) {
		t.Errorf("a taken port: %v", err)
	}
	if err := answers(t, a, two); err != nil {
		t.Errorf("after two refused reloads: %v", err)
	}
	if s := f.ReloadStatus(); s.Generation != 3 || s.LastOutcome != "refused" || s.LastError == "" {
		t.Errorf("status: %+v", s)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}

	// The listener moves.
	if err := f.reload(t, mcpConfig(b, two, "")); err != nil {
		t.Fatal(err)
	}
	if err := answers(t, b, two); err != nil {
		t.Error(err)
	}
	eventually(t, "the old address", func() string {
		if c, err := net.Dial("tcp", a.String()); err == nil {
			c.Close()
			return "still answers"
		}
		return ""
	})
}

// TestReloadBGP: the speaker comes and goes with the bgp block, and a change of
// one peer leaves the session of another alone.
func TestReloadBGP(t *testing.T) {
	l := newLab(t)
	n := l.neighbour(t)
	const token = "the-only-token-of-all"
	mcp := freePort(t, "127.0.0.1")
	with := func(more string) string {
		return mcpConfig(mcp, token, strings.Replace(l.config("")[strings.Index(l.config(""), "bgp {"):], "peer north", more+"\n peer north", 1))
	}
	f := startFromFile(t, mcpConfig(mcp, token, ""))
	c := client.New("http://"+mcp.String()+"/mcp", token, "test")
	defer c.Close()
	d := &daemon{App: f.App, mcp: c}

	if err := f.reload(t, with("")); err != nil {
		t.Fatal(err)
	}
	d.established(t, "north")
	d.execute(t, "announce 10.0.0.0/24", nil)
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24")

	if err := f.reload(t, with("peer south { remote { ip 127.0.0.77; as 64998; } }")); err != nil {
		t.Fatal(err)
	}
	var s struct {
		Peer []struct {
			Name, State string
			Flaps       int
		}
	}
	d.call(t, "ze_show_bgp", map[string]any{"action": "peer"}, &s)
	if len(s.Peer) != 2 || s.Peer[1].Name != "north" || s.Peer[1].State != bgp.StateEstablished || s.Peer[1].Flaps != 0 {
		t.Errorf("peers: %+v", s)
	}

	if err := f.reload(t, mcpConfig(mcp, token, "")); err != nil {
		t.Fatal(err)
	}
	has(t, n, bgp.IPv4Unicast)
	var status struct{ Speaker *struct{ State string } }
	d.execute(t, "show status", &status)
	if status.Speaker != nil {
		t.Errorf("speaker: %+v", status.Speaker)
	}
	if err := f.reload(t, with("")); err != nil {
		t.Fatal(err)
	}
	d.established(t, "north")
	has(t, n, bgp.IPv4Unicast, "10.0.0.0/24")
}

// TestReloadOfWhoeverLeaves: a caller that does not wait for the end of a reload is
// no reason to refuse the configuration.
func TestReloadOfWhoeverLeaves(t *testing.T) {
	f := startFromFile(t, plainConfig)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Reload(ctx); err != nil {
		t.Error(err)
	}
	if s := f.ReloadStatus(); s.LastOutcome != "applied" || s.LastError != "" {
		t.Errorf("%+v", s)
	}
}
