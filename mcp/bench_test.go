package mcp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sink is a ResponseWriter that keeps nothing but the status, so that a
// benchmark measures the handler.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkToolsCall measures a call that reads, with arguments and headers: all
// checks, authentication, validation, audit and metrics.
func BenchmarkToolsCall(b *testing.B) {
	benchmark(b, func() *http.Request {
		r := call(adminToken, "ze_show_lamp", `{"action":"history","lamp":"hall","limit":3}`)
		r.Header.Set("Mcp-Param-Lamp", "hall")
		r.Header.Set("Mcp-Param-Limit", "3")
		return r
	})
}

// BenchmarkToolsCallChange measures a command that changes something, which
// waits twice for the audit log: here for a store in memory.
func BenchmarkToolsCallChange(b *testing.B) {
	benchmark(b, func() *http.Request { return call(adminToken, "ze_switch", `{"lamp":"hall","on":true}`) })
}

// BenchmarkToolsList measures the list of all tools.
func BenchmarkToolsList(b *testing.B) {
	benchmark(b, func() *http.Request { return post(adminToken, "tools/list", "", "") })
}

// benchmark measures the handler alone, and over a kept connection.
func benchmark(b *testing.B, request func() *http.Request) {
	f := newFixture(b, nil)
	template := request()
	text, err := io.ReadAll(template.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("handler", func(b *testing.B) {
		h, w, reader := f.guarded(), &sink{header: http.Header{}}, strings.NewReader("")
		r, body := template.Clone(b.Context()), io.NopCloser(reader)
		b.ReportAllocs()
		start := cpuTime(b)
		for b.Loop() {
			clear(w.header)
			reader.Reset(string(text))
			r.Body = body // the guard puts a limit around it
			h.ServeHTTP(w, r)
			if w.status != http.StatusOK {
				b.Fatalf("status %d", w.status)
			}
		}
		b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
	})
	b.Run("loopback", func(b *testing.B) {
		server := httptest.NewServer(f.guarded())
		defer server.Close()
		client := server.Client()
		b.ReportAllocs()
		start := cpuTime(b)
		for b.Loop() {
			r, err := http.NewRequest(http.MethodPost, server.URL+"/mcp", strings.NewReader(string(text)))
			if err != nil {
				b.Fatal(err)
			}
			r.Header = template.Header
			res, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				b.Fatalf("status %d, %v", res.StatusCode, err)
			}
			res.Body.Close()
		}
		b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
	})
}

// cpuTime returns the processor time the process has used, in nanoseconds:
// unlike the clock it does not depend on what else the machine does.
func cpuTime(b *testing.B) int64 {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
