package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/store"
)

// machine is a data directory and the program as its users run it.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) *machine {
	m := &machine{t, filepath.Join(t.TempDir(), "data")}
	m.mustRun("ze", "init")
	return m
}

func (m *machine) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "ZE_DATA_DIR="+m.dir, "ZE_METRICS_LISTEN=127.0.0.1:0", "ZE_MCP_LISTEN=127.0.0.1:0")
	return cmd
}

// run returns the exit code of a command and what it printed.
func (m *machine) run(args ...string) (int, string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), deadline)
	defer cancel()
	out, err := m.command(ctx, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatalf("%q: %v", args, err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

func (m *machine) mustRun(args ...string) string {
	m.t.Helper()
	code, out := m.run(args...)
	if code != 0 {
		m.t.Fatalf("%q ended with %d: %s", args, code, out)
	}
	return out
}

// works starts the daemon, asks it something, and stops it.
func (m *machine) works() {
	m.t.Helper()
	daemon := m.command(context.Background(), "ze", "start")
	var log strings.Builder
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.await(func() bool { code, _ := m.run("ze", "show", "version"); return code == 0 }, &log)
	m.mustRun("ze", "blob", "cat", "keep")
	if err := daemon.Process.Signal(os.Interrupt); err != nil {
		m.t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		m.t.Errorf("the daemon: %v: %s", err, log.String())
	}
}

func (m *machine) await(ready func() bool, log fmt.Stringer) {
	m.t.Helper()
	for end := time.Now().Add(deadline); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("waited too long: %s", log)
		}
	}
}

var quoted = regexp.MustCompile("`(ze [^`]*)`")

// TestRecovery damages the database in every way that keeps the daemon from
// starting, and runs the very commands that its message names: afterwards it
// works.
func TestRecovery(t *testing.T) {
	change := func(path string, fn func(b []byte) []byte) error {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, fn(b), 0o600)
	}
	for name, c := range map[string]struct {
		spoil    func(path string) error
		noBackup bool // it can be recovered without one, too
	}{
		"missing":   {spoil: os.Remove},
		"empty":     {spoil: func(p string) error { return os.Truncate(p, 0) }},
		"truncated": {spoil: func(p string) error { return os.Truncate(p, 9000) }},
		"garbage": {spoil: func(p string) error {
			return change(p, func(b []byte) []byte { return []byte(strings.Repeat("garbage ", len(b)/8)) })
		}},
		"one page zeroed": {spoil: func(p string) error {
			return change(p, func(b []byte) []byte {
				// The root of the tree, as the newer of the two meta pages has it: a page
				// that is surely in use.
				const size, root, txid = 4096, 32, 64
				meta := b[:size]
				if binary.NativeEndian.Uint64(b[size+txid:]) > binary.NativeEndian.Uint64(b[txid:]) {
					meta = b[size : 2*size]
				}
				at := binary.NativeEndian.Uint64(meta[root:]) * size
				clear(b[at : at+size])
				return b
			})
		}},
		"one meta page zeroed": {noBackup: true, spoil: func(p string) error {
			return change(p, func(b []byte) []byte { clear(b[:4096]); return b })
		}},
		"newer": {spoil: func(p string) error {
			b, err := bolt.Open(p, 0o600, nil)
			if err != nil {
				return err
			}
			return errors.Join(b.Update(func(tx *bolt.Tx) error {
				return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("99"))
			}), b.Close())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.mustRun("ze", "cli", "-c", "blob put keep 'a text'")
			backup := filepath.Join(t.TempDir(), "a backup.db")
			m.mustRun("ze", "store", "backup", backup)
			if err := c.spoil(filepath.Join(m.dir, store.FileName)); err != nil {
				t.Fatal(err)
			}
			code, message := m.run("ze", "start")
			if code != exitDatabase {
				t.Fatalf("start ended with %d: %s", code, message)
			}
			var commands []string
			for _, match := range quoted.FindAllStringSubmatch(message, -1) {
				commands = append(commands, match[1])
			}
			if !strings.Contains(message, "store restore") || len(commands) == 0 || len(commands) > 3 {
				t.Fatalf("the message names %d commands: %s", len(commands), message)
			}
			recovered := 0
			for _, line := range commands {
				line = strings.ReplaceAll(line, "BACKUP", "'"+backup+"'")
				code, out := m.run("sh", "-c", line)
				switch {
				case strings.HasSuffix(line, " store check"):
					if code != exitDatabase || !strings.Contains(out, "1 problem") {
						t.Errorf("%s ended with %d: %s", line, code, out)
					}
				default: // one with fallback comes last, and has nothing to fall back from any more
					if code != exitOK {
						t.Fatalf("%s ended with %d: %s", line, code, out)
					}
					recovered++
				}
			}
			if recovered == 0 {
				t.Fatalf("nothing recovers it: %s", message)
			}
			m.works()
			m.mustRun("ze", "store", "check")
		})
		if !c.noBackup {
			continue
		}
		t.Run(name+" and no backup", func(t *testing.T) {
			m := newMachine(t)
			m.mustRun("ze", "cli", "-c", "blob put keep 'a text'")
			m.mustRun("ze", "blob", "ls")
			if err := c.spoil(filepath.Join(m.dir, store.FileName)); err != nil {
				t.Fatal(err)
			}
			_, message := m.run("ze", "start")
			for _, match := range quoted.FindAllStringSubmatch(message, -1) {
				if strings.HasSuffix(match[1], " fallback") {
					m.mustRun("sh", "-c", match[1])
				}
			}
			m.works()
		})
	}
}

