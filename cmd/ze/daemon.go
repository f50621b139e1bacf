package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
	"ze.internal/ze/systemd"
)

// stopTime is how long a daemon that is told to stop may finish what it does:
// what the listeners may take, and some for what comes after them.
const stopTime = 15 * time.Second

func (c *cli) startCommand() *cobra.Command {
	var create bool
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the daemon from the configuration in its database",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.serve(cmd.Context(), service{create: create})
		},
	}
	c.startFlags(cmd)
	cmd.Flags().BoolVar(&create, "init", false, "on the first start create the database as ze init does, the admin token in the file admin.token beside it")
	return cmd
}

// service says how the daemon is to run.
type service struct {
	file   string // of the configuration; empty: the one in the database
	text   []byte // what is in it
	create bool   // create the database if there never was one
}

// serve runs the daemon until ctx ends or it fails.
func (c *cli) serve(ctx context.Context, s service) (err error) {
	defer func() {
		if err != nil {
			_, text := explain(err)
			systemd.Status(text)
		}
	}()
	overrides, err := c.overrides()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(appliance.GCPercent)
	}
	dir, _ := c.directory()
	log := c.logger()
	sockets, err := systemd.Listeners()
	if err != nil {
		log.Warn().Err(err).Msg("a socket of the service manager cannot be used")
	}
	options := appliance.Options{
		DataDir: dir, File: s.file, Text: s.text, Overrides: overrides, Control: c.controlSocket(), Listeners: sockets,
		LogLevel: c.level(), Logger: log, Private: systemd.Private,
		Progress: func(step string) { systemd.Extend(stepTime, step) },
		Reloading: func() func(string) {
			systemd.Reloading()
			return systemd.Ready
		},
	}
	if s.file != "-" {
		options.Reread = func() ([]byte, error) { return readFile(c.in, s.file) }
	}
	// From before the start on: a signal that comes too early must not end the daemon.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	app, err := startApp(ctx, options)
	if s.create && (errors.Is(err, store.ErrMissing) || errors.Is(err, config.ErrNoRevision)) {
		if err := c.firstStart(ctx, log, dir); err != nil {
			return err
		}
		app, err = startApp(ctx, options)
	}
	if err != nil {
		return err
	}
	status, err := app.Pulse(ctx)
	if err != nil {
		return errors.Join(err, stopApp(app))
	}
	logAddresses(log, app.Addresses())
	log.Info().Str("version", builtinVersion().Version).Str("configuration", app.Source()).Str("data", dir).
		Msgf("ze is ready: version %s, configuration: %s", builtinVersion().Version, app.Source())
	systemd.Ready(status)

	alive, rest := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { beat(alive, app.Pulse, log) })
	for running := true; running; {
		select {
		case <-hangup:
			_ = app.Reload(ctx) // logged, and kept for show reload-status
		case <-ctx.Done():
			log.Info().Msg("stopping")
			running = false
		case err = <-app.Failed():
			log.Error().Err(err).Msg("the daemon cannot go on")
			running = false
		}
	}
	rest()
	systemd.Stopping()
	err = errors.Join(err, stopApp(app))
	beating.Wait()
	return err
}

// firstStart creates the database in dir where nobody is there to be shown its
// admin token.
func (c *cli) firstStart(ctx context.Context, log zerolog.Logger, dir string) error {
	if _, err := initialize(ctx, initOptions{log: log, dir: dir, text: []byte(appliance.InitialConfig), tokenFile: true}); err != nil {
		return err
	}
	path, _ := appliance.TokenFile(dir)
	log.Info().Str("file", path).
		Msgf("first start: database created in %s; the admin token is in %s; once you have it, remove the file with: ze token remove-file", dir, path)
	return nil
}

// logAddresses says where the daemon answers: in words, and by name.
func logAddresses(log zerolog.Logger, listeners []builtin.Listener) {
	byName := map[string][]string{}
	var words []string
	for _, l := range listeners {
		byName[l.Name] = append(byName[l.Name], l.Address)
		words = append(words, l.Name+" "+l.Address)
	}
	event := log.Info()
	for name, addresses := range byName {
		event = event.Strs(name, addresses)
	}
	event.Msg("listening: " + strings.Join(words, ", "))
}

