// Package appliance is the daemon as a value: New wires the rooms together in
// one straight function, Start opens the doors, Stop closes them. It owns the
// order in which parts start and stop, and the configuration in force. It must
// not know flags, signals or exit codes, and nothing in it is global: two
// daemons run in one process.
package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

// Options of an App. DataDir, Speaker and Version are required.
type Options struct {
	DataDir string // directory of the database
	// File and Text give the configuration from outside the store. File is its
	// name in messages; if it is empty the newest stored revision is used.
	File      string
	Text      []byte
	Overrides Overrides
	Control   string   // path of the control socket; empty: none
	Speaker   []string // program and arguments that become the BGP speaker process
	Version   builtin.Version
	LogLevel  string // empty: the configuration decides
	Logger    zerolog.Logger
	Clock     func() time.Time // default time.Now
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

// App is one daemon.
type App struct {
	o        Options
	log      zerolog.Logger
	cfg      *Configuration
	revision uint64 // of the configuration in the store; 0 when it came from a file

	store      *store.DB
	audit      *audit.Log
	auth       *access.Authenticator
	dispatcher *command.Dispatcher
	bgp        *bgp.Service
	speaker    *speaker.Client
	mcp        *mcp.Server
	metrics    *prometheus.Registry

	started time.Time
	undo    []step // what Stop and a failed New or Start run, last first
	failed  chan error

	mu        sync.Mutex
	listeners []builtin.Listener
}

// step undoes one thing that was built or started.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// New opens the store, loads and checks the configuration and wires the parts.
// Nothing listens and no process runs until Start. The errors of the store keep
// their kind; a configuration that is refused is config.Problems.
func New(ctx context.Context, o Options) (_ *App, err error) {
	o = o.withDefaults()
	a := &App{o: o, log: o.Logger, failed: make(chan error, 8)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.rollback(ctx))
		}
	}()

	if o.File != "" {
		// A text that is wrong anyhow is refused before the store is touched.
		if _, err := LoadConfiguration(o.File, o.Text, o.Overrides, -1); err != nil {
			return nil, err
		}
	}
	if a.store, err = store.Open(store.Options{Dir: o.DataDir, Clock: o.Clock, Logger: a.log}); err != nil {
		return nil, err
	}
	a.onStop("store", func(context.Context) error { return a.store.Close() })

	file, text, err := a.configurationText(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := a.store.Tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the tokens: %w", err)
	}
	if a.cfg, err = LoadConfiguration(file, text, o.Overrides, len(tokens)); err != nil {
		return nil, err
	}
	if err := a.setLogLevel(); err != nil {
		return nil, err
	}

	a.audit = audit.NewLog(audit.Options{Store: a.store, Clock: o.Clock, Logger: a.log})
	settings, err := a.cfg.authSettings(o.Overrides)
	if err != nil {
		return nil, err
	}
	a.auth, err = access.NewAuthenticator(access.AuthOptions{
		Mode: a.cfg.Environment.MCP.AuthMode, Static: settings, Store: a.store, Clock: o.Clock,
	})
	if err != nil {
		return nil, err
	}

	// The speaker asks the service what to run, the service tells the speaker
	// what changed: one of them has to hear of the other later.
	a.speaker = speaker.New(speaker.Options{
		Path: o.Speaker[0], Args: o.Speaker[1:], Env: speakerEnvironment(), Logger: a.log,
		Desired: func(ctx context.Context) (bgp.Config, []bgp.Path, error) { return a.bgp.Desired(ctx) },
	})
	a.bgp, err = bgp.NewService(bgp.Options{Store: a.store, Speaker: a.speaker, Clock: o.Clock, Logger: a.log})
	if err != nil {
		return nil, err
	}
	if err := a.bgp.Configure(ctx, a.cfg.BGP); err != nil {
		return nil, err
	}

	if err := a.wireCommands(func(*schema.Command) bool { return true }); err != nil {
		return nil, err
	}
	a.mcp, err = mcp.New(mcp.Options{
		Dispatcher: a.dispatcher, Auth: a.auth, Name: "ze", Version: o.Version.Version,
		Instructions: instructions, Clock: o.Clock, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	return a, a.wireMetrics()
}

// instructions tell a model how to begin.
const instructions = `ze controls a BGP speaker and the appliance it runs on. ` +
	`Call ze_reference once to learn every command with its parameters and examples. ` +
	`Prefer the typed tools; ze_execute runs any command line, for example "show bgp". ` +
	`Look before you change: ze_show_bgp shows peers and their state, ze_show_bgp_rib what is received and sent. ` +
	`After ze_announce verify with ze_show_bgp_rib (action sent); ze_withdraw takes it back by prefixes, id or tag. ` +
	`A failed call says which field is wrong, what is allowed and what to do next.`

// wireCommands registers the commands that want wants.
func (a *App) wireCommands(want func(*schema.Command) bool) error {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		return fmt.Errorf("load the commands: %w", err)
	}
	registry := command.NewRegistry()
	commands, err := builtin.Commands(set, builtin.Deps{
		Registry: registry, System: system{a}, BGP: a.bgp, Tokens: a.store, Config: revisions{a}, Clock: a.o.Clock,
	})
	if err != nil {
		return err
	}
	commands = slices.DeleteFunc(commands, func(c *command.Command) bool { return !want(&c.Command) })
	if err := registry.Register(commands...); err != nil {
		return err
	}
	a.dispatcher = command.NewDispatcher(command.Options{
		Registry: registry, Audit: a.audit, Clock: a.o.Clock, Logger: a.log,
	})
	return nil
}

