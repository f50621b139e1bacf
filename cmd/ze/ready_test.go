package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance/outputtest"
	"ze.internal/ze/store"
)

// start runs the daemon until the test ends or stop is called, and returns where
// its metrics are.
func (m *machine) start(flags ...string) (daemon *exec.Cmd, log *outputtest.Output, url string, stop func()) {
	m.t.Helper()
	daemon, log = m.command(context.Background(), append([]string{"ze", "start"}, flags...)...), &outputtest.Output{}
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		m.t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = daemon.Process.Signal(os.Interrupt) // it may have ended
			_ = daemon.Wait()
		})
	}
	m.t.Cleanup(stop)
	m.await(func() bool {
		for line := range strings.Lines(log.String()) {
			var l struct{ Metrics []string }
			if json.Unmarshal([]byte(line), &l) == nil && len(l.Metrics) > 0 {
				url = "http://" + l.Metrics[0]
			}
		}
		return url != ""
	}, log)
	m.await(func() bool { code, _ := m.run("ze", "show", "version"); return code == 0 }, log)
	return daemon, log, url, stop
}

func (m *machine) ready(url string) (int, string) {
	m.t.Helper()
	resp, err := http.Get(url + "/readyz")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestReadyWithFullDisk: readiness goes when a write finds no space, and comes
// back with one that does.
func TestReadyWithFullDisk(t *testing.T) {
	m := newMachine(t)
	daemon, log, url, _ := m.start()
	if code, body := m.ready(url); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	var before unix.Rlimit
	limit := func(l unix.Rlimit) {
		if err := unix.Prlimit(daemon.Process.Pid, unix.RLIMIT_FSIZE, &l, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Prlimit(daemon.Process.Pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit(unix.Rlimit{Cur: 300 << 10, Max: before.Max})
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 400<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := m.run("ze", "blob", "put", "large", large); code == 0 || !strings.Contains(out, "no space") {
		t.Fatalf("with a full disk: %d %s", code, out)
	}
	// A small record may still find room, and then it is well again.
	for end := time.Now().Add(deadline); ; {
		code, body := m.ready(url)
		if code == http.StatusServiceUnavailable && strings.Contains(body, "no space left") && strings.Contains(body, "free space") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s\n%s", code, body, log)
		}
		m.run("ze", "blob", "put", "large", large)
	}
	limit(before)
	m.mustRun("ze", "blob", "put", "large", large)
	if code, body := m.ready(url); code != http.StatusOK {
		t.Errorf("with room again: %d %s", code, body)
	}
}

// TestAuditTakesNoRecords: when the end of the audit chain is lost the daemon
// says so as it starts, is not ready, refuses changes and goes on reading; each
// command that it names is a way out.
func TestAuditTakesNoRecords(t *testing.T) {
	m := newMachine(t)
	m.mustRun("ze", "cli", "-c", "blob put keep 'a text'")
	backup := filepath.Join(t.TempDir(), "backup.db")
	m.mustRun("ze", "store", "backup", backup)
	path := filepath.Join(m.dir, store.FileName)
	b, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = b.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"audit", "audit-head"} {
			bucket := tx.Bucket([]byte(name))
			key, value := bucket.Cursor().Last()
			if name == "audit-head" {
				key = []byte("head")
				value = bucket.Get(key)
			}
			flipped := append([]byte(nil), value...)
			flipped[len(flipped)-1] ^= 1
			if err := bucket.Put(append([]byte(nil), key...), flipped); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	spoiled, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	_, log, url, stop := m.start()
	if code, body := m.ready(url); code != http.StatusServiceUnavailable || !strings.Contains(body, "takes no changes") || !strings.Contains(body, "store restore BACKUP") {
		t.Errorf("readiness: %d %s", code, body)
	}
	began := time.Now()
	if code, out := m.run("ze", "cli", "-c", "blob put more text"); code == 0 || !strings.Contains(out, "store restore BACKUP") {
		t.Errorf("a change: %d %s", code, out)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("a change is refused after %v", took)
	}
	m.mustRun("ze", "blob", "cat", "keep")
	// The records of reads are tried again ten times a second.
	m.await(func() bool {
		resp, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(body)) {
			if n, ok := strings.CutPrefix(line, "ze_audit_failures_total "); ok {
				return len(strings.TrimSpace(n)) >= 2 // ten and more
			}
		}
		return false
	}, log)
	if n := strings.Count(log.String(), "audit records not written"); n == 0 || n > 5 {
		t.Errorf("%d log lines:\n%s", n, log)
	}
	if n := strings.Count(log.String(), "takes no records"); n != 1 {
		t.Errorf("the warning is there %d times:\n%s", n, log)
	}
	commands := quoted.FindAllStringSubmatch(log.String(), -1)
	stop()
	seen := map[string]bool{}
	for _, match := range commands {
		if seen[match[1]] {
			continue
		}
		seen[match[1]] = true
		if err := os.WriteFile(path, spoiled, 0o600); err != nil {
			t.Fatal(err)
		}
		m.mustRun("sh", "-c", strings.ReplaceAll(match[1], "BACKUP", backup))
		m.mustRun("ze", "cli", "-c", "blob put keep 'a text'")
		m.works()
	}
	if len(seen) != 2 {
		t.Errorf("the messages name %v", seen)
	}
}
