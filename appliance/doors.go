package appliance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/rest"
)

const (
	maxConnections = 1024             // open at a time, of each listener
	maxSocketPath  = 107              // octets (unix(7), sun_path without its end mark)
	drainTime      = 10 * time.Second // for requests in flight when a listener closes
)

// door is one listener and the server behind it.
type door struct {
	name   string         // mcp, metrics or control
	want   netip.AddrPort // where it was asked to listen; zero for the control socket
	tls    string         // files of its TLS key pair; "" without TLS
	socket net.Listener   // as the system knows it
	l      net.Listener   // what the server sees of it
	handed bool           // socket belongs to the service manager
	server *http.Server
	conns  *connections

	closing chan struct{} // closed when it begins to close
	done    chan struct{} // closed when nothing is accepted any more
}

// newDoor returns a door whose requests learn when it begins to close: those that
// only wait for something end by themselves then.
func newDoor(name string, server *http.Server) *door {
	d := &door{name: name, server: server, conns: newConnections(), closing: make(chan struct{}), done: make(chan struct{})}
	server.BaseContext = func(net.Listener) context.Context { return command.WithEnding(context.Background(), d.closing) }
	server.ConnState = d.conns.state
	return d
}

// wantedDoors returns the network doors of a configuration, not yet open.
func (a *App) wantedDoors(c *Configuration) ([]*door, error) {
	var out []*door
	add := func(name string, servers []serverBlock, h http.Handler) []*door {
		var added []*door
		for _, s := range servers {
			d := newDoor(name, access.Server(h, log.New(a.log, "", 0)))
			d.want = netip.AddrPortFrom(s.IP, s.Port)
			added = append(added, d)
		}
		out = append(out, added...)
		return added
	}
	if block := c.Environment.MCP; block.Enabled {
		pair, err := a.loadTLS(c)
		if err != nil {
			return nil, err
		}
		for _, d := range add("mcp", block.Servers, a.mcpHandler(pair)) {
			if pair != nil {
				d.tls, d.server.TLSConfig = block.TLS.Cert+"\x00"+block.TLS.Key, pair.Config()
			}
		}
	}
	if c.Environment.Metrics.Enabled {
		add("metrics", c.Environment.Metrics.Servers, a.metricsHandler())
	}
	return out, nil
}

// same reports whether an open door serves what a wanted one would. What is in
// the files of its key pair may differ: they are read anew by themselves.
func (d *door) same(o *door) bool {
	return d.name == o.name && d.want == o.want && d.tls == o.tls
}

// openDoors listens for every door, or for none. One at the address of a door
// that leaves takes its socket over, so that nobody finds the address closed.
func (a *App) openDoors(ctx context.Context, doors, leaving []*door) error {
	leaving = slices.Clone(leaving)
	for i, d := range doors {
		var err error
		if at := slices.IndexFunc(leaving, func(o *door) bool { return o.want == d.want }); at >= 0 {
			d.socket, err = a.handed.again(leaving[at].socket)
			d.handed = leaving[at].handed
			leaving = slices.Delete(leaving, at, at+1)
		} else {
			d.socket, d.handed, err = a.handed.listen(ctx, "tcp", d.want.String())
		}
		if err != nil {
			return errors.Join(a.whyClosed(d, err), closeListeners(doors[:i]))
		}
		d.l = access.LimitListener(d.socket, maxConnections)
		if d.tls != "" {
			d.l = tls.NewListener(d.l, d.server.TLSConfig)
		}
	}
	return nil
}

// whyClosed says why a door cannot open.
func (a *App) whyClosed(d *door, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		for _, o := range a.openedDoors() {
			if o.want.Port() == d.want.Port() {
				return fmt.Errorf("listen for %s: %w: the daemon itself listens on %s for %s, and cannot be at both; choose another port, or make the change while it is stopped",
					d.name, err, o.want, o.name)
			}
		}
	}
	return fmt.Errorf("listen for %s: %w; if another process has the port, choose one with environment/%[1]s/server in the configuration or ZE_%[3]s_LISTEN",
		d.name, err, strings.ToUpper(d.name))
}

func closeListeners(doors []*door) error {
	var errs []error
	for _, d := range doors {
		errs = append(errs, d.l.Close())
	}
	return errors.Join(errs...)
}

// serve answers at a door until it is closed.
func (a *App) serve(d *door) {
	a.mu.Lock()
	a.doors = append(a.doors, d)
	a.mu.Unlock()
	go func() {
		defer close(d.done)
		err := d.server.Serve(d.l)
		select {
		case <-d.closing:
		default:
			a.fail(fmt.Errorf("serve %s: %w", d.name, err))
		}
	}()
}

// closeDoor stops accepting, lets what was accepted come to rest until ctx ends,
// and closes it. A socket of the service manager goes on listening: who comes now
// is answered by the next daemon.
func (a *App) closeDoor(ctx context.Context, d *door) error {
	a.mu.Lock()
	a.doors = slices.DeleteFunc(a.doors, func(o *door) bool { return o == d })
	a.mu.Unlock()
	close(d.closing)
	err := d.l.Close()
	<-d.done // now the server knows of every connection that was accepted
	d.conns.drain(ctx)
	if late := d.server.Shutdown(ctx); late != nil {
		err = errors.Join(err, late, d.server.Close()) // out of time: cut off what is left
	}
	if err != nil {
		return fmt.Errorf("close the %s listener: %w", d.name, err)
	}
	return nil
}

