package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/store"
)

// TestExitCodes: every failure ends with the code that the table gives it.
func TestExitCodes(t *testing.T) {
	of := func(c command.Code, cause error) error {
		return &command.Error{Code: c, Message: "refused", Err: cause}
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{of(command.Invalid, nil), exitUsage},
		{of(command.Unknown, nil), exitUsage},
		{of(command.InvalidConfiguration, nil), exitConfig},
		{of(command.Damaged, nil), exitDatabase},
		{of(command.Forbidden, nil), exitPermission},
		{of(command.NotFound, nil), exitFailed},
		{of(command.Conflict, nil), exitFailed},
		{of(command.Unavailable, nil), exitFailed},
		{of(command.Limit, nil), exitFailed},
		{of(command.Canceled, nil), exitFailed},
		{of(command.Internal, nil), exitFailed},
		{of("of-a-newer-daemon", nil), exitFailed},
		{of(command.Unavailable, store.ErrLocked), exitLocked},
		{of(command.Invalid, store.ErrFailed), exitStorage},
		{of(command.NotFound, fs.ErrPermission), exitFailed},
		{store.ErrTooNew, exitDatabase},
		{store.ErrMissing, exitDatabase},
		{store.ErrAccess, exitPermission},
		{fmt.Errorf("read it: %w", fs.ErrPermission), exitPermission},
		{config.Problems{{Message: "no"}}, exitConfig},
		{usagef("no"), exitUsage},
		{context.Canceled, exitFailed},
		{errors.New("no"), exitFailed},
	} {
		if got, text := explain(c.err); got != c.want || text == "" {
			t.Errorf("%#v ends with %d (%s), want %d", c.err, got, text, c.want)
		}
	}
}

// TestExitCodesAreListed: the README and the help give the codes and their meanings.
func TestExitCodesAreListed(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	if err := execute(t.Context(), stdio{strings.NewReader(""), &help, &help}, []string{"--help"}); err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the README": string(readme), "ze --help": help.String()} {
		if !strings.Contains(text, exitHelp()) {
			t.Errorf("%s does not say %q", where, exitHelp())
		}
	}
}
