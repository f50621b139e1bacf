package appliance

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/rest"
)

// maxConnections bounds the open connections of each listener.
const maxConnections = 1024

// openMCP serves MCP on every configured address, or on none if one fails.
func (a *App) openMCP(ctx context.Context) error {
	block := a.cfg.Environment.MCP
	if !block.Enabled {
		a.log.Warn().Msg("MCP is off: the configuration has no enabled mcp block, and --mcp was not given")
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", a.mcp)
	mux.HandleFunc("/", notFound("MCP is served at /mcp"))
	guard := &access.Guard{}
	return a.openAll(ctx, "mcp", block.Servers, guard.Wrap(mux))
}

// openMetrics serves metrics and health.
func (a *App) openMetrics(ctx context.Context) error {
	block := a.cfg.Environment.Metrics
	if !block.Enabled {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{ErrorLog: log.New(a.log, "", 0), Registry: a.metrics}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if _, err := a.store.Meta(ctx); err != nil {
			plain(w, http.StatusServiceUnavailable, "the store does not answer: "+err.Error())
			return
		}
		plain(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("/", notFound("here are /metrics, /healthz and /readyz"))
	guard := &access.Guard{}
	return a.openAll(ctx, "metrics", block.Servers, guard.Wrap(mux))
}

func (a *App) openAll(ctx context.Context, name string, servers []serverBlock, h http.Handler) error {
	listeners := make([]net.Listener, 0, len(servers))
	for _, s := range servers {
		l, err := listen(ctx, name, net.JoinHostPort(s.IP.String(), strconv.Itoa(int(s.Port))))
		if err != nil {
			for _, open := range listeners {
				err = errors.Join(err, open.Close())
			}
			return err
		}
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		a.serve(name, access.LimitListener(l, maxConnections), access.Server(h, log.New(a.log, "", 0)))
	}
	return nil
}

// connKey is where a request's context holds its connection.
type connKey struct{}

// openControl serves commands on the control socket. Whoever may open the
// socket is an operator: root, and the socket's group.
func (a *App) openControl(ctx context.Context) error {
	path := a.o.Control
	if path == "" {
		return nil
	}
	if err := removeStale(path); err != nil {
		return fmt.Errorf("prepare the control socket: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := restrictSocket(path); err != nil {
		return errors.Join(err, l.Close())
	}
	handler := rest.New(rest.Options{Dispatcher: a.dispatcher, Principal: peer, Surface: "cli", Logger: a.log})
	guard := &access.Guard{MaxBody: 16 << 20}
	server := access.Server(guard.Wrap(handler), log.New(a.log, "", 0))
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	a.serve("control", access.LimitListener(l, maxConnections), server)
	return nil
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
func peer(r *http.Request) (*access.Principal, error) {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = wrapped.NetConn()
	}
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("the connection is no unix socket")
	}
	return access.PeerPrincipal(unix)
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
