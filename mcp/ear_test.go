package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// notification is what comes on a stream: notifications, and at last a response.
type notification struct {
	Method string
	Params struct {
		Meta          map[string]json.RawMessage `json:"_meta"`
		Notifications json.RawMessage
		URI           string
		ResultType    string
		TaskID        string
		Status        string
		Result        json.RawMessage
	}
	ID     json.RawMessage
	Result struct {
		Type string                     `json:"resultType"`
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	Error *struct{ Code int }
}

// ear is the receiving end of a stream, and the http.ResponseWriter of it.
type ear struct {
	header http.Header
	end    context.CancelFunc // of the caller
	ended  chan struct{}      // closed when the server has answered

	mu     sync.Mutex
	status int
	text   bytes.Buffer
	heard  chan notification
}

func (e *ear) Header() http.Header { return e.header }

func (e *ear) WriteHeader(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

func (e *ear) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(b)
}

// Flush hands on what is complete.
func (e *ear) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(e.text.String()) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var n notification
			if err := json.Unmarshal([]byte(data), &n); err != nil {
				panic(err)
			}
			e.heard <- n
		}
	}
	e.text.Reset()
}

// listen opens a stream that listens for what filter says.
func (f *fixture) listen(t *testing.T, ctx context.Context, token, filter string) *ear {
	t.Helper()
	return f.listenAs(t, ctx, token, "{}", filter)
}

// listenAs does so for a client with these capabilities.
func (f *fixture) listenAs(t *testing.T, ctx context.Context, token, can, filter string) *ear {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	e := &ear{header: http.Header{}, end: cancel, ended: make(chan struct{}), heard: make(chan notification, 1000)}
	r := post(token, "subscriptions/listen", "", `"notifications":`+filter)
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	text := strings.NewReplacer(`"id":1`, `"id":"s-7"`, `clientCapabilities":{}`, `clientCapabilities":`+can).Replace(body.String())
	r = withBody(r, text).WithContext(ctx)
	go func() {
		defer close(e.ended)
		f.ServeHTTP(e, r)
	}()
	return e
}

// next returns the next notification.
func (e *ear) next(t *testing.T) notification {
	t.Helper()
	select {
	case n := <-e.heard:
		if n.Method != "" && string(n.Params.Meta["io.modelcontextprotocol/subscriptionId"]) != `"s-7"` {
			t.Errorf("%s is not tagged with the id of the request: %s", n.Method, n.Params.Meta)
		}
		return n
	case <-time.After(10 * time.Second):
		t.Fatal("nothing more is heard")
		return notification{}
	}
}

// acknowledged returns what is honoured.
func (e *ear) acknowledged(t *testing.T) string {
	t.Helper()
	n := e.next(t)
	if n.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("first comes %+v", n)
	}
	return string(n.Params.Notifications)
}

// over awaits the end of the stream and checks its result.
func (e *ear) over(t *testing.T) {
	t.Helper()
	n := e.next(t)
	<-e.ended
	if string(n.ID) != `"s-7"` || n.Result.Type != "complete" || string(n.Result.Meta["io.modelcontextprotocol/subscriptionId"]) != `"s-7"` ||
		n.Result.Meta["io.modelcontextprotocol/serverInfo"] == nil {
		t.Errorf("the stream ends with %+v", n)
	}
	if len(e.heard) > 0 {
		t.Errorf("%d messages follow the result", len(e.heard))
	}
}
