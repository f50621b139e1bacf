package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

const model = `module doors {
  yang-version 1.1; namespace "urn:doors"; prefix d;
  import ze-extensions { prefix ze; }
  import ze-types { prefix zt; }
  revision 2026-11-30 { description "Commands for tests."; }
  rpc show-door { ze:command "show door"; ze:effect read; ze:example "show door"; description "Doors.";
    input { leaf name { type zt:name; ze:positional; description "Which."; } }
    output { leaf door { type string; description "The door."; } } }
  rpc fail { ze:command "fail"; ze:effect read; ze:example "fail code conflict"; description "Fail.";
    input { leaf code { type string; mandatory true; description "With this code."; } }
    output { leaf never { type string; description "Nothing."; } } }
}`

// auditLog stands for the audit log: it keeps what was refused.
type auditLog struct{ refused []audit.Record }

func (*auditLog) Begin(context.Context, audit.Record) (uint64, error) { return 1, nil }
func (*auditLog) End(context.Context, uint64, audit.Record) error     { return nil }
func (*auditLog) Note(audit.Record) error                             { return nil }
func (*auditLog) Pending(records ...audit.Record) *audit.Pending      { return audit.NewPending(records...) }
func (l *auditLog) Refused(r audit.Record)                            { l.refused = append(l.refused, r) }

func newHandler(t *testing.T) http.Handler { return newLimitedHandler(t, &auditLog{}, nil, nil) }

func newLimitedHandler(t *testing.T, log *auditLog, limiter *access.Limiter, throttle *access.Throttle) http.Handler {
	t.Helper()
	set, err := schema.Load([]schema.Source{{Name: "doors.yang", Text: []byte(model)}})
	if err != nil {
		t.Fatal(err)
	}
	reg := command.NewRegistry()
	for _, decl := range set.Commands() {
		if err := reg.Register(command.New(decl, func(_ context.Context, r *command.Request) (any, error) {
			var in struct{ Name, Code string }
			if err := r.Bind(&in); err != nil {
				return nil, err
			}
			if in.Code != "" {
				return nil, &command.Error{Code: command.Code(in.Code), Message: "as asked"}
			}
			return map[string]string{"door": in.Name}, nil
		})); err != nil {
			t.Fatal(err)
		}
	}
	d := command.NewDispatcher(command.Options{Registry: reg, Audit: log, Clock: time.Now, Logger: zerolog.Nop()})
	return New(Options{Dispatcher: d, Limiter: limiter, Throttle: throttle, Surface: "rest", Logger: zerolog.Nop(), Principal: func(r *http.Request) (*access.Principal, error) {
		if r.Header.Get("X-Test-User") == "" {
			return nil, errors.New("nobody")
		}
		return &access.Principal{Name: "someone", Scope: access.Read}, nil
	}})
}

