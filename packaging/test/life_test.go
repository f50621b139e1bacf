package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// lifeVariable makes this test program live the life of a package, on the machine
// that it runs on, which had better be one to throw away. Its value is the
// format of the package.
const lifeVariable = "ZE_LIFE"

func TestMain(m *testing.M) {
	if format := os.Getenv(lifeVariable); format != "" {
		os.Exit(live(format))
	}
	code := m.Run()
	_ = os.RemoveAll(packagesDir) // the system's temporary directory, after all
	os.Exit(code)
}

// TestLife installs, starts, calls, breaks, upgrades and removes the packages on
// machines with a real systemd.
func TestLife(t *testing.T) {
	need(t, "systemd-container", "systemd-nspawn")
	need(t, "mmdebstrap", "mmdebstrap")
	if os.Getuid() != 0 {
		const missing = "booting a machine takes root"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	life := filepath.Join(t.TempDir(), "life")
	build := exec.Command("go", "test", "-c", "-trimpath", "-o", life, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // the machine need not have this one's C library
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range []machine{
		{suite: "bookworm"},
		{suite: "trixie", unified: true}, // its systemd takes nothing else
	} {
		rootfs(t, m.suite)
		t.Run(m.suite, func(t *testing.T) {
			for _, format := range []string{"deb", "rpm"} {
				t.Run(format, func(t *testing.T) {
					t.Parallel() // a life is mostly waiting
					m := m
					m.env = map[string]string{lifeVariable: format}
					m.files = packages(t, format)
					report(t, m.boot(t, life, 5*time.Minute))
				})
			}
		})
	}
}

// report makes each step that was lived a test of its own.
func report(t *testing.T, output string) {
	t.Helper()
	var lived []step
	var rest strings.Builder
	for line := range strings.Lines(output) {
		var s step
		if json.Unmarshal([]byte(line), &s) != nil {
			rest.WriteString(line)
			continue
		}
		lived = append(lived, s)
		t.Run(s.Name, func(t *testing.T) {
			t.Logf("%.1f s %s", s.Seconds, s.Note)
			if s.Failure != "" {
				t.Error(s.Failure)
			}
		})
	}
	if len(lived) == 0 || lived[len(lived)-1].Name != lastStep {
		t.Errorf("it ended early; it printed besides:\n%s", rest.String())
	}
}
