package appliance_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/outputtest"
)

// writePair makes a key pair for 127.0.0.1 and the name ze.example, signed by
// itself, and returns what trusts it.
func writePair(t *testing.T, dir string, serial int64) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "ze"}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"ze.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw}} {
		// Replaced as a careful program does: never half written.
		if err := os.WriteFile(filepath.Join(dir, name+".new"), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return pool
}

// TestTLS: a listener that other machines can reach needs all of TLS,
// authentication and the word for it; then it answers by the names of its
// certificate only, and takes a new one without a restart.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	pool := writePair(t, dir, 1)
	at := freePort(t, "127.0.0.1")
	text := func(more string) string {
		return fmt.Sprintf("environment { mcp { enabled true; token the-only-token-of-all; %s server main { ip 0.0.0.0; port %d; } } metrics { enabled false; } }", more, at.Port())
	}
	pair := fmt.Sprintf("tls { cert %[1]s/cert.pem; key %[1]s/key.pem; } ", dir)
	f := startFromFile(t, strings.Replace(plainConfig, "mcp {", "metrics { enabled false; } mcp { token the-only-token-of-all; server main { port "+fmt.Sprint(freePort(t, "127.0.0.1").Port())+"; } ", 1))
	for _, lacking := range []string{"", pair, "bind-remote true; ", "bind-remote true; auth-mode none; " + pair} {
		if err := f.reload(t, text(lacking)); err == nil {
			t.Errorf("reachable from elsewhere with only %q", lacking)
		}
	}
	if err := f.reload(t, text("bind-remote true; "+pair)); err != nil {
		t.Fatal(err)
	}
	get := func(pool *x509.CertPool, host string) (int, error) {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at.String()+"/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Body.Close()
	}
	for host, want := range map[string]int{"ze.example": http.StatusUnauthorized, "127.0.0.1": http.StatusUnauthorized, "evil.example": http.StatusForbidden} {
		if got, err := get(pool, host); err != nil || got != want {
			t.Errorf("as %s: %d %v, want %d", host, got, err, want)
		}
	}
	if resp, err := http.Get("http://" + at.String() + "/mcp"); err == nil {
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP answers %d", resp.StatusCode)
		}
		resp.Body.Close()
	}
	next := writePair(t, dir, 2)
	eventually(t, "the new certificate", func() string {
		if got, err := get(next, "ze.example"); err != nil || got != http.StatusUnauthorized {
			return fmt.Sprint(got, err)
		}
		return ""
	})
}

// TestTLSWhereItRuns: TLS comes to an address that is served and goes again,
// without a moment in which nobody listens there, also on a socket of the service
// manager.
func TestTLSWhereItRuns(t *testing.T) {
	dir := t.TempDir()
	pool := writePair(t, dir, 1)
	s := newSockets(t)
	own := freePort(t, "127.0.0.1")
	text := func(at netip.AddrPort, more string) string {
		return fmt.Sprintf("environment { mcp { enabled true; token the-only-token-of-all; %s server main { ip %s; port %d; } } metrics { enabled false; } }", more, at.Addr(), at.Port())
	}
	pair := fmt.Sprintf("tls { cert %[1]s/cert.pem; key %[1]s/key.pem; } ", dir)
	var log outputtest.Output
	for name, at := range map[string]netip.AddrPort{"its own socket": own, "a handed socket": s.address()} {
		t.Run(name, func(t *testing.T) {
			f := startFromFile(t, text(at, ""), func(o *appliance.Options) {
				o.Logger = zerolog.New(&log)
				if at == s.address() {
					o.Listeners = s.handOver()
				}
			})
			status := func(scheme string) int {
				t.Helper()
				c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: deadline}
				resp, err := c.Get(scheme + "://" + at.String() + "/mcp")
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				return resp.StatusCode
			}
			// Somebody who connects all the time is never refused.
			ctx, cancel := context.WithCancel(t.Context())
			var knocking sync.WaitGroup
			knocking.Go(func() {
				for ctx.Err() == nil {
					c, err := net.Dial("tcp", at.String())
					if err != nil {
						t.Error(err)
						return
					}
					_ = c.Close()
				}
			})
			defer knocking.Wait()
			defer cancel()
			for range 5 {
				if got := status("http"); got != http.StatusUnauthorized {
					t.Errorf("plain: %d", got)
				}
				if err := f.reload(t, text(at, pair)); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the door without TLS to close", func() string {
					if got := status("http"); got != http.StatusBadRequest {
						return fmt.Sprint("plain: ", got)
					}
					return ""
				})
				if got := status("https"); got != http.StatusUnauthorized {
					t.Errorf("with TLS: %d", got)
				}
				if err := f.reload(t, text(at, "")); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the door with TLS to close", func() string {
					if len(f.Addresses()) > 2 {
						return fmt.Sprint(f.Addresses())
					}
					return ""
				})
			}
			everywhere := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
			err := f.reload(t, text(everywhere, "bind-remote true; "+pair))
			if err == nil || !strings.Contains(err.Error(), "the daemon itself listens on "+at.String()+" for mcp") {
				t.Errorf("an address that overlaps: %v", err)
			}
		})
	}
	if strings.Contains(log.String(), "answers on "+s.address().String()) {
		t.Errorf("it says that the socket is not served: %s", log.String())
	}
}
