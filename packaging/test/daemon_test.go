package test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ze.internal/ze/appliance/outputtest"
	"ze.internal/ze/mcp/client"
)

// freePort returns an address and port that nobody listens on.
func freePort(t *testing.T, ip string) string {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// daemon is the packaged program, running without systemd.
type daemon struct {
	mcp     *client.Client
	metrics string // address of its metrics
}

// startDaemon runs the packaged daemon until the test ends.
func startDaemon(t *testing.T, config string) *daemon {
	t.Helper()
	ze, dir := packagedBinary(t), t.TempDir()
	file := filepath.Join(dir, "ze.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	made, err := exec.Command(ze, "--data", data, "init", "--config", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(ze, "--data", data, "start")
	cmd.Env = append(os.Environ(), "ZE_MCP_LISTEN=127.0.0.1:0", "ZE_METRICS_LISTEN=127.0.0.1:0")
	var out outputtest.Output
	cmd.Stderr = &out
	background(t, cmd)
	var at struct{ MCP, Metrics []string }
	eventually(t, "the daemon", func() string {
		for line := range strings.Lines(out.String()) {
			if json.Unmarshal([]byte(line), &at) == nil && len(at.MCP) == 1 && len(at.Metrics) == 1 {
				return ""
			}
		}
		return "it has not said where it listens: " + out.String()
	})
	d := &daemon{client.New("http://"+at.MCP[0]+"/mcp", strings.TrimSpace(string(made)), "test"), "http://" + at.Metrics[0] + "/metrics"}
	t.Cleanup(d.mcp.Close)
	return d
}

func (d *daemon) call(t *testing.T, tool string, arguments any) {
	t.Helper()
	if _, err := d.mcp.Call(t.Context(), tool, arguments); err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
}
