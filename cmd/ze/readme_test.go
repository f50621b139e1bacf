package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ze.internal/ze/appliance"
)

// TestReadme runs the first steps of the README and its script for ze-test as
// they stand, except that ports are chosen by the system and that waiting is for
// the daemon, not for a second.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	block := readmeBlock(t, text, "runs this block as it stands.")
	block = strings.ReplaceAll(block, "sleep 1\n", "until ze show version >/dev/null 2>&1; do sleep 0.1; done\n")
	script := readmeBlock(t, text, "runs this block, too, while the daemon above runs.")
	script = strings.ReplaceAll(script, "--port 8080", `--port "$(ze help ai services | sed -n 's/^- mcp: .*:\([0-9]*\) .*/\1/p')"`)
	const last = "kill $!; wait\n"
	if !strings.HasSuffix(block+"\n", last) {
		t.Fatal("the first steps do not end with the daemon")
	}
	block = strings.TrimSuffix(block+"\n", last) + script + "\n" + last
	bin := filepath.Join(t.TempDir(), "bin")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "../ze-test").CombinedOutput(); err != nil {
		t.Fatalf("build ze-test: %v\n%s", err, out)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", block)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "ZE_DATA_DIR="+filepath.Join(dir, "data"), "ZE_MCP_LISTEN=127.0.0.1:0", "ZE_METRICS_LISTEN=127.0.0.1:0")
	// Daemons that the block leaves running when it fails must not stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // the daemon has the same output
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nobody is left
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"lab.conf: valid", "module ze-bgp {", "announced:", "10.0.0.0/24", "withdrawn:", "revoked:"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Every setting the README names exists.
	for _, s := range settings() {
		if name := strings.ToUpper(strings.ReplaceAll(s.name, ".", "_")); !strings.Contains(text, name) {
			t.Errorf("the README does not name %s", name)
		}
	}
}

// readmeBlock returns the block of shell after a comment that ends with mark.
func readmeBlock(t *testing.T, text, mark string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, mark+" -->\n```sh\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("the README has no block that the test suite %s", mark)
	}
	return block
}

// TestInitialConfiguration: what ze init keeps passes the gate.
func TestInitialConfiguration(t *testing.T) {
	if _, err := appliance.LoadConfiguration("initial", []byte(appliance.InitialConfig), appliance.Overrides{}, 1); err != nil {
		t.Fatal(err)
	}
}
