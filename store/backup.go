package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// partialSuffix marks a file that is being written and not yet verified.
const partialSuffix = ".partial"

// Backup writes a copy of the database to file while others read and write: the
// state of one moment. It is written aside, synced, checked as Open does it, and
// then renamed, so that file is a good copy or is not there. A file that exists
// is replaced only with force, and only if it is a database. The report is about
// the copy. ErrExists, ErrInvalid, ErrAccess, ErrNoSpace.
func (db *DB) Backup(ctx context.Context, file string, force bool) (Report, error) {
	if err := db.mayWrite(file, force); err != nil {
		return Report{}, err
	}
	release, err := db.maintain(ctx)
	if err != nil {
		return Report{}, err
	}
	defer release()
	partial := file + partialSuffix
	r, err := db.copyTo(ctx, partial, 1+len(db.migrations))
	if err != nil {
		return Report{}, err
	}
	r.Path = file
	if err := publish(partial, file, force); err != nil {
		return Report{}, errors.Join(err, os.Remove(partial))
	}
	return r, nil
}

// mayWrite refuses places where a backup would do harm.
func (db *DB) mayWrite(file string, force bool) error {
	if !filepath.IsAbs(file) {
		return fmt.Errorf("backup to %s: %w: the path must be absolute", file, ErrInvalid)
	}
	if samePlace(file, db.path) || samePlace(file, filepath.Join(filepath.Dir(db.path), lockName)) ||
		samePlace(file, filepath.Join(filepath.Dir(db.path), markerName)) {
		return fmt.Errorf("backup to %s: %w: that is a file of the store itself", file, ErrInvalid)
	}
	switch _, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
			return fmt.Errorf("backup to %s: %w: there is no such directory", file, ErrInvalid)
		}
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("backup to %s: %w: a part of the path is no directory", file, ErrInvalid)
	case err != nil:
		return systemError(file, err)
	case !force:
		return &Error{Kind: ErrExists, Path: file, Next: "name another file, or replace this one with force"}
	}
	w, err := openWalker(file)
	if err != nil {
		return err
	}
	defer w.file.Close()
	if _, _, err := w.metas(true); err != nil {
		return fmt.Errorf("replace %s: %w: it is no database, so it is left alone", file, ErrInvalid)
	}
	return nil
}

func samePlace(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return filepath.Clean(a) == b
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// copyTo writes the state of this moment to path, a new file, and checks the
// copy, whose form is of the given version. Nothing is left after an error.
func (db *DB) copyTo(ctx context.Context, path string, version int) (r Report, err error) {
	err = writeFile(path, func(w io.Writer) error {
		return db.view(ctx, func(tx *bolt.Tx) error {
			_, err := tx.WriteTo(&patient{ctx, w})
			return err
		})
	})
	if err != nil {
		return r, err
	}
	if r, err = verifyCopy(path, version); err != nil {
		err = errors.Join(err, removeIfThere(path))
	}
	return r, err
}

// verifyCopy checks a copy just written as Open would.
func verifyCopy(path string, known int) (Report, error) {
	r, err := inspectFile(path, known)
	if err != nil {
		return r, err
	}
	return r, r.fatal(path)
}

// patient stops writing when its context ends.
type patient struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// writeFile makes a new file for this user alone and has fill write it; it is
// durable when writeFile returns nil, and not there when it returns an error.
func writeFile(path string, fill func(w io.Writer) error) error {
	f, err := createFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrExist) {
		return &Error{Kind: ErrExists, Path: path, Next: "another copy is being written; if not, it is left from one that was cut off: remove it"}
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Kind == ErrFailed {
		e.Next = "nothing was changed; look at the file system there, or name a file elsewhere"
	}
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	err = fill(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		return nil
	}
	if rerr := os.Remove(path); rerr != nil {
		err = errors.Join(err, rerr)
	}
	if isNoSpace(err) {
		return &Error{Kind: ErrNoSpace, Path: path, Cause: err, Next: "free space there, or name a file elsewhere"}
	}
	return fmt.Errorf("write %s: %w", path, err)
}

// publish gives a complete file its name; durable when it returns. Without
// replace a file of that name stays.
func publish(partial, file string, replace bool) error {
	var err error
	if replace {
		err = os.Rename(partial, file)
	} else {
		err = unix.Renameat2(unix.AT_FDCWD, partial, unix.AT_FDCWD, file, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
			// Not every file system can promise it; the look before must do.
			if _, err = os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
				err = os.Rename(partial, file)
			} else if err == nil {
				err = fs.ErrExist
			}
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return &Error{Kind: ErrExists, Path: file, Next: "name another file"}
	case err != nil:
		return systemError(file, err)
	}
	return syncDir(filepath.Dir(file))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return systemError(path, err)
	}
	return nil
}

