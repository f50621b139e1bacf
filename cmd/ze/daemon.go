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
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/bgp/speaker"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/mcp"
	"ze.internal/ze/systemd"
)

// stopTime is how long a daemon that is told to stop may finish what it does.
const stopTime = 10 * time.Second

func (c *cli) startCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the daemon from the configuration in its database",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.serve(cmd.Context(), "", nil) },
	}
	c.startFlags(cmd)
	return cmd
}

// serve runs the daemon until ctx ends or it fails. file and text give the
// configuration; an empty file means the one in the database.
func (c *cli) serve(ctx context.Context, file string, text []byte) error {
	overrides, err := c.overrides()
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(appliance.GCPercent)
	}
	dir, _ := c.directory()
	log := c.logger()
	options := appliance.Options{
		DataDir: dir, File: file, Text: text, Overrides: overrides, Control: c.controlSocket(),
		LogLevel: c.level(), Logger: log,
	}
	if file != "-" {
		options.Reread = func() ([]byte, error) { return readFile(c.in, file) }
	}
	// From before the start on: a signal that comes too early must not end the daemon.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	app, err := startApp(ctx, options)
	if err != nil {
		return err
	}
	for _, l := range app.Addresses() {
		log.Info().Str("name", l.Name).Str("address", l.Address).Msg("listening")
	}
	log.Info().Str("version", builtinVersion().Version).Str("configuration", app.Source()).Str("data", dir).Msg("ze is ready")
	systemd.Ready("ready; configuration from " + app.Source())
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
	systemd.Stopping()
	return errors.Join(err, stopApp(app))
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
		w = journal
	} else if f, ok := c.err.(*os.File); ok && isTerminal(f) {
		w = zerolog.ConsoleWriter{Out: c.err, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(zerolog.InfoLevel).With().Timestamp().Logger()
}

// offlineLogger is for what runs without a daemon. The answer says what was
// done, so it warns, in lines as this program's own, unless a level is asked for.
func (c *cli) offlineLogger() (zerolog.Logger, error) {
	if name := c.level(); name != "" {
		level, err := zerolog.ParseLevel(name)
		if err != nil {
			return zerolog.Nop(), usagef("log level %q: allowed are trace, debug, info, warn and error", name)
		}
		return c.logger().Level(level), nil
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
