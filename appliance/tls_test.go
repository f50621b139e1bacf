package appliance_test

import (
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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
