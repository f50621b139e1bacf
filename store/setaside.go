package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SetAside gives up the database in o.Dir for a new one: it is renamed, in the
// same directory, and the next Create is a first start again. It returns the
// new path, "" if there was no database. ErrLocked if a process has it open.
func SetAside(o Options) (string, error) {
	o = o.withDefaults()
	if _, err := os.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	l, err := acquire(o.Dir, o.LockTimeout)
	if err != nil {
		return "", err
	}
	defer l.release()
	path := filepath.Join(o.Dir, FileName)
	aside := asideName(o, path)
	switch err := os.Rename(path, aside); {
	case errors.Is(err, fs.ErrNotExist):
		aside = ""
	case err != nil:
		return "", fmt.Errorf("keep the database aside: %w", err)
	}
	// The rename must be on disk before the marker goes: without the marker a
	// missing database is a first start.
	if err := syncDir(o.Dir); err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(o.Dir, markerName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("forget the database kept aside: %w", err)
	}
	return aside, syncDir(o.Dir)
}

// asideName is what a database that is given up is called from then on.
func asideName(o Options, path string) string {
	return path + ".replaced-" + o.Clock().UTC().Format("20060102T150405.000000000Z")
}
