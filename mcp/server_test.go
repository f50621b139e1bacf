package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// post returns a request as a client of the revision sends it.
func post(token, method, name, params string) *http.Request {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + metaMember + `}}`
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", Revision)
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r
}

func call(token, tool, args string) *http.Request {
	return post(token, "tools/call", tool, `"name":"`+tool+`","arguments":`+args)
}

// send returns the status and body that the handler answers.
func send(h http.Handler, r *http.Request) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestNewRefusesIncompleteOptions(t *testing.T) {
	complete := newFixture(t, nil)
	for name, change := range map[string]func(*Options){
		"dispatcher":    func(o *Options) { o.Dispatcher = nil },
		"authenticator": func(o *Options) { o.Auth = nil },
		"name":          func(o *Options) { o.Name = "" },
		"version":       func(o *Options) { o.Version = "" },
		"limit":         func(o *Options) { o.MaxBody = -1 },
		"ui://a/../b":   func(o *Options) { o.Assets = map[string][]byte{"ui://a/../b": nil} },
	} {
		o := Options{Dispatcher: complete.dispatcher, Auth: newAuthenticator(t), Name: "ze", Version: "1"}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: New returned %v, want an error about it", name, err)
		}
	}
}

func TestNewRefusesACommandNamedAsABuiltinTool(t *testing.T) {
	f := newFixture(t, nil)
	rename := command.New(&schema.Command{Path: []string{"execute"}, Effect: "read", Input: &schema.Object{}, Output: &schema.Object{}}, nil)
	if err := f.registry.Register(rename); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dispatcher: f.dispatcher, Auth: newAuthenticator(t), Name: "ze", Version: "1"}); err == nil || !strings.Contains(err.Error(), "ze_execute") {
		t.Errorf("New returned %v, want an error about ze_execute", err)
	}
}

// A tool the caller may not use and a tool there is not must look alike, or
// names of commands leak to those who may not know them.
func TestForbiddenToolLooksUnknown(t *testing.T) {
	f := newFixture(t, nil)
	_, forbidden := send(f, call(readToken, "ze_smash", `{"lamp":"hall"}`))
	_, unknown := send(f, call(readToken, "ze_crash", `{"lamp":"hall"}`))
	if got := strings.ReplaceAll(forbidden, "ze_smash", "ze_crash"); got != unknown {
		t.Errorf("forbidden: %s\nunknown:   %s", got, unknown)
	}
}

func TestListFollowsTheRegistry(t *testing.T) {
	f := newFixture(t, nil)
	_, before := send(f, post(adminToken, "tools/list", "", ""))
	if _, again := send(f, post(adminToken, "tools/list", "", "")); again != before {
		t.Errorf("two lists differ:\n%s\n%s", before, again)
	}
	polish := command.New(&schema.Command{Path: []string{"polish"}, Effect: "change", Description: "Polish.", Input: &schema.Object{}, Output: &schema.Object{}},
		func(context.Context, *command.Request) (any, error) { return struct{}{}, nil })
	if err := f.registry.Register(polish); err != nil {
		t.Fatal(err)
	}
	if _, after := send(f, post(adminToken, "tools/list", "", "")); !strings.Contains(after, `"ze_polish"`) {
		t.Errorf("the list does not show a command registered since: %s", after)
	}
	if _, reader := send(f, post(readToken, "tools/list", "", "")); strings.Contains(reader, `"ze_polish"`) {
		t.Errorf("a reader is shown a tool that it may not use: %s", reader)
	}
}