// Restored is what Restore did.
type Restored struct {
	Report        // about the database now in place
	Aside  string // where the one before is kept; "" if there was none
}

// Restore puts a copy of file, a backup, in the place of the database in o.Dir,
// which is kept aside under the name SetAside gives. The copy is checked as Open
// does it before anything is touched, and at every moment there is the old
// database or the new one. With fallback a file with one damaged meta page is
// taken at the state the other one describes; that file may be the database
// itself. ErrLocked if a process has the database open.
func Restore(o Options, file string, fallback bool) (res Restored, err error) {
	o = o.withDefaults()
	if err := makeDir(o.Dir); err != nil {
		return res, err
	}
	if err := checkDir(o.Dir, o.Logger); err != nil {
		return res, err
	}
	l, err := acquire(o.Dir, o.LockTimeout)
	if err != nil {
		return res, err
	}
	defer l.release()
	path, aside := filepath.Join(o.Dir, FileName), filepath.Join(o.Dir, newName)
	// Left by a restore or a first start that was interrupted.
	if err := removeIfThere(aside); err != nil {
		return res, err
	}
	source, err := os.Open(file)
	if err != nil {
		return res, fmt.Errorf("restore: %w", err)
	}
	defer source.Close()
	if err := writeFile(aside, func(w io.Writer) error { _, err := io.Copy(w, source); return err }); err != nil {
		return res, fmt.Errorf("restore %s: %w", file, err)
	}
	res.Report, err = o.acceptCopy(aside, fallback)
	if err == nil {
		res.Aside, err = replace(o, path, aside)
	}
	if err != nil {
		return res, errors.Join(refusedCopy(err, file), removeIfThere(aside))
	}
	res.Path = path
	return res, writeMarker(o.Dir)
}

// acceptCopy checks the copy of a backup, and mends its meta pages if asked to.
func (o Options) acceptCopy(copied string, fallback bool) (Report, error) {
	if fallback {
		if _, err := checkPages(copied, true); err != nil {
			return Report{}, err
		}
		b, err := openBolt(copied, copied, bolt.Options{})
		if err != nil {
			return Report{}, err
		}
		// Two commits write both meta pages anew.
		for range 2 {
			if err == nil {
				err = b.Update(func(*bolt.Tx) error { return nil })
			}
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return Report{}, commitError(copied, err)
		}
	}
	return verifyCopy(copied, 1+len(o.migrations))
}

// refusedCopy speaks of the backup, not of its copy.
func refusedCopy(err error, file string) error {
	var e *Error
	if !errors.As(err, &e) || e.Kind != ErrDamaged && e.Kind != ErrTooNew {
		return err
	}
	next := "nothing was changed; restore another backup"
	if e.Kind == ErrTooNew {
		next += ", or install the version that made it"
	}
	return &Error{Kind: e.Kind, Path: file, Detail: e.Detail, Next: next}
}

// replace gives fresh the name path and keeps what had it.
func replace(o Options, path, fresh string) (aside string, err error) {
	aside = asideName(o, path)
	// A second name for the old one first: renaming it away would leave a moment
	// without a database.
	switch err := os.Link(path, aside); {
	case errors.Is(err, fs.ErrNotExist):
		aside = ""
	case err != nil:
		return "", systemError(path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", systemError(path, err)
	}
	return aside, syncDir(o.Dir)
}
