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
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/appliance/task"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

// GCPercent is what a process that is nothing but the daemon sets the garbage
// collector to (GOGC; see runtime/debug.SetGCPercent). The live heap is small,
// some 5 MB, and nearly all that a call allocates dies with it: with Go's 100
// collecting is a tenth of the work of a busy daemon, with 200 half of that, for
// some 6 MB. More would cost more memory than it saves time.
const GCPercent = 200

// Options of an App. DataDir, Speaker and Version are required.
type Options struct {
	DataDir string // directory of the database
	// File and Text give the configuration from outside the store. File is its
	// name in messages; if it is empty the newest stored revision is used.
	File      string
	Text      []byte
	Overrides Overrides
	// Reread returns the file's text anew for a reload; nil if that is not possible.
	Reread  func() ([]byte, error)
	Control string // path of the control socket; empty: none
	// Listeners are sockets that the service manager listens on. One with the
	// address of a configured listener, or the path of Control, is served in its
	// place; the others are closed. Start takes them over.
	Listeners []net.Listener
	Speaker   []string // program and arguments that become the BGP speaker process
	Version   builtin.Version
	LogLevel  string // empty: the configuration decides
	Logger    zerolog.Logger
	Clock     func() time.Time // default time.Now

	// Private says of a file that it would be where nobody but this daemon's
	// service sees it; may be nil.
	Private func(file string) bool
	// Progress is told what New does when that may take long; may be nil.
	Progress func(step string)
	// Reloading is called when Reload begins, and what it returns, with how the
	// daemon is doing, when that is over; may be nil.
	Reloading func() (done func(status string))
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Private == nil {
		o.Private = func(string) bool { return false }
	}
	if o.Reloading == nil {
		o.Reloading = func() func(string) { return func(string) {} }
	}
	return o
}

// App is one daemon.
type App struct {
	o       Options
	log     zerolog.Logger
	level   atomic.Int32          // of the log; a zerolog.Level
	running atomic.Pointer[state] // the configuration in force

	store      *store.DB
	events     *event.Bus
	config     *config.Manager
	audit      *audit.Log
	auth       *access.Authenticator
	usage      *access.Usage
	limiter    *access.Limiter
	dispatcher *command.Dispatcher
	tasks      *task.Manager
	bgp        *bgp.Service
	speaker    *speaker.Client
	mcp        *mcp.Server
	metrics    *prometheus.Registry
	reloadings *reloadMetrics
	handed     *handed

	started time.Time
	undo    []step // what Stop and a failed New or Start run, last first
	failed  chan error

	reloading sync.Mutex     // held while the configuration changes
	stopping  atomic.Bool    // the doors close for good; set while reloading is held
	draining  sync.WaitGroup // doors that are closing

	mu      sync.Mutex // guards what follows
	doors   []*door    // open
	reloads builtin.ReloadStatus
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
	a := &App{o: o, failed: make(chan error, 8), events: newEvents(o.Clock), reloadings: newReloadMetrics(o.Clock), handed: newHanded(o.Listeners)}
	a.log = o.Logger.Sample(levelFilter{&a.level})
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
	if a.store, err = store.Open(store.Options{Dir: o.DataDir, Clock: o.Clock, Logger: a.log, Progress: o.Progress}); err != nil {
		return nil, err
	}
	a.onStop("store", func(context.Context) error { return a.store.Close() })

	if a.config, err = a.newConfig(a.apply); err != nil {
		return nil, err
	}
	first, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	level, err := a.logLevel(first.cfg)
	if err != nil {
		return nil, err
	}
	a.level.Store(int32(level))
	a.running.Store(first)

	a.audit = audit.NewLog(audit.Options{Store: a.store, Clock: o.Clock, Logger: a.log, Retention: first.cfg.retention()})
	a.usage = access.NewUsage(a.store, a.log)
	a.limiter = access.NewLimiter(first.cfg.limits(), o.Clock)
	auth, err := a.authOptions(first.cfg)
	if err != nil {
		return nil, err
	}
	if a.auth, err = access.NewAuthenticator(auth); err != nil {
		return nil, err
	}

	// The speaker asks the service what to run, the service tells the speaker
	// what changed: one of them has to hear of the other later.
	a.speaker = speaker.New(speaker.Options{
		Path: o.Speaker[0], Args: o.Speaker[1:], Env: speakerEnvironment(), Logger: a.log, Report: a.reported,
		Desired: func(ctx context.Context) (bgp.Config, []bgp.Path, error) { return a.bgp.Desired(ctx) },
	})
	a.bgp, err = bgp.NewService(bgp.Options{Store: a.store, Speaker: a.speaker, Clock: o.Clock, Logger: a.log})
	if err != nil {
		return nil, err
	}
	if err := a.bgp.Configure(ctx, first.cfg.BGP); err != nil {
		return nil, err
	}

	if err := a.wireCommands(storage{a.store, a.o.DataDir, a.o.Private}, nil); err != nil {
		return nil, err
	}
	a.tasks.SetLimits(first.cfg.Environment.Task.limits())
	a.mcp, err = mcp.New(mcp.Options{
		Dispatcher: a.dispatcher, Auth: mcpAuth{a.auth}, Limiter: a.limiter, Throttle: access.NewThrottle(o.Clock), Name: "ze", Version: o.Version.Version,
		Instructions: instructions, Assets: builtin.Assets(), Events: a.events, Tasks: a.tasks, Clock: o.Clock, Logger: a.log,
	})
	if err != nil {
		return nil, err
	}
	return a, a.wireMetrics()
}

