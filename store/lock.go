package store

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock is the right to use a data directory. It guards what bbolt's own lock
// does not: creating the file, and checking it before bbolt opens it. The kernel
// lets go of it when the process ends, however it ends.
type lock struct{ file *os.File }

const lockRetry = 20 * time.Millisecond

// acquire takes the lock of dir, waiting at most timeout.
func acquire(dir string, timeout time.Duration) (*lock, error) {
	path := filepath.Join(dir, lockName)
	f, err := createFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockRetry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, systemError(path, err)
		}
		if time.Now().After(deadline) {
			pid := readPID(f)
			f.Close()
			if pid == 0 {
				pid = lockHolder(path)
			}
			return nil, &Error{Kind: ErrLocked, Path: filepath.Join(dir, FileName), PID: pid, Next: nextLocked(pid)}
		}
	}
	// For people and for the message above; on a full disk the lock holds without it.
	if f.Truncate(0) == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return &lock{f}, nil
}

// release lets go. The file stays: removing it would let two processes lock two
// different files of one name.
func (l *lock) release() {
	l.file.Truncate(0)
	l.file.Close()
}

func nextLocked(pid int) string {
	next := "let the running daemon do it (the ze command talks to it), or stop it first"
	if pid == 0 {
		next += "; the process is not visible from here"
	}
	return next
}

func readPID(r io.ReaderAt) int {
	var buf [20]byte
	n, _ := r.ReadAt(buf[:], 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil || pid < 1 {
		return 0
	}
	return pid
}

// lockHolder finds who holds a lock on the file in /proc/locks; 0 if it cannot
// be told. A line is "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF" (proc(5)).
func lockHolder(path string) int {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if w := strings.Fields(lines.Text()); len(w) >= 6 && w[1] == "FLOCK" && w[5] == want {
			if pid, err := strconv.Atoi(w[4]); err == nil && pid > 0 {
				return pid
			}
		}
	}
	return 0
}
