// Command ze-test tests an MCP server from outside, as its callers see it: with
// scripts of directives, with load, and by serving what the official conformance
// suite calls. This package reads the command line, the scripts and prints what
// came of them; the wire is package mcp/client's.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ze.internal/ze/packaging/manual"
)

// version is set by the packaging with -ldflags -X.
var version = "0.1.0-dev"

// Exit codes.
const (
	exitFailed = 1 // a directive or a request did not pass
	exitUsage  = 2 // the command line or the script is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := &cobra.Command{
		Use:   "ze-test",
		Short: "Test an MCP server from outside",
		Long: `Test an MCP server from outside.

Exit codes: 0 everything passed, 1 something did not, 2 the command line or the script is wrong.`,
		Args:          noArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Usage() // the error below says what is wrong
			return usagef("no command given")
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see: %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(mcpCommand(), loadCommand(), conformanceCommand(), manual.Command(root, version, nil))
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(errs, "ze-test: "+err.Error())
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// usageError says that the command line or the script is wrong.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument %q; see: %[1]s --help", cmd.CommandPath(), args[0])
	}
	return nil
}

// target is the server under test.
type target struct {
	port    uint16
	address string // a URL
	token   string
	ca      string // file
}

func (t *target) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Uint16Var(&t.port, "port", 0, "the server's port on 127.0.0.1")
	f.StringVar(&t.address, "url", "", "the server's URL, instead of --port")
	f.StringVar(&t.token, "token", "", "bearer token; visible in the process list, so rather set ZE_TOKEN")
	f.StringVar(&t.ca, "ca", "", "file with the certificates that the server's must come from (PEM)")
}

// complete fills in what the flags leave to defaults.
func (t *target) complete() error {
	switch {
	case t.port == 0 && t.address == "":
		return usagef("no server given; add --port N, or --url URL")
	case t.port != 0 && t.address != "":
		return usagef("--port and --url both name a server; give one")
	case t.port != 0:
		t.address = fmt.Sprintf("http://127.0.0.1:%d/mcp", t.port)
	}
	u, err := url.Parse(t.address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usagef("--url %q: not a URL; allowed: http://HOST:PORT/mcp, or https", t.address)
	}
	if u.Port() == "" {
		u.Host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	}
	t.address = u.String()
	if t.token == "" {
		t.token = os.Getenv("ZE_TOKEN")
	}
	return nil
}

// host returns where to connect to, and whether with TLS.
func (t *target) host() (string, bool) {
	u, err := url.Parse(t.address)
	if err != nil {
		return "", false // complete has parsed it
	}
	return u.Host, u.Scheme == "https"
}

// tls returns how the server has to prove itself, nil for the system's way.
func (t *target) tls() (*tls.Config, error) {
	if t.ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(t.ca)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, usagef("--ca %s: no certificate in it; allowed: PEM", t.ca)
	}
	return c, nil
}

// transport returns connections to the server that nobody else uses.
func (t *target) transport() (*http.Transport, error) {
	c, err := t.tls()
	return &http.Transport{TLSClientConfig: c}, err
}
