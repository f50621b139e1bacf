package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// mostExposure is the highest score, times ten, that the unit may have.
const mostExposure = "16"

// analyze runs systemd-analyze on copies of the units in which the program is one
// that exists here, and returns what it says.
func analyze(t *testing.T, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("systemd-analyze is missing: install the Debian package systemd")
		}
		t.Skip("no systemd-analyze (Debian package systemd)")
	}
	dir := t.TempDir()
	for _, name := range []string{"ze.service", "ze.socket"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "=/usr/bin/ze ", "="+os.Args[0]+" "))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestUnitsAreClean: systemd has nothing to say about the units. It ends well for
// a key that it does not know, so that it says nothing is what counts.
func TestUnitsAreClean(t *testing.T) {
	if out, err := analyze(t, "verify", "--man=no", "./ze.service", "./ze.socket"); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestExposure(t *testing.T) {
	out, err := analyze(t, "security", "--offline=true", "--threshold="+mostExposure, "./ze.service")
	score := regexp.MustCompile(`Overall exposure level for ze.service: \S+`).FindString(out)
	t.Log(score)
	if err != nil || score == "" {
		t.Errorf("above %s: %v\n%s", mostExposure, err, out)
	}
}

// TestSandboxIsExplained: what is left out of the sandbox on purpose says why.
func TestSandboxIsExplained(t *testing.T) {
	text, err := os.ReadFile("ze.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ProcSubset", "PrivateUsers", "MemoryDenyWriteExecute"} {
		if strings.Contains(string(text), "\n"+name+"=") == regexp.MustCompile(`(?m)^# `+name+`=\S* is left out`).Match(text) {
			t.Errorf("%s= is neither set nor explained, or both", name)
		}
	}
}