func TestRoutes(t *testing.T) {
	h := newHandler(t)
	for _, row := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"POST", "/api/v1/commands/show/door", `{"name":"front"}`, 200, `{"door":"front"}`},
		{"POST", "/api/v1/commands/show/door", ``, 200, `{"door":""}`},
		{"POST", "/api/v1/commands/show/door/", ``, 200, `{"door":""}`},
		{"POST", "/api/v1/commands/show/dor", ``, 404, `"unknown"`},
		{"POST", "/api/v1/commands/show/door", `{"name":"front","name":"back"}`, 400, `"invalid"`},
		{"POST", "/api/v1/commands/show/door", `[]`, 400, `"invalid"`},
		{"POST", "/api/v1/commands/show/door", `{"naem":"x"}`, 400, `did you mean name`},
		{"POST", "/api/v1/execute", `{"command":"show door back"}`, 200, `{"door":"back"}`},
		{"POST", "/api/v1/execute", `{"command":"show window"}`, 404, `"unknown"`},
		{"POST", "/api/v1/execute", `{}`, 400, `"field":"command"`},
		{"POST", "/api/v1/execute", `{"command":7}`, 400, `"field":"command"`},
		{"POST", "/api/v1/execute", `{"command":"a","command":"b"}`, 400, `"invalid"`},
		{"POST", "/api/v1/execute", `nonsense`, 400, `"invalid"`},
		{"POST", "/api/v1/execute", "", 400, `"invalid"`},
		{"GET", "/api/v1/commands", ``, 200, `"name":"show door"`},
		{"GET", "/api/v1/execute", ``, 405, ``},
		{"GET", "/nowhere", ``, 404, ``},
		{"POST", "/api/v1/execute", `{"command":"fail code not-found"}`, 404, `"as asked"`},
		{"POST", "/api/v1/execute", `{"command":"fail code conflict"}`, 409, `"as asked"`},
		{"POST", "/api/v1/execute", `{"command":"fail code unavailable"}`, 503, `"as asked"`},
		{"POST", "/api/v1/execute", `{"command":"fail code limit"}`, 429, `"as asked"`},
		{"POST", "/api/v1/execute", `{"command":"fail code internal"}`, 500, `"as asked"`},
		{"POST", "/api/v1/execute", `{"command":"` + strings.Repeat("x", maxBody) + `"}`, 413, `24 MiB`},
	} {
		r := httptest.NewRequest(row.method, row.path, strings.NewReader(row.body))
		r.Header.Set("X-Test-User", "someone")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.status || !strings.Contains(w.Body.String(), row.has) {
			t.Errorf("%s %s %.60s: %d %.300s\nwant %d with %s", row.method, row.path, row.body, w.Code, w.Body, row.status, row.has)
		}
		if row.status != http.StatusMethodNotAllowed && row.path != "/nowhere" && !json.Valid(bytes.TrimSpace(w.Body.Bytes())) {
			t.Errorf("%s %s: no JSON: %s", row.method, row.path, w.Body)
		}
	}
}

func TestUnknownCallers(t *testing.T) {
	w := httptest.NewRecorder()
	newHandler(t).ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/commands", nil))
	if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "door") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// unread is a body that must not be looked at.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// TestLimits: over a limit the answer is 429 with the time to wait, before the
// body is read; a caller that is known pays nothing for those who are not.
func TestLimits(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	log := &auditLog{}
	h := newLimitedHandler(t, log, access.NewLimiter(access.Limits{Rate: 0.5, Burst: 3}, clock), access.NewThrottle(clock))
	ask := func(known bool, body io.Reader) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/api/v1/commands/show/door", body)
		if known {
			r.Header.Set("X-Test-User", "someone")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	unknown := map[int]int{}
	for range 100 {
		w := ask(false, unread{t})
		if unknown[w.Code]++; w.Code == http.StatusTooManyRequests && (w.Header().Get("Retry-After") != "3" || !strings.Contains(w.Body.String(), `"limit"`)) {
			t.Fatalf("%v %s", w.Header(), w.Body)
		}
	}
	if unknown[http.StatusUnauthorized] != 20 || unknown[http.StatusTooManyRequests] != 80 {
		t.Errorf("unknown callers: %v", unknown)
	}
	for range 3 {
		if w := ask(true, nil); w.Code != http.StatusOK {
			t.Errorf("a known caller of the same address: %d %s", w.Code, w.Body)
		}
	}
	w := ask(true, unread{t})
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
		t.Errorf("over the limit: %d %v %s", w.Code, w.Header(), w.Body)
	}
	now = now.Add(2 * time.Second)
	if w := ask(true, nil); w.Code != http.StatusOK {
		t.Errorf("after the wait: %d %s", w.Code, w.Body)
	}
	if n := len(log.refused); n != 101 || log.refused[0].Outcome != "unauthenticated" || log.refused[100].Outcome != "limit" || log.refused[100].Principal != "someone" {
		t.Errorf("%d refusals: %+v", n, log.refused[n-1])
	}
}

// TestEveryCodeHasAStatus: no error answers as a success.
func TestEveryCodeHasAStatus(t *testing.T) {
	for _, c := range []command.Code{command.Invalid, command.Unknown, command.NotFound, command.Conflict, command.Unavailable,
		command.Limit, command.Canceled, command.Forbidden, command.InvalidConfiguration, command.Damaged, command.Internal} {
		if statuses[c] < 400 {
			t.Errorf("%s answers %d", c, statuses[c])
		}
	}
}
