package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"ze.internal/ze/mcp/client"
)

// set adds lines to the settings until the function returned is called.
func set(lines string) (undo func()) {
	before, err := os.ReadFile(envFile)
	if err != nil {
		failf("%v", err)
	}
	write(envFile, string(before)+lines+"\n", 0o640) // which keeps its owner
	return func() { write(envFile, string(before), 0o640) }
}

func (b *box) wrongSettings() string {
	for _, c := range []struct{ line, code, says string }{
		{"ZE_MCP_LISTEN=nonsense", "2", "environment variable ZE_MCP_LISTEN: "},
		{"ZE_MCP_LISTEN=0.0.0.0:8080", "4", "can be reached from other machines"},
	} {
		sh("systemctl reset-failed ze; systemctl start ze.socket")
		undo := set(c.line)
		if out, code := try("systemctl restart ze"); code == 0 {
			failf("it starts with %s: %s", c.line, out)
		}
		same(c.line+": exit code", property("ExecMainStatus"), c.code)
		holds(c.line, quiet("systemctl status --no-pager ze"), c.says)
		n := restarts()
		if _, err := b.call("ze_show", nil); err == nil {
			failf("%s: a call is answered", c.line)
		}
		// A restart would come after one second.
		end := time.Now().Add(2500 * time.Millisecond)
		soon("a while", 4*time.Second, func() string {
			if state := property("ActiveState"); state != "failed" || restarts() != n {
				failf("%s: it loops: %s, %d restarts", c.line, state, restarts()-n)
			}
			if time.Now().Before(end) {
				return "waiting"
			}
			return ""
		})
		undo()
	}
	sh("systemctl start ze.socket ze")
	same("version", b.version(), oldVersion)
	return ""
}

// refusedReload: the files of a key pair are what a reload reads besides the
// database, which takes nothing that could be refused.
func (b *box) refusedReload() string {
	const cert, key = "/etc/ze/life.cert", "/etc/ze/life.key"
	defer sh("rm " + cert + " " + key + "; systemctl restart ze")
	encrypted := keyPair(cert, key)
	sh("chown ze " + cert + " " + key)
	defer set("ZE_MCP_TLS_CERT=" + cert + "\nZE_MCP_TLS_KEY=" + key)()
	sh("systemctl restart ze")
	pid, since := property("MainPID"), journal()

	sh("chmod 644 " + key)
	if out, code := try("systemctl reload ze"); code == 0 {
		failf("a key that everybody can read is accepted: %s", out)
	}
	const why = "only its owner may: chmod 600 " + key
	holds("status", property("StatusText"), "last reload refused: ", why)
	holds("systemctl status", quiet("systemctl status --no-pager ze"), "last reload refused: ", why)
	holds("journal", since(), "reload refused; the configuration before stays in force", why)
	holds("ze show reload-status", sh("ze show reload-status"), "refused", why)
	same("state", property("ActiveState"), "active")
	same("version", b.versionAt(encrypted), oldVersion)

	sh("chmod 600 " + key)
	sh("systemctl reload ze")
	if status := property("StatusText"); strings.Contains(status, "refused") {
		failf("it is mended, and the status is %s", status)
	}
	same("version", b.versionAt(encrypted), oldVersion)
	same("process", property("MainPID"), pid)
	return ""
}

// keyPair writes a certificate for MCP's address, signed by itself, and its key,
// both readable by root alone, and returns what a client needs who trusts it.
func keyPair(cert, key string) client.Options {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		failf("%v", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		failf("%v", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		failf("%v", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})
	write(cert, string(certPEM), 0o600)
	write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), 0o600)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certPEM)
	return client.Options{URL: "https://" + mcpAddress + "/mcp", Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
}

