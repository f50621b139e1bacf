package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ze.internal/ze/cmd/scripttest"
)

// deadline bounds what the tests wait for.
const deadline = 30 * time.Second

// zeDir is where the daemon under test is built; suite removes it.
var zeDir string

type suite struct{ *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int {
	defer func() { _ = os.RemoveAll(zeDir) }()
	return s.M.Run()
}

func TestMain(m *testing.M) { testscript.Main(suite{m}, map[string]func(){"ze-test": main}) }

// buildZe builds the daemon, once, and returns the directory it is in.
var buildZe = sync.OnceValues(func() (dir string, err error) {
	if zeDir, err = os.MkdirTemp("", "ze-test-"); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", zeDir+"/", "../ze").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ze: %w\n%s", err, out)
	}
	return zeDir, nil
})

// TestScripts runs testdata/*.txtar: ze-test against real daemons.
func TestScripts(t *testing.T) {
	bin, err := buildZe()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("ZE_METRICS_LISTEN", "127.0.0.1:0")
			for _, p := range []struct{ name, address string }{{"OURS", "127.0.0.1"}, {"THEIRS", "127.0.0.2"}, {"NOBODY", "127.0.0.3"}} {
				port, err := freePort(p.address)
				if err != nil {
					return err
				}
				e.Setenv(p.name, fmt.Sprint(port))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   daemon,
			"exits":    scripttest.Exits,
			"expect":   scripttest.Expect,
			"fixtures": fixtures,
		},
	})
}

func freePort(address string) (uint16, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).AddrPort().Port(), l.Close()
}

// daemon starts a daemon from a configuration in which variables are replaced,
// and sets NAME_PORT to where it serves MCP and NAME_TOKEN to an admin's token:
// daemon NAME FILE.
func daemon(ts *testscript.TestScript, _ bool, args []string) {
	name, conf := args[0], ts.MkAbs(args[1])
	text := os.Expand(ts.ReadFile(args[1]), ts.Getenv)
	ts.Check(os.WriteFile(conf, []byte(text), 0o600))
	data := ts.MkAbs(name)
	ts.Check(ts.Exec("ze", "--data", data, "init", "--config", conf))
	ts.Setenv(name+"_TOKEN", strings.TrimSpace(ts.ReadFile("stdout")))
	port := started(ts, regexp.MustCompile(`"mcp":\["127\.0\.0\.1:(\d+)"`), "ze", "--data", data, "start", "--mcp", "0")
	ts.Setenv(name+"_PORT", port)
}

// fixtures starts the server of the conformance suite and sets FIXTURES.
func fixtures(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("FIXTURES", started(ts, regexp.MustCompile(`^(http://127\.0\.0\.1:\d+/mcp)$`), "ze-test", "conformance-server"))
}

// started runs a program until the script ends and returns what the pattern
// finds in the lines it prints.
func started(ts *testscript.TestScript, find *regexp.Regexp, program string, args ...string) string {
	path, err := exec.LookPath(program)
	if program == "ze" {
		path, err = filepath.Join(strings.SplitN(ts.Getenv("PATH"), string(os.PathListSeparator), 2)[0], "ze"), nil
	}
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TMPDIR=" + ts.Getenv("WORK"), "ZE_METRICS_LISTEN=127.0.0.1:0"}
	r, w, err := os.Pipe()
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = w, w
	ts.Check(cmd.Start())
	ts.Check(w.Close())
	timer := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
	ts.Defer(func() {
		timer.Reset(deadline)
		defer timer.Stop()
		_ = cmd.Process.Signal(syscall.SIGINT)
		if err := cmd.Wait(); err != nil {
			ts.Fatalf("%s: %v", program, err)
		}
		_ = r.Close()
	})
	var said strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if m := find.FindStringSubmatch(lines.Text()); m != nil {
			timer.Stop()
			go io.Copy(io.Discard, r) // until the program has ended
			return m[1]
		}
	}
	ts.Fatalf("%s %q did not start:\n%s", program, args, said.String())
	return ""
}
