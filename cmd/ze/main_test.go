package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ze.internal/ze/cmd/scripttest"
)

func TestMain(m *testing.M) {
	// The daemon starts its speaker as os.Executable() speaker, and in a test
	// that is this test program.
	if len(os.Args) == 2 && os.Args[1] == speakerName {
		main()
	}
	testscript.Main(m, map[string]func(){"ze": main})
}

// deadline bounds what the tests wait for.
const deadline = 30 * time.Second

// TestScripts runs testdata/*.txtar: what a user types and sees.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// Ports that the system chooses, so that scripts run side by side.
			e.Setenv("ZE_METRICS_LISTEN", "127.0.0.1:0")
			e.Setenv("ZE_DATA_DIR", filepath.Join(e.WorkDir, "data"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":  await,
			"exits":  scripttest.Exits,
			"expect": scripttest.Expect,
		},
	})
}

// await repeats a command until it succeeds.
func await(ts *testscript.TestScript, _ bool, args []string) {
	end := time.Now().Add(deadline)
	for {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("await %q: %v", args, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestDemoStaysUp: without --once the demonstration invites, until it is
// interrupted, and leaves nothing behind.
func TestDemoStaysUp(t *testing.T) {
	tmp := t.TempDir()
	demo := exec.Command("ze", "demo")
	demo.Env = append(os.Environ(), "TMPDIR="+tmp)
	demo.Stderr = os.Stderr
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(deadline, func() { _ = demo.Process.Kill() })
	defer timer.Stop()
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "or ask your assistant") {
			if err := demo.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := demo.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	for _, want := range []string{"/mcp\n", "token    ze_", "/metrics\n", `"mcpServers"`, "show bgp rib sent"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it did not say %q:\n%s", want, said.String())
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestNoSpeakerOutlivesTheDaemon: kill -9 of the daemon leaves no process.
func TestNoSpeakerOutlivesTheDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	conf := filepath.Join(t.TempDir(), "ze.conf")
	text := "environment { mcp { enabled true; } }\nbgp { router-id 192.0.2.1; local { as 64512; } peer p { remote { ip 127.0.0.9; as 1; } } }\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ze := func(args ...string) *exec.Cmd {
		cmd := exec.Command("ze", append([]string{"--data", dir}, args...)...)
		cmd.Env = append(os.Environ(), "ZE_METRICS_LISTEN=127.0.0.1:0")
		return cmd
	}
	if out, err := ze("init", "--config", conf).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	daemon := ze("start", "--mcp", "0")
	var log bytes.Buffer
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var status struct{ Speaker struct{ PID int } }
	for status.Speaker.PID == 0 {
		if ctx.Err() != nil {
			_ = daemon.Process.Kill()
			t.Fatalf("no speaker: %s", log.String())
		}
		if out, err := ze("show", "status", "--format", "json").Output(); err == nil {
			if err := json.Unmarshal(out, &status); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // killed, and that is what it says
	for syscall.Kill(status.Speaker.PID, 0) == nil {
		if ctx.Err() != nil {
			t.Fatalf("the speaker, process %d, outlived the daemon", status.Speaker.PID)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
