// Command ze is the operations appliance: the daemon, and the command line
// that talks to it. This package parses the command line and hands over; what
// the daemon does is in package appliance and below.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/store"
)

// Exit codes.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitLocked     = 3 // the database is in use by another process
	exitConfig     = 4 // invalid configuration
	exitDatabase   = 5 // damaged, missing or newer database
	exitPermission = 6 // not permitted
	exitStorage    = 7 // the storage failed while running
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, stdio{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// stdio is where a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, io stdio, args []string) int {
	err := execute(ctx, io, args)
	if err == nil {
		return exitOK
	}
	code, text := explain(err)
	if text != "" {
		fmt.Fprintln(io.err, "ze: "+text)
	}
	return code
}

// exitError is an error that decides the exit code itself.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// storeCodes maps the store's failures to exit codes.
var storeCodes = []struct {
	err  error
	code int
}{
	{store.ErrLocked, exitLocked},
	{store.ErrDamaged, exitDatabase},
	{store.ErrBadRecord, exitDatabase},
	{store.ErrTooNew, exitDatabase},
	{store.ErrMissing, exitDatabase},
	{store.ErrAccess, exitPermission},
	{store.ErrFailed, exitStorage},
}

// explain returns the exit code of err and what to tell the user.
func explain(err error) (int, string) {
	var exit *exitError
	var cmdErr *command.Error
	var problems config.Problems
	switch {
	case errors.As(err, &exit):
		return exit.code, err.Error()
	case errors.As(err, &problems):
		return exitConfig, err.Error()
	}
	text := err.Error()
	if errors.As(err, &cmdErr) {
		text = explainCommand(cmdErr)
	}
	for _, s := range storeCodes {
		if errors.Is(err, s.err) {
			return s.code, text
		}
	}
	if errors.Is(err, os.ErrPermission) {
		return exitPermission, text
	}
	return exitFailed, text
}

func explainCommand(e *command.Error) string {
	var b strings.Builder
	b.WriteString(clean(e.Error()))
	for _, a := range e.Actions {
		b.WriteString("\n  " + clean(a))
	}
	return b.String()
}
