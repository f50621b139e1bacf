package appliance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"ze.internal/ze/appliance/bgp"
)

// chromium returns the browser's program.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no browser: install Debian's package chromium")
	}
	t.Skip("no browser: install Debian's package chromium to test the panels")
	return ""
}

// browse opens a page in a browser of its own until the test ends.
func browse(t *testing.T, page string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command(chromium(t), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
		"--disable-dev-shm-usage", "--disable-background-networking", "--remote-debugging-port=0", "--user-data-dir="+t.TempDir(), page)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it starts many, which write into its directory
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the browser said:\n%s", said.String())
		}
	})
}

// TestPanels shows the panels in a browser, in a host page that is a client of a
// running daemon; what the page finds wrong is listed here.
func TestPanels(t *testing.T) {
	chromium(t) // before anything is started
	l := newLab(t)
	l.neighbour(t, bgp.Path{
		Prefixes:   []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24")},
		Attributes: bgp.Attributes{Origin: "igp", NextHopSelf: true, Communities: []string{"64999:1"}},
	})
	hostile := strings.Replace(l.config(""), "timer {", `description "<img src=x onerror=alert(1)>"; timer {`, 1)
	d := startDaemon(t, daemonOptions{config: hostile})
	d.established(t, "north")
	eventually(t, "routes of the neighbour", func() string {
		var s struct{ Count int }
		if d.execute(t, "show bgp rib received peer north", &s); s.Count != 2 {
			return fmt.Sprint(s.Count)
		}
		return ""
	})

	d.beginTask(t, "monitor event for 1h")

	verdict := make(chan []string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/panel/host.html") })
	mux.HandleFunc("GET /driver.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "testdata/panel/driver.js") })
	mux.Handle("POST /mcp", d.proxy(t))
	mux.HandleFunc("POST /verdict", func(_ http.ResponseWriter, r *http.Request) {
		var wrong []string
		if err := json.NewDecoder(r.Body).Decode(&wrong); err != nil {
			wrong = []string{err.Error()}
		}
		verdict <- wrong
	})
	host := httptest.NewServer(mux)
	t.Cleanup(host.Close)
	browse(t, host.URL+"/")
	select {
	case wrong := <-verdict:
		for _, w := range wrong {
			t.Error(w)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the page has not finished")
	}
	var s struct {
		Peers []struct {
			Flaps int
		} `json:"peer"`
	}
	if d.execute(t, "show bgp peer north", &s); s.Peers[0].Flaps == 0 {
		t.Error("the panel did not reset the session")
	}
}

// proxy passes requests on to the daemon's MCP door with the admin's token.
func (d *daemon) proxy(t *testing.T) http.Handler {
	target, err := url.Parse(d.url(t, "mcp"))
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// Read whole: the body is closed once the answer begins, and a transport
		// that is still looking for its end then drops the answer's rest.
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			t.Error(err)
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		r.Out.Host = target.Host
		r.Out.Header.Del("Origin")
		r.Out.Header.Set("Authorization", "Bearer "+d.admin)
	}}
}