func (a *App) wireMetrics() error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ze_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": a.o.Version.Version, "revision": a.o.Version.Revision, "goversion": a.o.Version.GoVersion},
	})
	build.Set(1)
	a.metrics = prometheus.NewRegistry()
	all := slices.Concat([]prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, a.store.Collectors(), a.audit.Collectors(), a.auth.Collectors(), a.dispatcher.Collectors(),
		a.bgp.Collectors(), a.speaker.Collectors(), a.mcp.Collectors())
	for _, c := range all {
		if err := a.metrics.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// Start opens the doors. When it returns nil the daemon answers; when it fails
// nothing of it runs.
func (a *App) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.rollback(ctx))
		}
	}()
	a.started = a.o.Clock()
	a.audit.Start()
	a.onStop("audit log", a.audit.Stop)
	if err := a.bgp.Start(ctx); err != nil {
		return err
	}
	a.onStop("bgp service", func(context.Context) error { a.bgp.Stop(); return nil })
	if a.cfg.BGP != nil {
		if err := a.speaker.Start(ctx); err != nil {
			return err
		}
		a.onStop("bgp speaker", a.speaker.Stop)
	}
	if err := a.openControl(ctx); err != nil {
		return err
	}
	if err := a.openMetrics(ctx); err != nil {
		return err
	}
	if err := a.openMCP(ctx); err != nil {
		return err
	}
	for _, w := range a.cfg.Warnings {
		a.log.Warn().Msg(w)
	}
	go a.watchStore()
	return nil
}

// watchStore reports a storage failure: after one the daemon must end.
func (a *App) watchStore() {
	<-a.store.Failed()
	a.fail(store.ErrFailed)
}

// Stop closes the doors, lets what is running finish until ctx ends, and
// releases everything. It names the parts that did not stop well.
func (a *App) Stop(ctx context.Context) error { return a.rollback(ctx) }

// Failed delivers errors after which the daemon cannot go on.
func (a *App) Failed() <-chan error { return a.failed }

func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default: // somebody has been told already
	}
}

func (a *App) onStop(name string, run func(ctx context.Context) error) {
	a.undo = append(a.undo, step{name, run})
}

func (a *App) rollback(ctx context.Context) error {
	var errs []error
	for _, s := range slices.Backward(a.undo) {
		if err := s.run(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the %s: %w", s.name, err))
		}
	}
	a.undo = nil
	return errors.Join(errs...)
}

// Addresses returns where the daemon answers, by name: mcp, metrics, control.
func (a *App) Addresses() []builtin.Listener {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.listeners)
}

// Source says where the configuration in force came from.
func (a *App) Source() string {
	if a.o.File != "" {
		return a.o.File
	}
	return fmt.Sprintf("store, revision %d", a.revision)
}

// Instance returns the name of this instance.
func (a *App) instance(ctx context.Context) (string, error) {
	if n := a.cfg.Environment.Instance.Name; n != "" {
		return n, nil
	}
	m, err := a.store.Meta(ctx)
	return m.Instance, err
}

func (a *App) setLogLevel() error {
	level := a.o.LogLevel
	if level == "" {
		level = a.cfg.Environment.Log.Level
	}
	if level == "" {
		return nil
	}
	l, err := zerolog.ParseLevel(level)
	if err != nil {
		return fmt.Errorf("log level %q: allowed are trace, debug, info, warn and error", level)
	}
	a.log = a.log.Level(l)
	return nil
}

// speakerEnvironment is all the speaker process is told: nothing that could
// carry a secret.
func speakerEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOTRACEBACK", "GOMAXPROCS", "GODEBUG"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// listen opens a TCP listener and explains a failure.
func listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w; another process may use the port, and another port can be configured", what, err)
	}
	return l, nil
}

// serve runs an HTTP server on l until Stop.
func (a *App) serve(name string, l net.Listener, server *http.Server) {
	a.mu.Lock()
	a.listeners = append(a.listeners, builtin.Listener{Name: name, Address: l.Addr().String()})
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve %s: %w", name, err))
		}
	}()
	a.onStop(name+" listener", func(ctx context.Context) error {
		err := server.Shutdown(ctx)
		if err != nil {
			err = errors.Join(err, server.Close()) // out of time: cut off what is left
		}
		<-done
		return err
	})
}

// removeStale removes a socket that nobody listens on. The store's lock is held,
// so a live one belongs to a daemon with another database.
func removeStale(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(filepath.Dir(path), 0o750)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("control socket %s: another daemon answers there; give this one its own with --socket", path), c.Close())
	}
	return os.Remove(path)
}