// How long the service manager waits for one step of the start, and how often it
// is told how the daemon is doing if it does not want to know more often.
const (
	stepTime  = 10 * time.Minute
	beatEvery = 15 * time.Second
)

// beat tells the service manager that the daemon is alive, as long as pulse says
// so, until ctx ends. While pulse hangs nothing is told.
func beat(ctx context.Context, pulse func(context.Context) (status string, err error), log zerolog.Logger) {
	if !systemd.Listening() {
		return
	}
	every := beatEvery
	if limit, err := systemd.Watchdog(); err != nil {
		log.Warn().Err(err).Msg("the watchdog is not fed")
	} else if limit > 0 {
		every = min(every, limit/3)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		status, err := pulse(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error().Err(err).Msg("the watchdog is not fed")
			systemd.Status(err.Error())
		default:
			systemd.Alive(status)
		}
	}
}

// startApp creates a daemon of this very program and starts it.
func startApp(ctx context.Context, o appliance.Options) (*appliance.App, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	o.Speaker, o.Version = []string{exe, speakerName}, builtinVersion()
	app, err := appliance.New(ctx, o)
	if err != nil {
		return nil, err
	}
	return app, app.Start(ctx)
}

func stopApp(app *appliance.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return app.Stop(ctx)
}

// speakerName is the hidden command that turns this program into the BGP
// speaker process.
const speakerName = "speaker"

func speakerCommand(io stdio) *cobra.Command {
	return &cobra.Command{
		Use: speakerName, Hidden: true, Args: noArguments,
		Short: "The BGP speaker process; started by the daemon, not by people",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The daemon adds time and fields of its own to what it reads here.
			log := zerolog.New(zerolog.ConsoleWriter{Out: io.err, NoColor: true, PartsExclude: []string{zerolog.TimestampFieldName}}).Level(zerolog.InfoLevel)
			// A signal to the whole process group must not end the speaker before
			// the daemon is done with it: it ends when its standard input does.
			return speaker.Serve(context.WithoutCancel(cmd.Context()), io.in, io.out, log)
		},
	}
}

// builtinVersion says what this program is, from what the Go tool recorded.
func builtinVersion() builtin.Version {
	v := builtin.Version{Version: version, GoVersion: runtime.Version(), MCPRevision: mcp.Revision}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	return v
}

// version is set by the packaging with -ldflags -X.
var version = "0.1.0-dev"

func (c *cli) level() string {
	if c.logLevel != "" {
		return c.logLevel
	}
	return c.env.logLevel
}

// logger writes to the journal when the service manager runs us, to people on a
// terminal, and as JSON to anything else.
func (c *cli) logger() zerolog.Logger {
	var w io.Writer = c.err
	if journal, ok := systemd.Journal(); ok {
		return journalLogger(journal)
	}
	if f, ok := c.err.(*os.File); ok && isTerminal(f) {
		w = zerolog.ConsoleWriter{Out: c.err, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}

// journalLogger writes entries that journalctl -t finds, as those on standard error.
func journalLogger(journal io.Writer) zerolog.Logger {
	return zerolog.New(journal).Level(zerolog.InfoLevel).With().Str("syslog_identifier", "ze").Timestamp().Logger()
}

// offlineLogger is for what runs without a daemon. The answer says what was
// done, so it warns, in lines as this program's own, unless a level is asked for.
func (c *cli) offlineLogger() (zerolog.Logger, error) {
	if name := c.level(); name != "" {
		level, err := zerolog.ParseLevel(name)
		return c.logger().Level(level), err
	}
	return zerolog.New(zerolog.ConsoleWriter{
		Out: c.err, NoColor: true, PartsOrder: []string{zerolog.LevelFieldName, zerolog.MessageFieldName},
		FormatLevel: func(any) string { return "ze: warning:" },
	}).Level(zerolog.WarnLevel), nil
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// readFile reads a configuration file; "-" is standard input.
func readFile(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("read the configuration from standard input: %w", err)
		}
		return text, nil
	}
	text, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return text, nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
