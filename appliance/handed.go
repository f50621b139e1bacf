package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
)

// handed are sockets on which the service manager listens for the daemon. What
// arrives there while no daemon runs waits in the kernel for the next one. A door
// with the address of one is served from it; the socket itself is never closed
// by that, so a door can be closed and opened again.
type handed struct {
	mu      sync.Mutex
	sockets []*handedSocket
}

type handedSocket struct {
	l    net.Listener
	used int // by how many doors: one, and a second while that leaves
}

func newHanded(listeners []net.Listener) *handed {
	h := &handed{}
	for _, l := range listeners {
		h.sockets = append(h.sockets, &handedSocket{l: l})
	}
	return h
}

// has reports whether a socket with an address was handed over and is free.
func (h *handed) has(network, address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.free(network, address) != nil
}

func (h *handed) free(network, address string) *handedSocket {
	for _, s := range h.sockets {
		if s.used == 0 && s.is(network, address) {
			return s
		}
	}
	return nil
}

// listen returns the socket with an address if it was handed over and is free,
// and otherwise listens on a new one.
func (h *handed) listen(ctx context.Context, network, address string) (l net.Listener, fromManager bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.free(network, address)
	if s == nil {
		l, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return l, false, err
	}
	if l, err = h.lend(s); err != nil {
		return nil, false, fmt.Errorf("use the socket of the service manager: %w", err)
	}
	return l, true, nil
}

// again returns another listener on a socket that listen has returned.
func (h *handed) again(l net.Listener) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if lent, ok := l.(*lentListener); ok {
		return h.lend(lent.socket)
	}
	return duplicate(l)
}

// lend returns a listener on s that gives it back when it is closed.
func (h *handed) lend(s *handedSocket) (net.Listener, error) {
	l, err := duplicate(s.l)
	if err != nil {
		return nil, err
	}
	s.used++
	return &lentListener{Listener: l, socket: s, back: sync.OnceFunc(func() { h.giveBack(s) })}, nil
}

func (h *handed) giveBack(s *handedSocket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.used--
}

// closeUnused closes the sockets that no door uses, and returns their addresses.
func (h *handed) closeUnused() (closed []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var used []*handedSocket
	for _, s := range h.sockets {
		if s.used > 0 {
			used = append(used, s)
			continue
		}
		closed = append(closed, s.l.Addr().String())
		err = errors.Join(err, s.l.Close())
	}
	h.sockets = used
	return closed, err
}

// is reports whether a socket has an address, in whatever way that is written.
func (s *handedSocket) is(network, address string) bool {
	switch at := s.l.Addr().(type) {
	case *net.TCPAddr:
		want, err := netip.ParseAddrPort(address)
		ours := at.AddrPort()
		return err == nil && network == "tcp" && want == netip.AddrPortFrom(ours.Addr().Unmap(), ours.Port())
	case *net.UnixAddr:
		return network == "unix" && (at.Name == address || samePlace(at.Name, address))
	}
	return false
}

// samePlace reports whether two paths name one file, whatever symbolic links
// lead to its directory: /var/run is /run.
func samePlace(a, b string) bool {
	real := func(path string) string {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path
		}
		return filepath.Join(dir, filepath.Base(path))
	}
	return real(a) == real(b)
}

// duplicate returns l with a descriptor of its own: closing it leaves l open.
func duplicate(l net.Listener) (_ net.Listener, err error) {
	filer, ok := l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("%T has no descriptor", l)
	}
	f, err := filer.File()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return net.FileListener(f)
}

// lentListener is a door's use of a handed socket.
type lentListener struct {
	net.Listener
	socket *handedSocket
	back   func()
}

// Close implements net.Listener.
func (l *lentListener) Close() error {
	err := l.Listener.Close()
	l.back()
	return err
}

// warnUnused says that nobody answers at a socket of the service manager.
func (a *App) warnUnused(address string) {
	a.log.Warn().Str("address", address).Msgf("nothing in the configuration answers on %s, but the service manager listens there: "+
		"who connects waits in vain; take it out of the socket unit, as with: systemctl edit ze.socket, and then: systemctl stop ze.socket ze; systemctl start ze", address)
}
