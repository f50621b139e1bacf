package appliance

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

// BenchmarkToolsCall measures a small read command as a whole: guard, a token
// looked up in the database, all checks, validation, audit on disk, metrics.
func BenchmarkToolsCall(b *testing.B) {
	benchmark(b, "tools/call", "ze_show", `"name":"ze_show","arguments":{"action":"uptime"},`)
}

// BenchmarkToolsList measures the list of all tools.
func BenchmarkToolsList(b *testing.B) { benchmark(b, "tools/list", "", "") }

func benchmark(b *testing.B, method, name, params string) {
	dir := filepath.Join(b.TempDir(), "data")
	if err := store.Create(store.Options{Dir: dir, Instance: "bench"}); err != nil {
		b.Fatal(err)
	}
	db, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	secret, token := access.NewToken(rand.Reader, "bench", access.Read, time.Now(), time.Time{})
	if err := db.CreateToken(b.Context(), token); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	app, err := New(b.Context(), Options{DataDir: dir, File: "bench.conf", Text: []byte("environment { metrics { enabled false; } mcp { limit { rate 1000000; burst 1000000; } } }"),
		Speaker: []string{os.Args[0]}, Version: builtin.Version{Version: "bench"}, Logger: zerolog.New(io.Discard).Level(zerolog.InfoLevel)})
	if err != nil {
		b.Fatal(err)
	}
	if err := app.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := app.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		method, params, mcp.Revision)
	template, err := http.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", nil)
	if err != nil {
		b.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": mcp.Revision, "Mcp-Method": method, "Mcp-Name": name, "Authorization": "Bearer " + secret} {
		if v != "" {
			template.Header.Set(k, v)
		}
	}
	h, w := (&access.Guard{}).Wrap(app.mcp), &sink{header: http.Header{}}
	reader := strings.NewReader("")
	r, closer := template.Clone(b.Context()), io.NopCloser(reader)
	r.ContentLength = int64(len(body))
	b.ReportAllocs()
	start := cpuTime(b)
	for b.Loop() {
		clear(w.header)
		reader.Reset(body)
		r.Body = closer
		h.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N)/1000, "cpu-µs/op")
}

// sink is a ResponseWriter that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// cpuTime returns the processor time the process has used, in nanoseconds:
// unlike the clock it does not depend on what else the machine does.
func cpuTime(b *testing.B) int64 {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