// TestDamagedRevision: with a newest revision that cannot be read the daemon does
// not start, and each command that its message names is a way out, by itself.
func TestDamagedRevision(t *testing.T) {
	spoiled := func(t *testing.T) (*machine, []string) {
		m := newMachine(t)
		m.mustRun("ze", "cli", "-c", "blob put keep 'a text'")
		backup := filepath.Join(t.TempDir(), "a backup.db")
		m.mustRun("ze", "store", "backup", backup)
		m.mustRun("ze", "config", "set", "environment", "instance", "name", "two")
		m.mustRun("ze", "config", "commit")
		file := filepath.Join(t.TempDir(), "kept.conf")
		m.mustRun("ze", "config", "export", file)
		b, err := bolt.Open(filepath.Join(m.dir, store.FileName), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Update(func(tx *bolt.Tx) error {
			texts := tx.Bucket([]byte("revision-texts"))
			key, value := texts.Cursor().Last()
			flipped := append([]byte(nil), value...)
			flipped[len(flipped)-1] ^= 1
			return texts.Put(append([]byte(nil), key...), flipped)
		})
		if err = errors.Join(err, b.Close()); err != nil {
			t.Fatal(err)
		}
		code, message := m.run("ze", "start")
		if code != exitDatabase || !strings.Contains(message, "revision 2 of the configuration") {
			t.Fatalf("start ended with %d: %s", code, message)
		}
		_, report := m.run("ze", "store", "check")
		if !strings.Contains(report, "revision-texts") || !strings.Contains(report, "rollback NUMBER") || strings.Contains(report, "token revoke") {
			t.Errorf("the check does not say what to do about a revision: %s", report)
		}
		var commands []string
		for _, match := range quoted.FindAllStringSubmatch(message, -1) {
			commands = append(commands, strings.NewReplacer("BACKUP", "'"+backup+"'", "FILE", "'"+file+"'").Replace(match[1]))
		}
		return m, commands
	}
	_, commands := spoiled(t)
	all := strings.Join(commands, "\n")
	for i, want := range []string{"config import", "config rollback 1", "store restore"} {
		if len(commands) != 3 || !strings.Contains(commands[i], want) {
			t.Fatalf("the message names\n%s", all)
		}
		t.Run(want, func(t *testing.T) {
			m, commands := spoiled(t)
			m.mustRun("sh", "-c", commands[i])
			m.works()
			if want != "store restore" {
				if history := m.mustRun("ze", "config", "history"); !strings.Contains(history, strings.TrimPrefix(want, "config ")) {
					t.Errorf("the new revision is not in the history: %s", history)
				}
			}
			m.mustRun("ze", "store", "verify-audit")
		})
	}
}

// TestStorageFailureEndsTheDaemon: one sync fails, though the disk works again
// at once; the daemon writes nothing more and ends with a code of its own, and
// what it had acknowledged is there.
func TestStorageFailureEndsTheDaemon(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		const why = "needs strace: Debian package strace"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	m := newMachine(t)
	daemon := m.command(context.Background(), strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=fdatasync",
		"-e", "inject=fdatasync:error=EIO:when=6", "ze", "start")
	var log strings.Builder
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	m.await(func() bool { code, _ := m.run("ze", "show", "version"); return code == 0 }, &log)
	acknowledged := 0
	for ; acknowledged < 1000; acknowledged++ {
		if code, out := m.run("ze", "cli", "-c", fmt.Sprintf("blob put b%d x", acknowledged)); code != 0 {
			t.Logf("after %d: %s", acknowledged, out)
			break
		}
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitStorage {
			t.Errorf("the daemon: %v\n%s", err, log.String())
		}
	case <-time.After(deadline):
		_ = daemon.Process.Kill()
		t.Fatalf("the daemon goes on\n%s", log.String())
	}
	if !strings.Contains(log.String(), "storage failed") {
		t.Errorf("the log does not say why:\n%s", log.String())
	}
	for i := range acknowledged {
		m.mustRun("ze", "blob", "cat", fmt.Sprint("b", i))
	}
	m.mustRun("ze", "store", "check")
}
