package systemd

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// listenMode makes the test program say what sockets it was handed.
const listenMode = "ZE_TEST_LISTENERS"

func TestMain(m *testing.M) {
	if os.Getenv(listenMode) != "" {
		listeners, err := Listeners()
		for _, l := range listeners {
			fmt.Println(l.Addr().Network(), l.Addr())
		}
		again, _ := Listeners()
		fmt.Println("again", len(again), "error", err)
		return
	}
	os.Exit(m.Run())
}

// manager stands for the service manager's end of the notify socket.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return c
}

func told(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestNotify(t *testing.T) {
	c := manager(t)
	for _, step := range []struct {
		tell func()
		want string
	}{
		{func() { Extend(90*time.Second, "upgrading") }, "EXTEND_TIMEOUT_USEC=90000000\nSTATUS=upgrading"},
		{func() { Ready("ready") }, "READY=1\nSTATUS=ready"},
		{func() { Alive("well") }, "WATCHDOG=1\nSTATUS=well"},
		{func() { Status("two\nlines\r\nand READY=1") }, "STATUS=two; lines; and READY=1"},
		{Stopping, "STOPPING=1\nSTATUS=stopping"},
	} {
		step.tell()
		if got := told(t, c); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
	Reloading()
	lines := strings.Split(told(t, c), "\n")
	if len(lines) != 3 || lines[0] != "RELOADING=1" || !strings.HasPrefix(lines[1], "MONOTONIC_USEC=") {
		t.Errorf("%q", lines)
	}
}

// TestWithoutManager: outside a service nothing is there and nothing fails.
func TestWithoutManager(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "CREDENTIALS_DIRECTORY", "JOURNAL_STREAM"} {
		t.Setenv(name, "")
	}
	Ready("ready")
	if Listening() {
		t.Error("somebody listens")
	}
	if d, err := Watchdog(); d != 0 || err != nil {
		t.Error(d, err)
	}
	if l, err := Listeners(); len(l) != 0 || err != nil {
		t.Error(l, err)
	}
	if path, ok := Credential("ze.mcp.token"); ok {
		t.Error(path)
	}
	if _, ok := Journal(); ok {
		t.Error("a journal")
	}
}

func TestWatchdog(t *testing.T) {
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "30000000")
	if d, err := Watchdog(); d != 30*time.Second || err != nil {
		t.Error(d, err)
	}
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := Watchdog(); err == nil {
		t.Error("no error")
	}
	t.Setenv("WATCHDOG_PID", "1")
	t.Setenv("WATCHDOG_USEC", "30000000")
	if d, err := Watchdog(); d != 0 || err != nil {
		t.Error("another process is watched:", d, err)
	}
}

func TestCredential(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	for _, name := range []string{"ze.mcp.token", "ze_mcp.tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"ze.mcp.token": "ze.mcp.token", "ze.mcp.tls.key": "ze_mcp.tls.key", "ze.log.level": ""} {
		path, ok := Credential(name)
		if ok != (want != "") || ok && path != filepath.Join(dir, want) {
			t.Errorf("%s: %s %v", name, path, ok)
		}
	}
}

// TestListeners hands sockets to a program as the service manager does, one of
// them of no use.
func TestListeners(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	plain, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	files := []*os.File{plain}
	for _, l := range []interface{ File() (*os.File, error) }{tcp.(*net.TCPListener), unix.(*net.UnixListener)} {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	// Only the shell knows the number of the process before it is there.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "LISTEN_FDS=3", "LISTEN_FDNAMES=a:b:c", listenMode+"=1")
	cmd.ExtraFiles = files
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "tcp " + tcp.Addr().String() + "\nunix " + path + "\nagain 0 error take over socket a"
	if !bytes.HasPrefix(out, []byte(want)) {
		t.Errorf("%s\nwant %s", out, want)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the program took the socket with it:", err)
	}
}