// wireCommands registers the commands that want wants; nil: all.
func (a *App) wireCommands(keeper builtin.Store, want func(*schema.Command) bool) error {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		return fmt.Errorf("load the commands: %w", err)
	}
	every := command.NewRegistry()
	registry := every
	if want != nil {
		registry = command.NewRegistry()
	}
	a.dispatcher = command.NewDispatcher(command.Options{
		Registry: registry, Audit: a.audit, Clock: a.o.Clock, Logger: a.log,
	})
	a.tasks = task.New(task.Options{
		Store: a.store, Dispatcher: a.dispatcher, CanAnswer: mcp.CanAnswer, Events: a.events, Clock: a.o.Clock, Logger: a.log,
		Principal: func(ctx context.Context, owner string) (*access.Principal, error) { return a.auth.Owner(ctx, owner) },
	})
	commands, err := builtin.Commands(set, builtin.Deps{
		Registry: registry, Every: every, System: system{a}, BGP: a.bgp, Tokens: tokens{a.store, a.events, a.o.DataDir}, Usage: a.usage, Callers: callers{a}, Audit: a.audit, Config: a.config, Clock: a.o.Clock,
		Store: keeper, Blobs: storage{db: a.store}, Events: a.events, Tasks: a.tasks,
	})
	if err != nil {
		return err
	}
	registry.Surround(a.surroundings)
	if err := every.Register(commands...); err != nil {
		return err
	}
	if want != nil {
		commands = slices.DeleteFunc(commands, func(c *command.Command) bool { return !want(&c.Command) })
		if err := registry.Register(commands...); err != nil {
			return err
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
	a.onStop("sockets of the service manager", func(context.Context) error { _, err := a.handed.closeUnused(); return err })
	a.reloadings.inForce()
	a.audit.Start()
	a.onStop("audit log", a.audit.Stop)
	a.usage.Start()
	a.onStop("token usage", a.usage.Stop)
	if err := a.bgp.Start(ctx); err != nil {
		return err
	}
	a.onStop("bgp service", func(context.Context) error { a.bgp.Stop(); return nil })
	cfg := a.running.Load().cfg
	a.onStop("bgp speaker", a.speaker.Stop)
	if cfg.BGP != nil {
		if err := a.speaker.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if err := a.tasks.Start(ctx); err != nil {
		return err
	}
	a.onStop("tasks", a.tasks.Stop)
	doors, err := a.wantedDoors(cfg)
	if err != nil {
		return err
	}
	a.onStop("listeners", a.closeDoors)
	if err := a.openDoors(ctx, doors, nil); err != nil {
		return err
	}
	for _, d := range doors {
		a.serve(d)
	}
	if err := a.openControl(ctx); err != nil {
		return err
	}
	unused, err := a.handed.closeUnused()
	for _, address := range unused {
		a.warnUnused(address)
	}
	if err != nil {
		return fmt.Errorf("close a socket of the service manager: %w", err)
	}
	if !cfg.Environment.MCP.Enabled {
		a.log.Warn().Msg("MCP is off: the configuration has no enabled mcp block, and --mcp was not given")
	}
	for _, w := range cfg.Warnings {
		a.log.Warn().Msg(w)
	}
	a.config.Start(ctx)
	a.onStop("watch for unconfirmed commits", func(context.Context) error { a.config.Stop(); return nil })
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

// Source says where the configuration in force came from.
func (a *App) Source() string {
	r := a.running.Load()
	if r.revision == 0 {
		return r.source
	}
	return fmt.Sprintf("%s, revision %d", r.source, r.revision)
}

// Instance returns the name of this instance.
func (a *App) instance(ctx context.Context) (string, error) {
	if n := a.running.Load().cfg.Environment.Instance.Name; n != "" {
		return n, nil
	}
	m, err := a.store.Meta(ctx)
	return m.Instance, err
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
