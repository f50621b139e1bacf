package conformance

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/appliancetest"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/mcp"
)

// startDaemon runs a daemon without BGP and returns the URL of its MCP server
// and an admin token.
func startDaemon(t *testing.T) (mcpURL, token string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	token = appliancetest.CreateStore(t, dir, "")
	loopback := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	app, err := appliance.New(t.Context(), appliance.Options{
		DataDir: dir, File: "test.conf", Text: []byte("environment { metrics { enabled false; } mcp { enabled true; limit { rate 100000; burst 100000; } } }"),
		Overrides: appliance.Overrides{MCPListen: loopback}, Speaker: []string{os.Args[0]},
		Version: builtin.Version{Version: "test", MCPRevision: mcp.Revision}, Logger: zerolog.Nop(),
	})
	if err == nil {
		err = app.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := app.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, l := range app.Addresses() {
		if l.Name == "mcp" {
			return "http://" + l.Address + "/mcp", token
		}
	}
	t.Fatal("the daemon does not listen")
	return "", ""
}

// withToken returns the URL of a proxy that adds a token to every request: the
// suite cannot send one. Everything else passes as it is, the Host header too.
func withToken(t *testing.T, target, token string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	to.Path = ""
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		// Read whole: the body is closed once the answer begins, and a transport
		// that is still looking for its end then drops the answer's rest.
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}
	h := httptest.NewServer(proxy)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return h.URL + "/mcp"
}

// TestDaemon runs the scenarios that need no fixtures against the real daemon.
func TestDaemon(t *testing.T) {
	mcpURL, token := startDaemon(t)
	through := withToken(t, mcpURL, token)
	for name, want := range map[string]int{
		"tools-list":                                4,
		"server-sse-multiple-streams":               1,
		"resources-list":                            2,
		"sep-2164-resource-not-found":               4,
		"prompts-list":                              2,
		"dns-rebinding-protection":                  2,
		"caching":                                   8,
		"input-required-result-unsupported-methods": 2,
		"http-header-validation":                    14,
	} {
		t.Run(name, func(t *testing.T) { runOne(t, through, name, want) })
	}
	t.Run("server-stateless", func(t *testing.T) {
		p := node(t, nil, suiteScript, "server", "--url", through, "--scenario", "server-stateless", "--spec-version", "2026-07-28")
		m := single.FindStringSubmatch(p.stdout)
		// What needs a tool of the fixtures is reported as a failure that is not testable.
		untestable := strconv.Itoa(strings.Count(p.stdout, "Error: Not testable"))
		if m == nil || m[1] != "24" || m[2] != "28" || m[3] != untestable || m[4] != "2" {
			t.Errorf("want 24 of 28 checks passed, the rest not testable, and the two warnings that they bring; got %q, %s not testable\n%s", m, untestable, p.tail())
		}
	})
}
