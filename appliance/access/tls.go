package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// TLS is a certificate and its key on disk. When the files are replaced the new
// pair is used from the next connection on; a pair that cannot be used leaves
// the one before in its place.
type TLS struct {
	cert, key string
	report    func(error) // may be nil

	mu      sync.Mutex
	pair    *tls.Certificate
	loaded  [2]fileState // of the files the pair came from
	refused [2]fileState // of those that could not be used
	checked time.Time
}

// fileState tells a file from the one that replaces it.
type fileState struct {
	modified time.Time
	inode    uint64
	size     int64
}

const tlsCheckEvery = time.Second

// NewTLS loads the certificate chain in the file cert and its private key in the
// file key, both PEM. Nobody but its owner may read the key.
func NewTLS(cert, key string) (*TLS, error) {
	t := &TLS{cert: cert, key: key, checked: time.Now()}
	state, err := t.stat()
	if err != nil {
		return nil, err
	}
	if t.pair, err = loadPair(cert, key); err != nil {
		return nil, err
	}
	t.loaded, t.refused = state, state
	return t, nil
}

// OnReload has fn told whenever the files have been replaced: nil, or why the
// new ones cannot be used. Call it before Config.
func (t *TLS) OnReload(fn func(error)) { t.report = fn }

// Config returns the settings of a server: TLS 1.2 and later, with the pair that
// is on disk at the time of each handshake.
func (t *TLS) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.current(), nil },
	}
}

// Names reports whether the certificate is for host, a name or an address, an
// IPv6 one in brackets. A web page can have its own name lead here, but no
// certificate for it.
func (t *TLS) Names(host string) bool { return t.current().Leaf.VerifyHostname(host) == nil }

// current returns the pair in use, after a look at the files.
func (t *TLS) current() *tls.Certificate {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.checked) < tlsCheckEvery {
		return t.pair
	}
	t.checked = now
	state, err := t.stat()
	if state == t.loaded || state == t.refused {
		return t.pair
	}
	pair := t.pair
	if err == nil {
		pair, err = loadPair(t.cert, t.key)
	}
	if err != nil {
		t.refused = state
	} else {
		t.pair, t.loaded, t.refused = pair, state, state
	}
	if t.report != nil {
		t.report(err)
	}
	return t.pair
}

func (t *TLS) stat() (state [2]fileState, err error) {
	for i, path := range []string{t.cert, t.key} {
		info, statErr := os.Stat(path)
		if statErr != nil {
			err = tlsError(path, statErr)
			continue // its state stays zero: a file that is missing is not one that was there
		}
		state[i] = fileState{modified: info.ModTime(), size: info.Size()}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			state[i].inode = s.Ino
		}
	}
	return state, err
}

func loadPair(cert, key string) (*tls.Certificate, error) {
	certPEM, err := readPEM(cert, false)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readPEM(key, true)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("use the certificate %s with the key %s: %w; both must be PEM, and belong together", cert, key, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("read the certificate %s: %w", cert, err)
		}
	}
	return &pair, nil
}

// readPEM reads a small file. What is checked is the file that is read, not one
// that stood there before.
func readPEM(path string, private bool) ([]byte, error) {
	const most = 1 << 20
	f, err := os.Open(path)
	if err != nil {
		return nil, tlsError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, tlsError(path, err)
	case !info.Mode().IsRegular():
		return nil, tlsError(path, &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid})
	case private && sharedFile(f, info):
		return nil, fmt.Errorf("the key file %s can be read or written by others (mode %04o); only its owner may: chmod 600 %s", path, info.Mode().Perm(), path)
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil, tlsError(path, err)
	}
	return b, nil
}

// sharedFile reports whether others than the owner, root and we may open a file.
// Where it has an access control list, as what the service manager hands out may
// have, the group's bits of its mode are only the list's upper bound (acl(5)).
func sharedFile(f *os.File, info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return false
	}
	// Version, and entries of tag, permissions and id: linux/posix_acl_xattr.h.
	const header, entry = 4, 8
	const userObj, user, mask = 1, 2, 16
	list := make([]byte, 1<<10)
	n, err := unix.Fgetxattr(int(f.Fd()), "system.posix_acl_access", list)
	if err != nil || n < header || binary.LittleEndian.Uint32(list) != 2 {
		return true
	}
	for e := range slices.Chunk(list[header:n], entry) {
		if len(e) < entry {
			return true
		}
		tag, may, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])
		ours := tag == userObj || tag == mask || tag == user && (id == 0 || int(id) == os.Geteuid())
		if may != 0 && !ours {
			return true
		}
	}
	return false
}

func tlsError(path string, err error) error {
	return fmt.Errorf("load TLS material: %w; %s must be a PEM file that the user of the daemon can read", err, path)
}
