package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance/audit"
)

// fillUp writes until the store has no room left, and checks that this is said,
// that everything acknowledged can still be read, and that small changes that
// find room go on. It returns how many blobs there are.
func fillUp(db *DB) (int, error) {
	ctx, data := context.Background(), make([]byte, 20<<10)
	n := 0
	for ; ; n++ {
		copy(data, fmt.Sprint(n))
		_, err := db.PutBlob(ctx, fmt.Sprintf("blob-%04d", n), data)
		if errors.Is(err, ErrNoSpace) {
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Next, "free space") {
				return n, fmt.Errorf("no advice: %w", err)
			}
			break
		}
		if err != nil {
			return n, fmt.Errorf("blob %d: %w", n, err)
		}
		if n > 10000 {
			return n, errors.New("the limit had no effect")
		}
	}
	if err := db.Health(ctx); !errors.Is(err, ErrNoSpace) {
		return n, fmt.Errorf("health of a full disk: %w", err)
	}
	select {
	case <-db.Failed():
		return n, errors.New("a full disk counts as a failed one")
	default:
	}
	return n, readAll(db, n)
}

func readAll(db *DB, n int) error {
	for i := range n {
		data, _, err := db.Blob(context.Background(), fmt.Sprintf("blob-%04d", i))
		if err != nil {
			return err
		}
		if !strings.HasPrefix(string(data), fmt.Sprint(i)+"\x00") {
			return fmt.Errorf("blob %d holds something else", i)
		}
	}
	return nil
}

// limited is what the child of TestFileSizeLimit does.
func limited(dir string) error {
	db, err := Open(options(dir))
	if err != nil {
		return err
	}
	defer db.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	before := limit.Cur
	limit.Cur = 512 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	n, err := fillUp(db)
	if err != nil {
		return err
	}
	limit.Cur = before
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if _, err := db.PutBlob(context.Background(), "after", make([]byte, 100<<10)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	if err := db.Health(context.Background()); err != nil {
		return fmt.Errorf("health with room again: %w", err)
	}
	return readAll(db, n)
}

// The limit is the process's, hence the child.
func TestFileSizeLimit(t *testing.T) {
	o := options(privateDir(t))
	p := spawn(t, "limited", o.Dir)
	if line := p.line(t); line != "done" {
		t.Fatal(line)
	}
	p.Wait()
	db := openTest(t, o)
	if bad, err := db.CheckRecords(t.Context()); err != nil || len(bad) > 0 {
		t.Errorf("afterwards: %v, %v", bad, err)
	}
}

func TestFullDisk(t *testing.T) {
	dir := privateDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		needs(t, fmt.Sprintf("needs root, to mount a small file system: %v; TestFileSizeLimit runs everywhere", err))
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	ballast := filepath.Join(dir, "ballast")
	check(t, os.WriteFile(ballast, make([]byte, 200<<10), 0o600))
	o := options(dir)
	db := openTest(t, o)
	n, err := fillUp(db)
	check(t, err)
	if _, err := db.Tokens(t.Context()); err != nil {
		t.Errorf("read with a full disk: %v", err)
	}
	// A restart works with a full disk.
	check(t, db.Close())
	db = openTest(t, o)
	check(t, readAll(db, n))
	check(t, os.Remove(ballast))
	if _, err := db.PutBlob(t.Context(), "after", make([]byte, 50<<10)); err != nil {
		t.Errorf("with room again: %v", err)
	}
	check(t, readAll(db, n))
}

// openFD returns the descriptor under which this process has path open.
func openFD(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	for _, e := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && link == path {
			var fd int
			_, err := fmt.Sscan(e.Name(), &fd)
			check(t, err)
			return fd
		}
	}
	t.Fatalf("%s is not open", path)
	return 0
}

// After any other I/O error nothing is written any more, although the disk
// works again: what the failed sync has dropped is not known.
func TestIOErrorEndsWriting(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	check(t, db.CreateToken(t.Context(), testToken("before")))
	path := filepath.Join(o.Dir, FileName)
	fd := openFD(t, path)
	saved, err := unix.Dup(fd)
	check(t, err)
	defer unix.Close(saved)
	readOnly, err := os.Open(path) // writing to it fails
	check(t, err)
	defer readOnly.Close()
	check(t, unix.Dup3(int(readOnly.Fd()), fd, unix.O_CLOEXEC))
	pending := audit.NewPending(callRecords()...)
	if err := db.CreateToken(audit.WithPending(t.Context(), pending), testToken("during")); !errors.Is(err, ErrFailed) {
		t.Errorf("write: %v", err)
	}
	if _, waits := pending.Take(); !waits {
		t.Error("the audit records of a change that failed do not wait for another one")
	}
	check(t, unix.Dup3(saved, fd, unix.O_CLOEXEC))
	select {
	case <-db.Failed():
	default:
		t.Error("the store does not say that it has failed")
	}
	if err := db.CreateToken(t.Context(), testToken("after")); !errors.Is(err, ErrFailed) {
		t.Errorf("write after the failure: %v", err)
	}
	tokens, err := db.Tokens(t.Context())
	if err != nil || len(tokens) != 1 || tokens[0].Name != "before" {
		t.Errorf("read after the failure: %v, %v", tokens, err)
	}
	check(t, db.Close())
	check(t, openTest(t, o).CreateToken(t.Context(), testToken("after")))
}

func TestModesAreExplained(t *testing.T) {
	for _, c := range []struct {
		spoil func(o Options) error
		want  string
	}{
		{func(o Options) error { return os.Chmod(o.Dir, 0o755) }, "chmod 0700 "},
		{func(o Options) error { return os.Chmod(filepath.Join(o.Dir, FileName), 0o640) }, "chmod 0600 "},
		{func(o Options) error { return replaceByLink(filepath.Join(o.Dir, FileName)) }, "is not a regular file"},
	} {
		o := options(privateDir(t))
		check(t, openTest(t, o).Close())
		check(t, c.spoil(o))
		if _, err := Open(o); !errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
}

func replaceByLink(path string) error {
	return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
}

func TestModesOfWhatIsCreated(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "a", "b"))
	openTest(t, o)
	if info, err := os.Stat(o.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(o.Dir)
	check(t, err)
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		check(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", e.Name(), info.Mode())
		}
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != "ze.db ze.db.created ze.lock" {
		t.Errorf("files: %s", got)
	}
	pid, err := os.Open(filepath.Join(o.Dir, lockName))
	check(t, err)
	defer pid.Close()
	if line, _ := bufio.NewReader(pid).ReadString('\n'); line != fmt.Sprintln(os.Getpid()) {
		t.Errorf("lock file holds %q", line)
	}
}

// What another user made is refused, unless by root, who makes it that user's.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		needs(t, "needs root, to change owners")
	}
	dir := privateDir(t)
	const nobody = 65534
	check(t, os.Chown(dir, nobody, -1))
	openTest(t, options(dir))
	for _, name := range []string{FileName, lockName, markerName} {
		info, err := os.Stat(filepath.Join(dir, name))
		check(t, err)
		if owner(info) != nobody {
			t.Errorf("%s belongs to uid %d", name, owner(info))
		}
	}
}