func TestListCacheIsBounded(t *testing.T) {
	f := newFixture(t, nil)
	p := access.Principal{Name: "admin", Scope: access.Admin}
	for i := range 3 * maxLists {
		p.Deny = []string{"show lamp", strings.Repeat("x", i+1)}
		if _, err := f.list(&p, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.lists.byView); n > maxLists {
		t.Errorf("%d lists are kept, at most %d may be", n, maxLists)
	}
}

func TestToolResultTextIsTheStructuredContent(t *testing.T) {
	f := newFixture(t, nil)
	_, body := send(f, call(adminToken, "ze_show_lamp", `{}`))
	var answer struct {
		Result struct {
			Content           []struct{ Type, Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if c := answer.Result.Content; len(c) != 1 || c[0].Type != "text" || c[0].Text != string(answer.Result.StructuredContent) || !strings.Contains(c[0].Text, "küche") {
		t.Errorf("content and structuredContent differ: %s", body)
	}
}

func TestPanicEndsOneRequestOnly(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, func(o *Options) { o.Logger = zerolog.New(&log) })
	f.ledger.broken.Store(true)
	status, body := send(f, call(adminToken, "ze_show", `{"action":"clock"}`))
	if want := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error; the daemon's log has the cause"}}`; status != 200 || body != want {
		t.Errorf("got %d %s, want 200 %s", status, body, want)
	}
	if !strings.Contains(log.String(), "the ledger is broken") || !strings.Contains(log.String(), "fixture_test.go") {
		t.Errorf("the log has no stack of the panic: %s", log.String())
	}
	f.ledger.broken.Store(false)
	if _, body := send(f, call(adminToken, "ze_show", `{"action":"clock"}`)); !strings.Contains(body, `"isError":false`) {
		t.Errorf("the next call failed: %s", body)
	}
	if n := testutil.ToFloat64(f.metrics.inFlight.WithLabelValues("ze_show")); n != 0 {
		t.Errorf("%v calls are counted as running, none is", n)
	}
	if n := testutil.ToFloat64(f.metrics.toolCalls.WithLabelValues("ze_show", "internal")); n != 1 {
		t.Errorf("%v calls are counted as failed, one did", n)
	}
}

// Closing the connection is how a client cancels a call.
func TestDisconnectCancelsTheCommand(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := call(adminToken, "ze_show", `{"action":"wait"}`)
	sent, err := http.NewRequestWithContext(ctx, r.Method, server.URL, r.Body)
	if err != nil {
		t.Fatal(err)
	}
	sent.Header = r.Header
	done := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(sent)
		if err == nil {
			res.Body.Close()
		}
		done <- err
	}()
	<-f.lamps.waiting
	if n := testutil.ToFloat64(f.metrics.inFlight.WithLabelValues("ze_show")); n != 1 {
		t.Errorf("%v calls are counted as running, one is", n)
	}
	cancel()
	if err := <-f.lamps.cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("the command ended with %v", err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
}

// A body that stops short, and one that is longer than announced or not
// announced at all, must not get past the limit.
func TestBodyLimit(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxBody = 1024 })
	for name, test := range map[string]struct {
		body   io.Reader
		length int64
		status int
	}{
		"announced too large": {strings.NewReader("{}"), 1025, 413},
		"not announced":       {strings.NewReader(strings.Repeat(" ", 1025)), -1, 413},
		"as large as allowed": {strings.NewReader(`{"jsonrpc":"2.0","method":"x"}` + strings.Repeat(" ", 1024-30)), 1024, 202},
		"stops short":         {io.MultiReader(strings.NewReader("{"), brokenReader{}), 30, 400},
	} {
		r := post(adminToken, "x", "", "")
		r.Body, r.ContentLength = io.NopCloser(test.body), test.length
		if status, body := send(f, r); status != test.status {
			t.Errorf("%s: got %d %s, want %d", name, status, body, test.status)
		}
	}
}

