package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/outputtest"
	"ze.internal/ze/appliance/schema"
)

func TestKeepAlive(t *testing.T) {
	for _, test := range []struct {
		name    string
		accepts accepts
		begin   func(*responder)
		want    string
	}{
		{"a stream that says nothing", accepts{json: true, stream: true},
			func(o *responder) { _ = o.notify("notifications/progress", []byte(`{}`)) },
			"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n" +
				": keep-alive\n\n: keep-alive\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"},
		{"an answer that takes long becomes a stream", accepts{json: true, stream: true},
			func(*responder) {},
			": keep-alive\n\n: keep-alive\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"},
		{"not where a stream is not taken", accepts{json: true},
			func(*responder) {}, `{"jsonrpc":"2.0","id":1,"result":{}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := httptest.NewRecorder()
				r := &request{header: post(readToken, "", "", "").Header, principal: &access.Principal{Name: "reader", Accessor: "r1"},
					out: responder{w: w, interval: defaultKeepAlive, accepts: test.accepts}}
				o := &r.out
				if err := newFixture(t, nil).whileValid(t.Context(), r, func(context.Context) {
					test.begin(o)
					time.Sleep(2*defaultKeepAlive + time.Second) // of the bubble's clock
				}); err != nil {
					t.Fatal(err)
				}
				o.result([]byte("1"), []byte("{}"))
				time.Sleep(2 * defaultKeepAlive) // nothing may follow the answer
				if got := w.Body.String(); got != test.want {
					t.Errorf("got  %q\nwant %q", got, test.want)
				}
			})
		})
	}
}

// withBody returns r with another body.
func withBody(r *http.Request, body string) *http.Request {
	sent := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
	sent.Header, sent.Host = r.Header, r.Host
	return sent
}

// withMeta returns r with a further member of _meta.
func withMeta(r *http.Request, member string) *http.Request {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	return withBody(r, strings.Replace(body.String(), `"_meta":{`, `"_meta":{`+member+`,`, 1))
}

// add registers a hidden command that only reads.
func (f *fixture) add(t *testing.T, name string, run command.Run) {
	t.Helper()
	err := f.registry.Register(command.New(&schema.Command{Path: strings.Fields(name), Effect: "read", Hidden: true,
		Description: "For tests.", Input: &schema.Object{}, Output: &schema.Object{}}, run))
	if err != nil {
		t.Fatal(err)
	}
}

// reportedProgress runs a command that reports the steps and returns what its
// caller hears of it.
func reportedProgress(t *testing.T, steps func(context.Context)) []float64 {
	f := newFixture(t, nil)
	f.add(t, "climb", func(ctx context.Context, _ *command.Request) (any, error) {
		steps(ctx)
		return struct{}{}, nil
	})
	_, answer := send(f, withMeta(call(adminToken, executeName, `{"command":"climb"}`), `"progressToken":1`))
	var heard []float64
	for line := range strings.Lines(answer) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var n struct {
			Method string
			Params struct{ Progress float64 }
		}
		if err := json.Unmarshal([]byte(data), &n); err != nil {
			t.Fatal(err)
		}
		if n.Method == "notifications/progress" {
			heard = append(heard, n.Params.Progress)
		}
	}
	return heard
}

func TestProgressRisesAndIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := reportedProgress(t, func(ctx context.Context) {
			for i := range 1000 { // ten seconds
				command.Report(ctx, command.Progress{Done: float64(i % 300)})
				time.Sleep(10 * time.Millisecond)
			}
		})
		if len(heard) < 20 || len(heard) > 100 {
			t.Errorf("%d notifications in ten seconds, want at most 100", len(heard))
		}
		for i := 1; i < len(heard); i++ {
			if heard[i] <= heard[i-1] {
				t.Errorf("progress %v follows %v", heard[i], heard[i-1])
			}
		}
	})
}

// The deadlines of the server are for reading requests. A call that takes longer
// must not be taken for one whose caller has gone.
func TestSlowCallOutlivesTheReadDeadline(t *testing.T) {
	const deadline = 200 * time.Millisecond
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		f := newFixture(t, func(o *Options) { o.KeepAlive = deadline / 4 })
		f.add(t, "doze", func(ctx context.Context, _ *command.Request) (any, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(2 * deadline): // what is tested is that time passes
				return struct{}{}, nil
			}
		})
		server := httptest.NewUnstartedServer(f.guarded())
		server.Config.ReadTimeout = deadline
		server.Start()
		r := call(adminToken, executeName, `{"command":"doze"}`)
		r.URL.Host, r.Host, r.RequestURI = server.Listener.Addr().String(), "", ""
		r.Header.Set("Accept", accept)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		var body bytes.Buffer
		_, err = body.ReadFrom(res.Body)
		if res.Body.Close(); err != nil || !strings.Contains(body.String(), `"isError":false`) {
			t.Errorf("Accept %s: %v, %s", accept, err, body.String())
		}
		server.Close()
	}
}

// Closing a stream cancels the call like closing any other answer.
func TestClosingAStreamCancelsTheCall(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.KeepAlive = time.Millisecond })
	server := httptest.NewServer(f.guarded())
	defer server.Close()
	r := call(adminToken, "ze_show", `{"action":"wait"}`)
	r.URL.Host, r.Host, r.RequestURI = server.Listener.Addr().String(), "", ""
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != ": keep-alive\n" {
		t.Errorf("the stream begins with %q, %v", line, err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	<-f.lamps.waiting
	if err := <-f.lamps.cancelled; err != context.Canceled {
		t.Errorf("the call ended with %v, want %v", err, context.Canceled)
	}
}

func TestTraceContextReachesTheLog(t *testing.T) {
	f := newFixture(t, nil)
	for trace, want := range map[string]string{
		`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1"`: `"trace-id":"4bf92f3577b34da6a3ce929d0e0e4736","span-id":"00f067aa0ba902b7","trace-state":"a=1"`,
		`"traceparent":"00-0-0-01"`: "",
	} {
		var log outputtest.Output
		f.dispatcher.Logger = zerolog.New(&log)
		sent := withMeta(call(adminToken, "ze_show", `{"action":"clock"}`), trace)
		if status, answer := send(f, sent); status != http.StatusOK {
			t.Fatalf("%d: %s", status, answer)
		}
		got := log.String()
		if !strings.Contains(got, `"command":"show clock"`) || !strings.Contains(got, want) || (want == "" && strings.Contains(got, "trace-id")) {
			t.Errorf("%s: the log says %s", trace, got)
		}
	}
}