// closeDoors closes every door for good, all at once, and leaves time for what is
// to be stopped after them. What is not answered by then is cut off.
func (a *App) closeDoors(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	a.reloading.Lock() // whatever is being applied comes first, and nothing after it
	a.stopping.Store(true)
	a.reloading.Unlock()
	open := a.openedDoors()
	errs := make(chan error, len(open))
	for _, d := range open {
		go func() { errs <- a.closeDoor(ctx, d) }()
	}
	for range open {
		if err := <-errs; err != nil {
			a.log.Warn().Err(err).Msg("some requests were cut off")
		}
	}
	a.draining.Wait()
	return nil
}

func (a *App) openedDoors() []*door {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.doors)
}

// Addresses returns where the daemon answers, by name: mcp, metrics, control.
func (a *App) Addresses() []builtin.Listener {
	var out []builtin.Listener
	for _, d := range a.openedDoors() {
		out = append(out, builtin.Listener{Name: d.name, Address: d.l.Addr().String()})
	}
	return out
}

func (a *App) mcpHandler(pair *access.TLS) http.Handler {
	elsewhere := notFound("MCP is served at /mcp")
	door := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			elsewhere(w, r)
			return
		}
		a.mcp.ServeHTTP(w, r)
	})
	guard := &access.Guard{Refused: func(r *http.Request) {
		a.dispatcher.Refused(command.Call{Surface: "mcp", Remote: r.RemoteAddr}, "forbidden")
	}}
	if pair != nil {
		guard.Names = pair.Names
	}
	return lastAnswers(guard.Wrap(door))
}

func (a *App) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{ErrorLog: log.New(a.log, "", 0), Registry: a.metrics}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		if reasons := a.unready(ctx); len(reasons) > 0 {
			plain(w, http.StatusServiceUnavailable, strings.Join(reasons, "\n"))
			return
		}
		plain(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("/", notFound("here are /metrics, /healthz and /readyz"))
	return lastAnswers((&access.Guard{}).Wrap(mux))
}

// openControl serves commands on the control socket. Whoever may open the
// socket is an operator: root, and the socket's group.
func (a *App) openControl(ctx context.Context) error {
	path := a.o.Control
	if path == "" {
		return nil
	}
	if len(path) > maxSocketPath {
		return config.Problems{{File: "control socket", Message: fmt.Sprintf("the path %s has %d octets", path, len(path)),
			Allowed: fmt.Sprintf("at most %d; name another with --socket", maxSocketPath)}}
	}
	l, handed, err := a.listenControl(ctx, path)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", rest.New(rest.Options{Dispatcher: a.dispatcher, Principal: peer, Surface: "cli", Logger: a.log}))
	mux.Handle("/mcp", a.mcp)
	guard := &access.Guard{MaxBody: 24 << 20, Refused: func(r *http.Request) {
		a.dispatcher.Refused(command.Call{Surface: "cli", Remote: r.RemoteAddr}, "forbidden")
	}}
	server := access.Server(lastAnswers(guard.Wrap(mux)), log.New(a.log, "", 0))
	d := newDoor("control", server)
	d.socket, d.l, d.handed = l, access.LimitListener(l, maxConnections), handed
	a.serve(d)
	return nil
}

// listenControl listens on the control socket. One that was handed over has the
// owner and mode that its unit gives it.
func (a *App) listenControl(ctx context.Context, path string) (net.Listener, bool, error) {
	if !a.handed.has("unix", path) {
		if err := removeStale(path); err != nil {
			return nil, false, fmt.Errorf("prepare the control socket: %w", err)
		}
	}
	l, handed, err := a.handed.listen(ctx, "unix", path)
	if err != nil {
		return nil, false, fmt.Errorf("listen on the control socket: %w", err)
	}
	if !handed {
		if err := restrictSocket(path); err != nil {
			return nil, false, errors.Join(err, l.Close())
		}
	}
	return l, handed, nil
}

// removeStale removes a socket that nobody listens on. The store's lock is held,
// so a live one belongs to a daemon with another database.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.MkdirAll(filepath.Dir(path), 0o750)
	case err != nil:
		return err
	case info.Mode().Type() != os.ModeSocket:
		return fmt.Errorf("%s is there already and is no socket; name another place with --socket", path)
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s: another daemon answers there; give this one its own with --socket", path), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}

// restrictSocket lets the owner and group ze, where there is one, open the socket.
func restrictSocket(path string) error {
	if g, err := user.LookupGroup("ze"); err == nil && os.Geteuid() == 0 {
		gid, err := strconv.Atoi(g.Gid)
		if err == nil {
			err = os.Chown(path, -1, gid)
		}
		if err != nil {
			return fmt.Errorf("give the control socket to group ze: %w", err)
		}
	}
	return os.Chmod(path, 0o660)
}

// peer returns the local user at the other end of the control socket.
func peer(r *http.Request) (*access.Principal, error) { return peerIn(r.Context()) }

func peerIn(ctx context.Context) (*access.Principal, error) {
	unix, ok := access.Connection[*net.UnixConn](ctx)
	if !ok {
		return nil, errors.New("the connection is no unix socket")
	}
	return access.PeerPrincipal(unix)
}

// mcpAuth tells who calls over MCP: the local user on the control socket, the
// bearer of a token everywhere else.
type mcpAuth struct{ bearers *access.Authenticator }

// Authenticate implements mcp.Authenticator.
func (c mcpAuth) Authenticate(ctx context.Context, header string) (*access.Principal, error) {
	if _, ok := access.Connection[*net.UnixConn](ctx); ok {
		return peerIn(ctx)
	}
	return c.bearers.Authenticate(ctx, header)
}

func notFound(hint string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, "{\"error\":%q}\n", "not found; "+hint) // the hint is plain ASCII, so Go's quoting is JSON's
	}
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text) // the caller has gone if this fails
}
