package builtin

import (
	"errors"
	"fmt"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
)

// configError says what a caller is told of a failure: in field, where it is an
// argument's.
func configError(err error, field string) error {
	var problems config.Problems
	var conflict *config.ConflictError
	var base *config.BaseError
	var pending *config.PendingError
	var file *config.FileError
	var apply *config.ApplyError
	var revert *config.RevertError
	var full *config.FullError
	e := &command.Error{Code: command.Conflict, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &apply):
		e.Message = apply.Error()
		e.Actions = []string{"show status", "change what it names and commit again"}
	case errors.As(err, &revert):
		e.Message, e.Field = revert.Error(), field
		e.Actions = []string{"request config confirm", fmt.Sprintf("request config rollback %d", revert.Confirm.RevertTo), "or make another token: token create NAME"}
	case errors.As(err, &full):
		e.Message = full.Error()
		e.Actions = []string{"request config discard, by whoever has one and needs it no longer", "token revoke NAME, which discards the token's candidate"}
	case errors.As(err, &problems):
		return problemsError(problems, field)
	case errors.As(err, &conflict):
		e.Message = conflict.Error()
		e.Actions = []string{"show config diff", "request config discard, and make the change again"}
	case errors.As(err, &base):
		e.Message = base.Error()
		e.Actions = []string{"show config diff", "request config discard, and make the change again"}
	case errors.As(err, &pending):
		e.Message = pending.Error()
		e.Actions = []string{"request config confirm", fmt.Sprintf("request config rollback %d", pending.Confirm.RevertTo)}
	case errors.As(err, &file):
		e.Message = file.Error()
		e.Actions = []string{"change the file, and then: request reload", "or start the daemon with: ze start"}
	case errors.Is(err, config.ErrUnchanged):
		e.Message = "there is nothing to change: that is the running configuration"
		e.Actions = []string{"show config diff", "show config history"}
	case errors.Is(err, config.ErrNoConfirm):
		e.Message = "no commit waits to be confirmed; one whose time is over has been taken back"
		e.Actions = []string{"show config history"}
	case errors.Is(err, config.ErrNoCandidate):
		e.Code, e.Message = command.NotFound, "you have no candidate configuration"
		e.Actions = []string{"set and delete begin one", "show config running"}
	case errors.Is(err, config.ErrNoRevision):
		e.Code, e.Field, e.Message = command.NotFound, field, "there is no such revision of the configuration"
		e.Actions = []string{"show config history"}
	default:
		return err
	}
	return e
}

func problemsError(problems config.Problems, field string) error {
	p := problems[0]
	e := &command.Error{Code: command.InvalidConfiguration, Field: field, Message: p.Error()}
	if field == "words" { // a path or a value, not a whole text
		e.Code = command.Invalid
	}
	const shown = 10
	for i, p := range problems[1:] {
		if i == shown {
			e.Actions = append(e.Actions, fmt.Sprintf("and %d more problems", len(problems)-1-shown))
			break
		}
		e.Actions = append(e.Actions, "also "+p.Error())
	}
	return e
}
