package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/cmd/ze-test/conformance"
)

// stopTime is how long requests under way may take when the server ends.
const stopTime = 5 * time.Second

func conformanceCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "conformance-server",
		Short: "Serve what the official MCP conformance suite calls",
		Long: `Serve the tools, prompts and resources that the official MCP conformance suite
calls, on the MCP server that the daemon has. Everybody is let in, so it listens
on loopback only. It prints its URL and serves until it is interrupted:

  ze-test conformance-server --listen 127.0.0.1:3000 &
  npx @modelcontextprotocol/conformance@0.2.0-alpha.12 server \
      --url http://127.0.0.1:3000/mcp --requirements 2026-07-28`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := netip.ParseAddrPort(listen)
			if err != nil || !at.Addr().IsLoopback() {
				return usagef("--listen %q: not allowed; allowed: ADDRESS:PORT of loopback, as 127.0.0.1:3000", listen)
			}
			return serveConformance(cmd, at)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "where to serve; port 0 lets the system choose")
	return cmd
}

func serveConformance(cmd *cobra.Command, at netip.AddrPort) (err error) {
	ctx := cmd.Context()
	log := zerolog.New(cmd.ErrOrStderr()).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	s, err := conformance.New(context.WithoutCancel(ctx), conformance.Options{Logger: log, Version: "1"})
	if err != nil {
		return fmt.Errorf("start the fixtures: %w", err)
	}
	stop := func() error {
		end, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return s.Close(end)
	}
	defer func() { err = errors.Join(err, stop()) }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	server := access.Server(s, nil)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Fprintf(cmd.OutOrStdout(), "http://%s/mcp\n", l.Addr())
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if server.Shutdown(end) != nil { // streams last as long as their listeners
		err = server.Close()
	}
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}
