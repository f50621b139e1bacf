// Command ze is the operations appliance: the daemon, and the command line
// that talks to it. This package parses the command line and hands over; what
// the daemon does is in package appliance and below.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
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
