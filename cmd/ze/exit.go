package main

import (
	"errors"
	"fmt"
	"os"
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
	exitLocked     = 3
	exitConfig     = 4
	exitDatabase   = 5
	exitPermission = 6
	exitStorage    = 7
)

// exitMeanings says what each exit code means, by code.
var exitMeanings = [...]string{
	exitOK:         "ok",
	exitFailed:     "failed",
	exitUsage:      "usage",
	exitLocked:     "database locked",
	exitConfig:     "invalid configuration",
	exitDatabase:   "missing, damaged or newer database",
	exitPermission: "not permitted",
	exitStorage:    "storage failed while running",
}

// exitHelp lists the exit codes in one line.
func exitHelp() string {
	list := make([]string, len(exitMeanings))
	for code, meaning := range exitMeanings {
		list[code] = fmt.Sprint(code, " ", meaning)
	}
	return strings.Join(list, ", ")
}

// commandCodes maps the refusals of commands to exit codes; every other is exitFailed.
var commandCodes = map[command.Code]int{
	command.Invalid:              exitUsage,
	command.Unknown:              exitUsage,
	command.InvalidConfiguration: exitConfig,
	command.Damaged:              exitDatabase,
	command.Forbidden:            exitPermission,
}

// storeCodes maps the store's failures to exit codes. They say more than the
// code of a command that met one.
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
	if cmdErr != nil {
		if code, ok := commandCodes[cmdErr.Code]; ok {
			return code, text
		}
	} else if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
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
