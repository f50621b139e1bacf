package appliance_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/mcp/client"
)

// forms returns how a secret could turn up: as it is, without its prefix, in
// hexadecimal, in base64 at each of the three places it can begin, in a URL.
func forms(secret string) []string {
	out := []string{secret, strings.TrimPrefix(secret, "ze_"), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))), url.QueryEscape(secret)}
	for shift := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			whole := encoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
			out = append(out, whole[4:len(whole)-2]) // without what depends on its neighbours
		}
	}
	return out
}

// TestCanary follows a token through everything that is done with one, right and
// wrong, and looks for it in everything the daemon keeps, writes and hands on.
func TestCanary(t *testing.T) {
	l := newLab(t)
	n := l.neighbour(t)
	var log bytes.Buffer
	child := filepath.Join(t.TempDir(), "child")
	d := startDaemon(t, daemonOptions{
		config: l.config(""), log: zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.TraceLevel),
		// The speaker, with all it is told on the way noted down.
		speaker: []string{"/bin/sh", "-c", `env >"$0.env"; printf '%s\n' "$@" >"$0.args"; tee "$0.in" | "$1" ` + speakerArg, child, os.Args[0]},
	})
	d.established(t, "north")

	var made, rotated struct{ Secret, Accessor string }
	d.execute(t, "token create canary scope admin", &made)
	d.execute(t, "token rotate canary overlap 10m", &rotated)
	canaries := []string{made.Secret, rotated.Secret}
	address := d.url(t, "mcp") + "/mcp"
	for _, secret := range canaries {
		c := client.New(address, secret, secret) // a client that calls itself by its token
		var failed *client.ToolError
		for _, row := range []struct {
			line  string
			works bool
		}{
			{"show bgp", true}, {"announce 10.1.0.0/24 next-hop self tag { key a }", true}, {"withdraw all", true},
			{"announce 10.0.0.1/24", false}, {"show status", true}, {"token create canary", false},
		} {
			_, err := c.Call(t.Context(), "ze_execute", map[string]string{"command": row.line})
			if row.works && err != nil || !row.works && !errors.As(err, &failed) {
				t.Errorf("%s: %v", row.line, err)
			}
		}
		c.Close()
		// Presented where it does not belong, or not quite as it should be.
		for _, change := range []func(r *http.Request){
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret+"x") },
			func(r *http.Request) { r.Header.Set("Authorization", "Bearer user:"+secret) },
			func(r *http.Request) { r.Header.Set("Authorization", "Basic "+secret) },
			func(r *http.Request) { r.SetBasicAuth(secret, secret) },
			func(r *http.Request) { r.Header.Set("Authorization", secret) },
			func(r *http.Request) { r.Header.Set("X-Api-Key", secret) },
			func(r *http.Request) { r.URL.RawQuery = "access_token=" + secret },
			func(r *http.Request) { r.URL.Path = "/mcp/" + secret },
			func(r *http.Request) { r.Host = secret + ".example" },
			func(r *http.Request) { r.Header.Set("Origin", "http://"+secret) },
			func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+secret)
				r.Header.Set("Mcp-Method", secret)
			},
		} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", address, strings.NewReader(`{"jsonrpc":"2.0"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			change(r)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if body := readAll(t, resp); resp.StatusCode == http.StatusOK {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
			resp.Body.Close()
		}
	}
	has(t, n, bgp.IPv4Unicast)
	d.execute(t, "token revoke canary", nil)
	for _, secret := range canaries {
		c := client.New(address, secret, "late")
		if _, err := c.Call(t.Context(), "ze_show_bgp", nil); err == nil {
			t.Error("a revoked token works")
		}
		c.Close()
	}

	seen := map[string]string{}
	for name, line := range map[string]string{"show audit": "show audit count 1000", "token list": "token list", "show status": "show status"} {
		answer, err := d.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": line})
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = string(answer)
	}
	_, seen["metrics"] = get(t, d.url(t, "metrics")+"/metrics")
	// Each place must be the one that is meant: it shows what it is known to show.
	known := map[string]string{"show audit": rotated.Accessor, "token list": "admin", "show status": "test", "metrics": "ze_auth_failures_total"}
	d.stop(t)
	seen["log"], known["log"] = log.String(), "announce"
	if err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		seen[filepath.Base(path)] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	known["ze.db"] = made.Accessor
	for name, what := range map[string]string{".env": "PATH=", ".args": os.Args[0], ".in": "10.1.0.0/24"} {
		b, err := os.ReadFile(child + name)
		if err != nil {
			t.Fatal(err)
		}
		seen["child"+name], known["child"+name] = string(b), what
	}
	for place, want := range known {
		if !strings.Contains(seen[place], want) {
			t.Errorf("%s does not hold %q: it is not what it should be\n%.500s", place, want, seen[place])
		}
	}
	for place, text := range seen {
		for _, secret := range append(canaries, d.admin) {
			for _, form := range forms(secret) {
				if strings.Contains(text, form) {
					t.Errorf("%s holds the token, as %s", place, form)
				}
			}
		}
	}
	digest := access.DigestOf(made.Secret)
	if strings.Contains(seen["show audit"]+seen["log"]+seen["metrics"], hex.EncodeToString(digest[:])) {
		t.Error("the digest, which a stolen database could be searched for, is told")
	}
}
