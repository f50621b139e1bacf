package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const mostMemory = 250 << 20 // bytes a daemon may hold beside a crowd

// underCrowd measures honest calls to a daemon beside slow connections, and what
// memory the daemon took at most, in bytes.
func underCrowd(t testing.TB, slow int, duration time.Duration) (r loadReport, memory int64) {
	t.Helper()
	bin, err := buildZe()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf, data := filepath.Join(dir, "ze.conf"), filepath.Join(dir, "data")
	if err := os.WriteFile(conf, []byte("environment { metrics { enabled false; } mcp { enabled true; } }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := exec.Command(filepath.Join(bin, "ze"), "--data", data, "init", "--config", conf).Output()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "ze"), "--data", data, "start", "--mcp", "0")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
	}()
	listening := regexp.MustCompile(`"mcp":\["127\.0\.0\.1:(\d+)"`)
	var port string
	for lines := bufio.NewScanner(log); port == "" && lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			port = m[1]
		}
	}
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), duration+2*time.Minute)
	defer cancel()
	o := loadOptions{connections: 4, duration: duration, rate: 20, slow: slow, json: true,
		target: target{address: "http://127.0.0.1:" + port + "/mcp", token: strings.TrimSpace(string(token))}}
	if err := runLoad(ctx, o, &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %q", err, &out)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no memory in\n%s", status)
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return r, kilobytes << 10
}

// TestSlowConnections: more slow connections than a listener takes keep nobody
// out, and take little memory.
func TestSlowConnections(t *testing.T) {
	const slow = 2000
	r, memory := underCrowd(t, slow, 3*time.Second)
	if r.Failed > 0 || r.Requests != 60 || memory > mostMemory {
		t.Errorf("%d requests, %d failed %v, %d MiB", r.Requests, r.Failed, r.Errors, memory>>20)
	}
	if r.Slow.Closed < slow/4 {
		t.Errorf("only %d slow connections were closed: the crowd was none", r.Slow.Closed)
	}
}

// BenchmarkSlowConnections is the measure: beside 10,000 slow connections no
// honest call takes longer than 50 ms. It needs as many files (ulimit -n), and a
// machine with nothing else to do:
//
//	go test ./cmd/ze-test -run '^$' -bench SlowConnections -benchtime 1x
func BenchmarkSlowConnections(b *testing.B) {
	for range b.N {
		r, memory := underCrowd(b, 10_000, 20*time.Second)
		if r.Latency == nil {
			b.Fatal("nothing was answered")
		}
		b.ReportMetric(r.Latency.P50, "p50-ms")
		b.ReportMetric(r.Latency.P99, "p99-ms")
		b.ReportMetric(r.Latency.Max, "max-ms")
		b.ReportMetric(float64(memory)/(1<<20), "MiB")
		if r.Latency.Max > 50 || memory > mostMemory {
			b.Errorf("%.1f ms, %d MiB; allowed are 50 ms and %d MiB", r.Latency.Max, memory>>20, mostMemory>>20)
		}
	}
}