// brokenReader stands for a connection that was lost.
type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestMetricsHaveNoLabelsOfTheCaller(t *testing.T) {
	f := newFixture(t, nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(f.Collectors()...)
	for _, r := range []*http.Request{
		post(adminToken, "server/discover", "", ""),
		post(adminToken, "made/up", "", ""),
		post("made-up", "tools/list", "", ""),
		call(adminToken, "ze_show_lamp", `{}`),
		call(adminToken, "ze_made_up", `{}`),
		call(adminToken, "ze_switch", `{"lamp":"attic","on":true}`),
		call(adminToken, "ze_execute", `{"command":"made up"}`),
	} {
		send(f, r)
	}
	want := `# HELP ze_mcp_requests_total MCP requests by method, and by outcome: ok, a JSON-RPC error code, or the HTTP status of a refusal.
# TYPE ze_mcp_requests_total counter
ze_mcp_requests_total{code="-32601",method="unknown"} 1
ze_mcp_requests_total{code="401",method="unknown"} 1
ze_mcp_requests_total{code="ok",method="server/discover"} 1
ze_mcp_requests_total{code="-32602",method="tools/call"} 1
ze_mcp_requests_total{code="ok",method="tools/call"} 3
# HELP ze_tool_calls_total MCP tool calls by tool, and by outcome: ok or the code of the command's error.
# TYPE ze_tool_calls_total counter
ze_tool_calls_total{outcome="not-found",tool="ze_switch"} 1
ze_tool_calls_total{outcome="ok",tool="ze_show_lamp"} 1
ze_tool_calls_total{outcome="unknown",tool="unknown"} 1
ze_tool_calls_total{outcome="unknown",tool="ze_execute"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "ze_mcp_requests_total", "ze_tool_calls_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(f.metrics.duration); n != 3 {
		t.Errorf("the histogram has %d tools, 3 ran", n)
	}
}

func TestLogHasNoSecretsAndNoArguments(t *testing.T) {
	var log bytes.Buffer
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	f := newFixture(t, func(o *Options) {
		o.Logger = zerolog.New(&log)
		o.Clock = func() time.Time { return now }
	})
	send(f, call(adminToken, "ze_switch", `{"lamp":"hall","on":true}`))
	send(f, call("ze_wrong-token", "ze_switch", `{"lamp":"hall","on":true}`))
	want := `{"level":"debug","tool":"ze_switch","principal":"admin","outcome":"ok","duration-ms":0,"message":"tool call"}` + "\n"
	if log.String() != want {
		t.Errorf("got %swant %s", log.String(), want)
	}
}

// Each caller's answer carries its own id and arguments, whatever else runs.
func TestConcurrentCallsDoNotMix(t *testing.T) {
	f := newFixture(t, nil)
	var wg sync.WaitGroup
	for _, lamp := range []string{"a", "b", "c", "d"} {
		for _, token := range []string{adminToken, readToken} {
			wg.Go(func() {
				for range 50 {
					_, body := send(f, call(adminToken, "ze_switch", `{"lamp":"`+lamp+`","on":true}`))
					if !strings.Contains(body, `"structuredContent":{"lamp":"`+lamp+`"`) {
						t.Errorf("lamp %s: %s", lamp, body)
						return
					}
					if _, list := send(f, post(token, "tools/list", "", "")); strings.Contains(list, `"ze_smash"`) != (token == adminToken) {
						t.Errorf("%s got a list of another caller", token)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// Large bodies share a budget: what they may hold together is bounded, and
// small requests do not notice.
func TestLargeBodiesShareABudget(t *testing.T) {
	f := newFixture(t, nil)
	large := func() *http.Request {
		return call(adminToken, "ze_execute", `{"command":"show clock `+strings.Repeat(" ", 100<<10)+`"}`)
	}
	if status, body := send(f, large()); status != http.StatusOK {
		t.Fatalf("alone: %d %.200s", status, body)
	}
	if n := f.large.held; n != 0 {
		t.Errorf("%d octets stay reserved", n)
	}
	over := func(token string) {
		t.Helper()
		for _, length := range []int64{0, -1} { // announced, and not
			r := large()
			r.Header.Set("Authorization", "Bearer "+token)
			if length < 0 {
				r.ContentLength = length
			}
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
				t.Errorf("over the budget: %d %.200s", w.Code, w.Body)
			}
		}
	}
	// One caller has its share and no more, whatever it does.
	give, ok := f.large.take("admin (a1)", f.maxBody)
	if !ok {
		t.Fatal("a share is not to be had")
	}
	over(adminToken)
	if status, body := send(f, call(readToken, "ze_execute", `{"command":"show clock `+strings.Repeat(" ", 100<<10)+`"}`)); status != http.StatusOK {
		t.Errorf("another caller: %d %.200s", status, body)
	}
	give()
	give()
	if status, body := send(f, large()); status != http.StatusOK {
		t.Errorf("after giving back: %d %.200s", status, body)
	}
	for i := range int64(largeBodies) {
		f.large.take("another "+strconv.FormatInt(i, 10), f.maxBody)
	}
	over(adminToken)
	if status, body := send(f, call(adminToken, "ze_execute", `{"command":"show clock"}`)); status != http.StatusOK {
		t.Errorf("a small one: %d %s", status, body)
	}
	if n := f.large.held; n != largeBodies*f.maxBody {
		t.Errorf("the refused ones changed the budget by %d", n-largeBodies*f.maxBody)
	}
}
