package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

const markerText = "ze.db was created in this directory. If it is missing now it was lost: restore a backup.\n" +
	"Remove this file only to start with an empty database.\n"

// makeDir creates dir, if need be with its parents, for this user alone.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return systemError(dir, err)
	}
	return nil
}

// mustExist reports ErrMissing unless there is a database in dir.
func mustExist(dir string) error {
	path := filepath.Join(dir, FileName)
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return systemError(path, err)
	case isFirstStart(dir):
		return &Error{Kind: ErrMissing, Path: path, Next: "create one with: " + zeCommand(path, "init")}
	}
	return &Error{Kind: ErrMissing, Path: path, Detail: "it was created here earlier and is gone",
		Next: "put a backup in its place with " + zeCommand(path, "store restore BACKUP") +
			"; to start empty instead, remove " + filepath.Join(dir, markerName)}
}

func isFirstStart(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, markerName))
	return errors.Is(err, fs.ErrNotExist)
}

// checkDir explains a directory that others can look into, or that is not ours,
// and warns of a file system on which locks and mapped files cannot be trusted.
func checkDir(dir string, log zerolog.Logger) error {
	info, err := os.Stat(dir)
	if err != nil {
		return systemError(dir, err)
	}
	if !info.IsDir() {
		return &Error{Kind: ErrAccess, Path: dir, Detail: "is not a directory", Next: "name the directory that holds " + FileName}
	}
	if err := checkAccess(dir, info, dirMode); err != nil {
		return err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return systemError(dir, err)
	}
	if name, ok := remoteFS[uint32(st.Type)]; ok {
		log.Warn().Str("path", dir).Str("filesystem", name).
			Msg("the data directory is not on a local file system: locks may hang and a crash may lose data; move it to a local disk")
	}
	return nil
}

// File systems by statfs(2) type on which bbolt has been seen to hang or to lose its lock.
var remoteFS = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "nfs", unix.SMB_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2",
	unix.AFS_SUPER_MAGIC: "afs", unix.CODA_SUPER_MAGIC: "coda", unix.CEPH_SUPER_MAGIC: "ceph", unix.V9FS_MAGIC: "9p",
	unix.FUSE_SUPER_MAGIC: "fuse", 0x0bd00bd0: "lustre",
}

// checkFile explains a database file that is not a file, not ours, or open to others.
func checkFile(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return systemError(path, err)
	}
	if !info.Mode().IsRegular() {
		return &Error{Kind: ErrAccess, Path: path, Detail: "is not a regular file", Next: "put the database itself there, not a link to it"}
	}
	return checkAccess(path, info, fileMode)
}

// checkAccess demands that path is ours and closed to group and others. Root may
// use anybody's.
func checkAccess(path string, info fs.FileInfo, want fs.FileMode) error {
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return &Error{Kind: ErrAccess, Path: path, Detail: fmt.Sprintf("mode %04o lets other users in, and it holds secrets", perm),
			Next: fmt.Sprintf("run `chmod %04o %s`", want, path)}
	}
	owner, user := owner(info), os.Geteuid()
	if user != 0 && owner != user {
		return &Error{Kind: ErrAccess, Path: path, Detail: fmt.Sprintf("it belongs to uid %d, and this process runs as uid %d", owner, user),
			Next: fmt.Sprintf("run ze as that user, or as root `chown -R %d %s`", user, path)}
	}
	return nil
}

// create makes a new database, with the lock held: everything is written to a
// file aside, synced, and only then given its name.
func create(o Options) error {
	path, aside := filepath.Join(o.Dir, FileName), filepath.Join(o.Dir, newName)
	if _, err := os.Lstat(path); err == nil || !isFirstStart(o.Dir) {
		return &Error{Kind: ErrExists, Path: path, Next: "use it as it is; to start empty, move it and " + markerName + " away"}
	}
	// Left by a first start that was interrupted.
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return systemError(aside, err)
	}
	if err := writeNew(aside, o.Instance, o.Clock()); err != nil {
		os.Remove(aside)
		return err
	}
	if err := os.Rename(aside, path); err != nil {
		return systemError(path, err)
	}
	if err := syncDir(o.Dir); err != nil {
		return err
	}
	return writeMarker(o.Dir)
}

func writeNew(path, instance string, now time.Time) error {
	f, err := createFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	f.Close()
	b, err := openNew(path)
	if err != nil {
		return err
	}
	if err := b.Update(func(tx *bolt.Tx) error { return initialize(tx, instance, now) }); err != nil {
		b.Close()
		return commitError(path, err)
	}
	// The first commit leaves bbolt's initial meta page, which refers to an empty
	// database; a second one makes both pages describe this one.
	if err := b.Update(func(*bolt.Tx) error { return nil }); err != nil {
		b.Close()
		return commitError(path, err)
	}
	if err := b.Close(); err != nil {
		return systemError(path, err)
	}
	return syncFile(path)
}

// openNew makes an empty file a database of bbolt's, without any content.
func openNew(path string) (*bolt.DB, error) {
	b, err := bolt.Open(path, fileMode, &bolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return nil, openError(path, err)
	}
	return b, nil
}

// writeMarker makes the marker file if it is missing; durable when it returns.
func writeMarker(dir string) error {
	path := filepath.Join(dir, markerName)
	f, err := createFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// Its existence is what counts: on a full disk an empty marker does.
	_, werr := f.WriteString(markerText)
	serr := f.Sync()
	f.Close()
	for _, err := range []error{werr, serr} {
		if err != nil && !isNoSpace(err) {
			return systemError(path, err)
		}
	}
	return syncDir(dir)
}

// createFile opens a file for this user alone. Root, working in another user's
// directory, makes it that user's, who will run the daemon.
func createFile(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, fileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err != nil {
		return nil, systemError(path, err)
	}
	if os.Geteuid() != 0 {
		return f, nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err == nil && owner(dir) != 0 {
		err = f.Chown(owner(dir), -1)
	}
	if err != nil {
		f.Close()
		return nil, systemError(path, err)
	}
	return f, nil
}

func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return os.Geteuid()
}

// syncDir makes the directory's entries durable: a file created or renamed in it
// survives power loss when this returns.
func syncDir(dir string) error { return syncFile(dir) }

// syncFile makes a file's content and size durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return systemError(path, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return &Error{Kind: ErrFailed, Path: path, Cause: err, Next: nextFailed}
	}
	return nil
}
