package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"
)

// What can be wrong; test with errors.Is.
var (
	ErrMissing   = errors.New("there is no database")
	ErrExists    = errors.New("there is a database already")
	ErrLocked    = errors.New("the database is in use by another process")
	ErrAccess    = errors.New("the database's owner or permissions are wrong")
	ErrDamaged   = errors.New("the database is damaged")
	ErrTooNew    = errors.New("the database was written by a newer version")
	ErrNoSpace   = errors.New("no space left for the database")
	ErrStalled   = errors.New("the disk does not answer")
	ErrFailed    = errors.New("the storage failed, nothing can be written until restart")
	ErrBadRecord = errors.New("the record is damaged")
	ErrNotFound  = errors.New("not found")
	ErrInvalid   = errors.New("invalid")
)

// What to do next, for errors that can come from several places.
const (
	nextFailed  = "check the disk and the kernel's log, then start the daemon again; what was acknowledged is on disk"
	nextNoAudit = "the audit log takes no records, and nothing is changed without one: everything can be read and nothing changed, until a backup is in the place of the database or a new one is made with ze init --force, which keeps this one aside"
	nextSpace   = "free space on this file system; reads go on, and writes work again as soon as there is room"
)

// Error is a failure of the store as a whole: what is wrong, with which file,
// and what to do next.
type Error struct {
	Kind   error  // one of the Err values above
	Path   string // the file or directory
	Detail string // what exactly was found; may be empty
	Next   string // what the user can do
	PID    int    // ErrLocked: the process that holds the lock, 0 if not known
	Cause  error  // may be nil
}

// Error implements error.
func (e *Error) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "store %s: %v", e.Path, e.Kind)
	if e.PID != 0 {
		fmt.Fprintf(&s, " (pid %d)", e.PID)
	}
	if e.Detail != "" {
		s.WriteString(": " + e.Detail)
	}
	if e.Cause != nil {
		s.WriteString(": " + e.Cause.Error())
	}
	if e.Next != "" {
		s.WriteString("; " + e.Next)
	}
	return s.String()
}

// Unwrap implements errors.Is and errors.As for the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Outage says what is the matter, without paths, and what the user can do: the
// store cannot do its work, whatever was asked of it.
func (e *Error) Outage() (message, next string) { return "the store: " + e.Kind.Error(), e.Next }

func damaged(path, detail string) error {
	return &Error{Kind: ErrDamaged, Path: path, Detail: detail, Next: nextDamaged(path)}
}

// CommandFor returns the command line that does rest on the database in dir, to
// be run as it stands.
func CommandFor(dir, rest string) string {
	return fmt.Sprintf("`ze --data %s %s`", shellWord(dir), rest)
}

func zeCommand(path, rest string) string { return CommandFor(filepath.Dir(path), rest) }

func shellWord(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func nextDamaged(path string) string {
	return "the file was not changed; list what is wrong with " + zeCommand(path, "store check") +
		", put a backup in its place with " + zeCommand(path, "store restore BACKUP")
}

func nextEndless(path string) string {
	return "everything can be read, and nothing is changed without an audit record; put a backup in the place of the database with " +
		zeCommand(path, "store restore BACKUP") + ", or keep this one aside and begin anew with " + zeCommand(path, "init --force")
}

func nextFallback(path string) string {
	return nextDamaged(path) + ", or, if there is none, go on with that state with " +
		zeCommand(path, "store restore "+shellWord(path)+" fallback")
}

// nextTooNew names the copy made before the first upgrade to a form that is
// newer than known, if it is there.
func nextTooNew(path string, known int) string {
	next := "the file was not changed; install that version again, or restore a copy made before the upgrade with "
	copies, err := filepath.Glob(globWord(path) + beforeSuffix + "*")
	if err != nil {
		copies = nil
	}
	oldest, file := 0, "BACKUP"
	for _, c := range copies {
		n, err := strconv.Atoi(strings.TrimPrefix(c, path+beforeSuffix))
		if err == nil && n > known && (oldest == 0 || n < oldest) {
			oldest, file = n, shellWord(c)
		}
	}
	return next + zeCommand(path, "store restore "+file)
}

// globWord returns the pattern that matches path only.
func globWord(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// openError classifies what bbolt, or the system, answered on opening the file.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		pid := lockHolder(path)
		return &Error{Kind: ErrLocked, Path: path, PID: pid, Next: nextLocked(pid)}
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return damaged(path, err.Error())
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("store %s: is closed", path)
	}
	return systemError(path, err)
}

// systemError classifies an error of a system call outside a commit.
func systemError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &Error{Kind: ErrAccess, Path: path, Cause: err, Next: "it must be readable and writable for the user who runs the daemon"}
	case errors.Is(err, syscall.ENOTDIR):
		return &Error{Kind: ErrAccess, Path: path, Cause: err, Next: "name the directory that holds " + FileName}
	case isNoSpace(err):
		return &Error{Kind: ErrNoSpace, Path: path, Cause: err, Next: nextSpace}
	}
	return &Error{Kind: ErrFailed, Path: path, Cause: err, Next: nextFailed}
}

// commitError classifies a failed commit. Only a refused write, or a refused
// growing of the file, counts as no space: after a failed sync the kernel may
// have dropped pages it will not report again, whatever the reason was.
func commitError(path string, err error) error {
	var write *fs.PathError
	switch {
	case errors.As(err, &write) && isNoSpace(err),
		// bbolt loses the cause here.
		strings.HasPrefix(err.Error(), "file resize error:") && mentionsNoSpace(err.Error()):
		return &Error{Kind: ErrNoSpace, Path: path, Cause: err, Next: nextSpace}
	}
	return &Error{Kind: ErrFailed, Path: path, Cause: err, Next: nextFailed}
}

func isFailure(err error) bool { return errors.Is(err, ErrFailed) }

var noSpace = [...]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

func isNoSpace(err error) bool {
	for _, e := range noSpace {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func mentionsNoSpace(text string) bool {
	for _, e := range noSpace {
		if strings.Contains(text, e.Error()) {
			return true
		}
	}
	return false
}
