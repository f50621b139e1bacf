package conformance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// nodeDir holds what package-lock.json pins: the suite, the clients, Node.
const nodeDir = "testdata/node"

// install fetches the pinned packages once. Without npm the tests that need
// them are left out, except in continuous integration.
var install = sync.OnceValue(func() error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errNoNPM
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "sh", filepath.Join(nodeDir, "install.sh")).CombinedOutput(); err != nil {
		return errors.New(err.Error() + "\n" + string(out))
	}
	return nil
})

var errNoNPM = errors.New("npm is missing: install the Debian packages nodejs and npm")

// program is how a Node program ended.
type program struct {
	code           int
	stdout, stderr string
}

// nodeCommand returns a command that runs a script with the pinned Node.
func nodeCommand(ctx context.Context, t *testing.T, env []string, script string, args ...string) *exec.Cmd {
	t.Helper()
	if err := install(); errors.Is(err, errNoNPM) && os.Getenv("CI") != "true" {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	binary, err := filepath.Abs(filepath.Join(nodeDir, "node_modules", "node-linux-"+arch, "bin", "node"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, binary, append([]string{script}, args...)...)
	cmd.Dir = nodeDir
	cmd.Env = append([]string{"PATH=" + filepath.Dir(binary) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + t.TempDir(), "NO_COLOR=1"}, env...)
	return cmd
}

// node runs a script to its end.
func node(t *testing.T, env []string, script string, args ...string) program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := nodeCommand(ctx, t, env, script, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return program{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// nodeServer starts a script that prints its URL, and ends it with the test.
func nodeServer(t *testing.T, script string) (url string) {
	t.Helper()
	cmd := nodeCommand(t.Context(), t, nil, script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%s did not start: %v\n%s", script, err, &stderr)
	}
	return strings.TrimSpace(line)
}

// tail returns the end of what a program said.
func (p program) tail() string {
	lines := strings.Split(p.stdout+p.stderr, "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

const (
	suiteScript     = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
	inspectorScript = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
)
