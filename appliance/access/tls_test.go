package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writePair makes a key pair for names, with a serial number to tell it by.
func writePair(t *testing.T, cert, key string, serial int64, names ...string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("2001:db8::1")},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		// As tools do it: a new file takes the place of the old.
		tmp := path + ".new"
		if err := os.WriteFile(tmp, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, path); err != nil {
			t.Fatal(err)
		}
	}
}

// shake makes a handshake and returns the serial number of the server's
// certificate.
func shake(t *testing.T, c *tls.Config, client *tls.Config) (int64, error) {
	t.Helper()
	a, b := net.Pipe()
	server, end := tls.Server(a, c), make(chan error, 1)
	go func() { end <- server.Handshake() }()
	client.InsecureSkipVerify = true
	conn := tls.Client(b, client)
	err := conn.Handshake()
	if err == nil {
		err = <-end
	}
	a.Close()
	b.Close()
	if err != nil {
		return 0, err
	}
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1, "ze.example")
	pair, err := NewTLS(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	var reports []error
	pair.OnReload(func(err error) { reports = append(reports, err) })
	c := pair.Config()
	serves := func(want int64) {
		t.Helper()
		pair.checked = time.Time{} // as if a second had passed
		if got, err := shake(t, c, &tls.Config{}); err != nil || got != want {
			t.Errorf("certificate %d, want %d: %v", got, want, err)
		}
	}
	reported := func(want ...string) {
		t.Helper()
		ok := len(reports) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = want[i] == "" && reports[i] == nil || want[i] != "" && reports[i] != nil && strings.Contains(reports[i].Error(), want[i])
		}
		if !ok {
			t.Errorf("reported %q, want %q", reports, want)
		}
		reports = nil
	}
	serves(1)
	reported()
	for host, want := range map[string]bool{"ze.example": true, "127.0.0.1": true, "[2001:db8::1]": true, "evil.example": false, "127.0.0.2": false, "": false} {
		if pair.Names(host) != want {
			t.Errorf("the certificate is for %q: %v", host, !want)
		}
	}
	if _, err := shake(t, c, &tls.Config{MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}

	writePair(t, cert, key, 2)
	if got, _ := shake(t, c, &tls.Config{}); got != 1 {
		t.Errorf("the files were looked at again within a second")
	}
	serves(2)
	reported("")
	serves(2)
	reported()

	// What cannot be used leaves the pair before, and is said once.
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves(2)
	serves(2)
	reported(cert)
	if err := os.Chmod(key, 0o640); err != nil {
		t.Fatal(err)
	}
	writePair(t, cert, filepath.Join(dir, "another.pem"), 3) // a key that does not belong to it
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	serves(2)
	reported("belong together")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	serves(2)
	reported(key)
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	serves(2)
	serves(2)
	reported(key)
	writePair(t, cert, key, 4)
	serves(4)
	reported("")
}

func TestTLSFilesAreExplained(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1)
	open := filepath.Join(dir, "open.pem")
	text, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, text, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.pem")
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644} {
		if err := os.Chmod(open, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := NewTLS(cert, open); err == nil || !strings.Contains(err.Error(), "chmod 600 "+open) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for _, files := range [][2]string{{missing, key}, {cert, missing}, {dir, key}, {cert, dir}, {key, key}, {cert, cert}} {
		_, err := NewTLS(files[0], files[1])
		if err == nil || !strings.Contains(err.Error(), files[0]) && !strings.Contains(err.Error(), files[1]) {
			t.Errorf("%v: %v", files, err)
		}
	}
}

// TestTLSKeyWithAccessList: what the service manager hands out may be readable for
// us by an access control list, which shows in the group's bits.
func TestTLSKeyWithAccessList(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePair(t, cert, key, 1)
	const userObj, user, groupObj, group, mask, other = 1, 2, 4, 8, 16, 32
	const read, nobody = 4, 65534
	self := uint32(os.Geteuid())
	for _, c := range []struct {
		what    string
		entries [][3]uint32 // tag, permissions, id
		private bool
	}{
		{"for us", [][3]uint32{{userObj, read, ^uint32(0)}, {user, read, self}, {groupObj, 0, ^uint32(0)}, {mask, read, ^uint32(0)}, {other, 0, ^uint32(0)}}, true},
		{"for another user", [][3]uint32{{userObj, read, ^uint32(0)}, {user, read, nobody}, {groupObj, 0, ^uint32(0)}, {mask, read, ^uint32(0)}, {other, 0, ^uint32(0)}}, false},
		{"for its group", [][3]uint32{{userObj, read, ^uint32(0)}, {user, read, self}, {groupObj, read, ^uint32(0)}, {mask, read, ^uint32(0)}, {other, 0, ^uint32(0)}}, false},
		{"for another group", [][3]uint32{{userObj, read, ^uint32(0)}, {groupObj, 0, ^uint32(0)}, {group, read, nobody}, {mask, read, ^uint32(0)}, {other, 0, ^uint32(0)}}, false},
		{"for everybody", [][3]uint32{{userObj, read, ^uint32(0)}, {user, read, self}, {groupObj, 0, ^uint32(0)}, {mask, read, ^uint32(0)}, {other, read, ^uint32(0)}}, false},
	} {
		list := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range c.entries {
			list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
			list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
			list = binary.LittleEndian.AppendUint32(list, e[2])
		}
		if err := unix.Setxattr(key, "system.posix_acl_access", list, 0); err != nil {
			t.Fatalf("the file system of %s must have access control lists: %v", dir, err)
		}
		if _, err := NewTLS(cert, key); (err == nil) != c.private {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
