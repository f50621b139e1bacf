// Command ze-mcp is the MCP server for hosts that start their servers as child
// processes: it passes everything to the daemon, over the control socket or to
// a URL. This package reads the command line and the settings and reaches the
// daemon; what goes over the pipes is in package mcp/stdio.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"ze.internal/ze/mcp/stdio"
	"ze.internal/ze/packaging/manual"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// version is set by the packaging with -ldflags -X.
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, streams{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:], os.Environ())
	stop()
	os.Exit(code)
}

// streams are the pipes to the host, and where people read.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

var errUsage = errors.New("see: ze-mcp --help")

// run executes one command line and returns the exit code.
func run(ctx context.Context, s streams, args, environment []string) int {
	var o options
	var isVersion bool
	cmd := &cobra.Command{
		Use:   "ze-mcp",
		Short: "The MCP server of ze for hosts that speak over standard input and output",
		Long:  help,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return fmt.Errorf("%w; %w", err, errUsage)
			}
			return nil
		},
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isVersion {
				_, err := fmt.Fprintln(s.out, "ze-mcp "+version)
				return err
			}
			log := zerolog.New(s.err).With().Timestamp().Logger()
			up, err := newUpstream(o.orFrom(environment), log)
			if err != nil {
				return fmt.Errorf("%w; %w", err, errUsage)
			}
			return stdio.Serve(cmd.Context(), stdio.Options{In: s.in, Out: s.out, Upstream: up, Name: "ze-mcp", Version: version, Logger: log})
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; %w", err, errUsage) })
	f := cmd.Flags()
	f.StringVar(&o.socket, "socket", "", "control socket of the daemon")
	f.StringVar(&o.data, "data", "", "directory of the daemon's database, which has the socket in it")
	f.StringVar(&o.url, "url", "", "where the daemon serves MCP, instead of the socket")
	f.BoolVar(&isVersion, "version", false, "print the version")
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(manual.Command(cmd, version, nil))
	cmd.SetArgs(args)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(s.err, "ze-mcp: "+err.Error())
		if errors.Is(err, errUsage) {
			return exitUsage
		}
		return exitFailed
	}
	return exitOK
}

const help = `ze-mcp gives an MCP host that starts its servers as child processes every tool,
resource and prompt of a ze daemon. It speaks MCP revision 2026-07-28, and
2025-11-25, 2025-06-18 and 2025-03-26 with a handshake. Hosts start it; by hand:

  claude mcp add ze -- ze-mcp            register it with Claude Code
  {"mcpServers": {"ze": {"command": "ze-mcp"}}}
                                         what most other hosts have in a file

It reaches the daemon on this machine over the control socket, as a member of
group ze or as root, and another one over HTTP with a token:

  ZE_CONTROL_SOCKET   the control socket, if it is not in its usual place
  ZE_DATA_DIR         the directory of a database that has the socket in it
  ZE_MCP_URL          where a daemon serves MCP, as http://127.0.0.1:8080/mcp
  ZE_TOKEN            a token for that, from: ze token create NAME

  {"mcpServers": {"ze": {"command": "ze-mcp",
    "env": {"ZE_MCP_URL": "http://127.0.0.1:8080/mcp", "ZE_TOKEN": "..."}}}}

It starts without the daemon too; each answer then says what to do. Standard
output carries nothing but messages, standard error is for people.`