// credentials: the daemon gets what only root can read, for as long as it is there.
func (b *box) credentials() string {
	const dir = "/etc/ze/credentials/"
	defer sh("rm -f " + dir + "*")
	own := keyPair(dir+"mcp.tls.cert", dir+"mcp.tls.key")
	own.Token = "a-token-that-nobody-has-created"
	write(dir+"mcp.token", own.Token+"\n", 0o600)
	sh("systemctl restart ze")
	same("version", b.versionAt(own), oldVersion)
	sh("rm " + dir + "*")
	sh("systemctl restart ze")
	same("version", b.version(), oldVersion)
	c := client.New(mcpURL, own.Token, "life")
	defer c.Close()
	if _, err := version(c); err == nil || !strings.Contains(err.Error(), "401") {
		failf("the token goes on without its file: %v", err)
	}

	// What the service manager cannot hand over ends the start, once.
	write(dir+"mcp.token", strings.Repeat("x", 2<<20), 0o600)
	n := restarts()
	if out, code := try("systemctl restart ze"); code == 0 {
		failf("it starts with a token of 2 MiB: %s", out)
	}
	same("state", property("ActiveState"), "failed")
	same("restarts", restarts(), n)
	sh("rm " + dir + "*; systemctl reset-failed ze.service ze.socket; systemctl start ze.socket ze")
	same("version", b.version(), oldVersion)
	return ""
}

// otherAddress: the socket and the settings are changed in the way that the
// documents describe; until both are, the journal says what is missing.
func (b *box) otherAddress() string {
	const restart = "systemctl stop ze.socket ze; systemctl start ze"
	b.atOtherAddress(restart)
	sh(restart)
	same("version", b.version(), oldVersion)
	return ""
}

func (b *box) atOtherAddress(restart string) {
	const address, warning = "127.0.0.1:8181", "nothing in the configuration answers on "
	there := client.Options{URL: "http://" + address + "/mcp"}
	defer set("ZE_MCP_LISTEN=" + address)()
	since := journal()
	sh("systemctl restart ze")
	same("version", b.versionAt(there), oldVersion)
	holds("journal", since(), warning+mcpAddress, restart)

	defer drop("Socket", "ListenStream=\nListenStream="+address+"\nListenStream=/run/ze/ze.sock")()
	since = journal()
	sh(restart)
	same("version", b.versionAt(there), oldVersion)
	if said := since(); strings.Contains(said, warning) {
		failf("a socket is of no use: %s", said)
	}
	if c, err := net.Dial("tcp", mcpAddress); err == nil {
		_ = c.Close()
		failf("somebody listens on %s", mcpAddress)
	}
	sh("systemctl stop ze") // a client starts it again, so it is the unit's socket
	same("version", b.versionAt(there), oldVersion)
}

// takenPort: while somebody else has MCP's port neither unit can have it, however
// often they try; afterwards both do.
func (b *box) takenPort() string {
	sh("systemctl stop ze.socket ze")
	l, err := net.Listen("tcp", mcpAddress)
	if err != nil {
		failf("%v", err)
	}
	defer l.Close()
	since := journal()
	if out, code := try("systemctl start ze"); code == 0 {
		failf("it starts: %s", out)
	}
	holds("systemctl status", quiet("systemctl status --no-pager ze"), "listen tcp "+mcpAddress+": bind: address already in use", "ZE_MCP_LISTEN")
	// A unit may have five attempts in ten seconds unless it says otherwise, and the
	// service makes the socket's as well.
	for range 11 {
		try("systemctl start ze.socket")
	}
	pid := property("ExecMainPID")
	soon("the end of another attempt", 10*time.Second, func() string {
		if property("ExecMainPID") == pid || property("SubState") != "auto-restart" {
			return "not yet"
		}
		return ""
	})
	_ = l.Close() // nobody was taken up
	back := soon("the service", 10*time.Second, running(-1))
	same("version", b.version(), oldVersion)
	same("states", quiet("systemctl is-active ze ze.socket"), "active\nactive")
	if strings.Contains(since(), "Start request repeated too quickly") {
		failf("a unit has given up: %s", since())
	}
	return fmt.Sprintf("back after %d ms", back.Milliseconds())
}
