package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ze.internal/ze/appliance"
)

// TestReadme runs the first steps of the README as they stand, except that
// ports are chosen by the system and that waiting is for the daemon, not for a
// second.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "runs this block as it stands. -->\n```sh\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatal("the README has no block of first steps")
	}
	block = strings.ReplaceAll(block, "sleep 1\n", "until ze show version >/dev/null 2>&1; do sleep 0.1; done\n")
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", block)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ZE_DATA_DIR="+filepath.Join(dir, "data"), "ZE_MCP_LISTEN=127.0.0.1:0", "ZE_METRICS_LISTEN=127.0.0.1:0")
	// Daemons that the block leaves running when it fails must not stay.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nobody is left
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"lab.conf: valid", "announced:", "10.0.0.0/24", "withdrawn:", "revoked:"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Every setting the README names exists.
	for _, s := range settings() {
		if name := strings.ToUpper(strings.ReplaceAll(s.name, ".", "_")); !strings.Contains(string(text), name) {
			t.Errorf("the README does not name %s", name)
		}
	}
}

// TestInitialConfiguration: what ze init keeps passes the gate.
func TestInitialConfiguration(t *testing.T) {
	if _, err := appliance.LoadConfiguration("initial", []byte(appliance.InitialConfig), appliance.Overrides{}, 1); err != nil {
		t.Fatal(err)
	}
}
