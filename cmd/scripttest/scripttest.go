// Package scripttest has commands for the test scripts of several programs. It is
// for tests alone.
package scripttest

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exits runs a command that must end with an exit code: exits CODE COMMAND…
func Exits(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = strings.TrimPrefix(exit.String(), "exit status ")
	} else if err != nil {
		ts.Fatalf("%q: %v", args[1:], err)
	}
	if code != args[0] {
		ts.Fatalf("%q ended with %s, want %s", args[1:], code, args[0])
	}
}

// Expect looks for texts, in which variables are replaced, in the last output:
// expect stderr TEXT…
func Expect(ts *testscript.TestScript, neg bool, args []string) {
	got := ts.ReadFile(args[0])
	for _, want := range args[1:] {
		if want = os.Expand(want, ts.Getenv); strings.Contains(got, want) == neg {
			ts.Fatalf("%s contains %q: %v\n%s", args[0], want, !neg, got)
		}
	}
}
