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
	"strings"
	"syscall"

	"ze.internal/ze/systemd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends what the first one does not
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
		complain(io.err, text)
	}
	return code
}

// complain says why the program ends. To the journal it does so by standard error
// with a level, sd-daemon(3): where an entry of the other kind comes from can no
// longer be found out when the program has ended.
func complain(w io.Writer, text string) {
	if _, ok := systemd.Journal(); ok && w == io.Writer(os.Stderr) {
		for line := range strings.Lines(text + "\n") {
			fmt.Fprint(w, "<3>", line)
		}
		return
	}
	fmt.Fprintln(w, "ze: "+text)
}
