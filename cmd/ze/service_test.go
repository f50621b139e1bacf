package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/outputtest"
	"ze.internal/ze/store"
)

// TestUnderAServiceManager: what the daemon tells the service manager, for which a
// socket of the test stands, from its first start to its end.
func TestUnderAServiceManager(t *testing.T) {
	m := newMachine(t)
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	credentials := t.TempDir()
	const token = "a-token-from-a-credential-of-the-service"
	if err := os.WriteFile(filepath.Join(credentials, "ze_mcp.token"), []byte(token+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	daemon, log := m.command(t.Context(), "ze", "start", "--init", "--mcp", "0"), &outputtest.Output{}
	daemon.Env = append(daemon.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=600000", "CREDENTIALS_DIRECTORY="+credentials)
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = daemon.Process.Kill() }() // it has ended, if all is well

	// next waits for a message that begins so and returns all of it.
	next := func(want string) string {
		t.Helper()
		buf := make([]byte, 4096)
		for end := time.Now().Add(deadline); ; {
			if err := c.SetReadDeadline(end); err != nil {
				t.Fatal(err)
			}
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v\n%s", want, err, log)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return string(buf[:n])
			}
		}
	}
	next("EXTEND_TIMEOUT_USEC=")
	if s := next("READY=1"); !strings.Contains(s, "STATUS=ready; configuration: store, revision 1") {
		t.Errorf("%q", s)
	}
	next("WATCHDOG=1\nSTATUS=ready")
	next("WATCHDOG=1\nSTATUS=ready")

	m.mustRun("ze", "request", "reload")
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1")
	if err := daemon.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	next("RELOADING=1")
	next("READY=1")

	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	next("STOPPING=1")
	if err := daemon.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	for _, want := range []string{"first start: database created", "listening: mcp 127.0.0.1:", "ze is ready"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once %q: %s", want, log)
		}
	}

	// A setting that is wrong is told in the status, too.
	bad := m.command(t.Context(), "ze", "start", "--init", "--mcp", "99999")
	bad.Env = append(bad.Environ(), "NOTIFY_SOCKET="+path)
	if out, err := bad.CombinedOutput(); err == nil || !strings.Contains(next("STATUS=--mcp"), "not a port") {
		t.Errorf("%v %s", err, out)
	}
}

// TestBeat: the watchdog is fed by nothing but a pulse; one that fails is told and
// does not feed it, one that hangs keeps it hungry.
func TestBeat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000")
	next := func(within time.Duration) string {
		t.Helper()
		buf := make([]byte, 4096)
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return ""
		} else if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	type outcome struct {
		status string
		err    error
	}
	outcomes := make(chan outcome)
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		beat(ctx, func(context.Context) (string, error) { o := <-outcomes; return o.status, o.err }, zerolog.Nop())
	})
	defer beating.Wait()
	defer close(outcomes)
	defer cancel()

	for range 3 {
		outcomes <- outcome{status: "ready"}
		if s := next(deadline); s != "WATCHDOG=1\nSTATUS=ready" {
			t.Errorf("%q", s)
		}
		if s := next(100 * time.Millisecond); s != "" {
			t.Errorf("while it hangs: %q", s)
		}
	}
	outcomes <- outcome{err: errors.New("no command gets through")}
	if s := next(deadline); s != "STATUS=no command gets through" {
		t.Errorf("%q", s)
	}
}

// TestFirstStart: the first start makes a database and leaves its token in a file;
// no later one does, nor does it bring back a database that was lost.
func TestFirstStart(t *testing.T) {
	m := newMachine(t)
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	// What an attempt leaves that was interrupted is completed.
	if err := store.Create(store.Options{Dir: m.dir, Instance: "half-made"}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.dir, "admin.token")
	if err := os.WriteFile(file, []byte("of the interrupted attempt\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, _, stop := m.start("--init", "--mcp", "0")
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatal(info, err)
	}
	secret, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(secret), "ze_") {
		t.Fatalf("%q %v", secret, err)
	}
	var status struct {
		File string `json:"admin-token-file"`
	}
	_, out := m.run("ze", "status", "--format", "json")
	if err := json.Unmarshal([]byte(out), &status); err != nil || status.File != file {
		t.Errorf("%v %s", err, out)
	}
	for _, want := range []string{"removed:  true", "removed:  false"} {
		if code, out := m.run("ze", "token", "remove-file"); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%d %s", code, out)
		}
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error(err)
	}
	stop()

	_, _, _, stop = m.start("--init", "--mcp", "0")
	if _, out := m.run("ze", "status"); strings.Contains(out, "admin-token-file") {
		t.Error(out)
	}
	stop()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Error("a later start made a token:", err)
	}
	if err := os.Remove(filepath.Join(m.dir, store.FileName)); err != nil {
		t.Fatal(err)
	}
	if code, out := m.run("ze", "start", "--init"); code != exitDatabase || !strings.Contains(out, "it was created here earlier and is gone") {
		t.Errorf("%d %s", code, out)
	}
}

// TestTokenFileGoesWithItsToken: a file with a token that no longer works is
// removed by what made it useless, and whoever revokes the last token is told.
func TestTokenFileGoesWithItsToken(t *testing.T) {
	m := newMachine(t)
	if err := os.RemoveAll(m.dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(m.dir, "admin.token")
	there := func(want bool) {
		t.Helper()
		if _, err := os.Stat(file); (err == nil) != want {
			t.Errorf("the file is there: %v, want %v", err == nil, want)
		}
	}
	says := func(want string, args ...string) {
		t.Helper()
		if code, out := m.run(args...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%q: %d, want %q in %s", args, code, want, out)
		}
	}
	_, _, _, stop := m.start("--init", "--mcp", "0")
	says("secret:", "ze", "token", "create", "other", "scope", "read")
	says("secret:", "ze", "token", "rotate", "other")
	says("revoked: ", "ze", "token", "revoke", "other")
	there(true)
	says(file, "ze", "token", "rotate", "admin", "overlap", "10m")
	there(false)
	says("nobody gets in over MCP any more", "ze", "token", "revoke", "admin")
	stop()
	says("secret:", "ze", "token", "create", "admin", "scope", "admin")
	says("token create NAME", "ze", "token", "revoke", "admin") // without the daemon, too

	old := []byte("ze_of-a-database-that-is-put-aside\n")
	for text, stays := range map[string]bool{string(old): false, "": true} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		says("created ", "ze", "init", "--force")
		there(stays)
	}
}
