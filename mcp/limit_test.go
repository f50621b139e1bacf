package mcp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/access"
)

// unread is a body that must not be looked at.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

func answer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Over its rate a caller hears 429 and when to come again, before its body is
// looked at; others go on.
func TestRateOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Limiter = access.NewLimiter(access.Limits{Rate: 1, Burst: 5}, nil) })
		for range 5 {
			if status, body := send(f, call(adminToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
				t.Fatal(status, body)
			}
		}
		r := call(adminToken, "ze_show_lamp", `{}`)
		r.Body = io.NopCloser(unread{t})
		w := answer(f, r)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"error":{"code":`) {
			t.Errorf("over the limit: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if status, body := send(f, call(readToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
			t.Errorf("another caller: %d %s", status, body)
		}
		time.Sleep(time.Second)
		if status, body := send(f, call(adminToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
			t.Errorf("after the wait: %d %s", status, body)
		}
		if err := f.ledger.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, rec := range f.kept.records {
			if rec.Outcome == "limit" {
				refused++
				if rec.Principal != "admin" || rec.Surface != "mcp" || rec.Remote == "" {
					t.Errorf("%+v", rec)
				}
			}
		}
		if refused != 1 {
			t.Errorf("%d records of a refusal", refused)
		}
	})
}

// No more calls of one caller run at a time than allowed, and one that ends
// makes room for the next.
func TestConcurrencyOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Limiter = access.NewLimiter(access.Limits{Concurrent: 2}, nil) })
		f.lamps.waiting, f.lamps.cancelled = make(chan struct{}, 2), make(chan error, 2)
		var wg sync.WaitGroup
		cancels := make(chan context.CancelFunc, 2)
		for range 2 {
			wg.Go(func() {
				r := call(adminToken, "ze_show", `{"action":"wait"}`)
				ctx, cancel := context.WithCancel(t.Context())
				cancels <- cancel
				send(f, r.WithContext(ctx))
			})
		}
		<-f.lamps.waiting
		<-f.lamps.waiting
		w := answer(f, call(adminToken, "ze_show_lamp", `{}`))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third call at a time: %d %s", w.Code, w.Body)
		}
		(<-cancels)()
		(<-cancels)()
		wg.Wait()
		if status, body := send(f, call(adminToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
			t.Errorf("after they ended: %d %s", status, body)
		}
	})
}

// Guessing is slowed down for its source; a valid token from there always works.
// Every failure is in the audit log, counted in the end, and nothing of what was
// presented is.
func TestFailuresOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) {
			o.Throttle = access.NewThrottle(nil)
			o.Limiter = access.NewLimiter(access.Limits{Rate: 1000, Burst: 1000}, nil)
		})
		codes := map[int]int{}
		for range 500 {
			r := call("ze_wrong:"+adminToken, "ze_show_lamp", `{}`)
			r.Body = io.NopCloser(unread{t})
			w := answer(f, r)
			if codes[w.Code]++; w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "3" {
				t.Fatalf("%v", w.Header())
			}
			if status, body := send(f, call(readToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
				t.Fatalf("a valid token from the same source: %d %s", status, body)
			}
		}
		if codes[http.StatusUnauthorized] != 20 || codes[http.StatusTooManyRequests] != 480 {
			t.Errorf("%v", codes)
		}
		r := call("wrong-token-entirely", "ze_show_lamp", `{}`)
		r.RemoteAddr = "192.0.2.77:1"
		if w := answer(f, r); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("another source: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := answer(f, call("wrong-token-entirely", "ze_show_lamp", `{}`)); w.Code != http.StatusUnauthorized {
			t.Errorf("a minute later: %d", w.Code)
		}
		if err := f.ledger.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		failures := 0
		for _, rec := range f.kept.records {
			if rec.Outcome == "unauthenticated" {
				failures += max(1, int(rec.Count))
				if rec.Principal != "" || rec.Command != "" || rec.Surface != "mcp" || strings.Contains(rec.Hash+rec.Remote+rec.Args, "wrong") {
					t.Errorf("%+v", rec)
				}
			}
		}
		if failures != 502 {
			t.Errorf("%d failures are recorded", failures)
		}
	})
}
