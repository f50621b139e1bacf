package access

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func retry(t *testing.T, err error) time.Duration {
	t.Helper()
	var limit *LimitError
	if !errors.As(err, &limit) || limit.RetryAfter <= 0 || limit.Message == "" {
		t.Fatalf("no limit: %v", err)
	}
	return limit.RetryAfter
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Rate: 10, Burst: 20}, nil)
		a, b := &Principal{Name: "a"}, &Principal{Name: "b"}
		enter := func(p *Principal) error {
			leave, err := l.Enter(p)
			if err == nil {
				leave()
			}
			return err
		}
		for i := range 20 {
			if err := enter(a); err != nil {
				t.Fatalf("request %d of the burst: %v", i, err)
			}
		}
		wait := retry(t, enter(a))
		if wait != 100*time.Millisecond {
			t.Errorf("told to wait %v", wait)
		}
		for range 100 { // asking does not make it longer
			retry(t, enter(a))
		}
		if err := enter(b); err != nil {
			t.Errorf("another caller pays for it: %v", err)
		}
		time.Sleep(wait)
		if err := enter(a); err != nil {
			t.Errorf("after the wait: %v", err)
		}
		retry(t, enter(a))
		// In the long run it is the rate, however often one asks.
		passed := 0
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if enter(a) == nil {
				passed++
			}
		}
		if passed < 99 || passed > 101 {
			t.Errorf("%d requests in 10 s at 10/s", passed)
		}
		l.SetLimits(Limits{Rate: 1000, Burst: 2000})
		time.Sleep(2 * time.Second)
		for range 2000 {
			if err := enter(a); err != nil {
				t.Fatalf("with higher limits: %v", err)
			}
		}
		l.SetLimits(Limits{})
		for range 10_000 {
			if err := enter(a); err != nil {
				t.Fatalf("without limits: %v", err)
			}
		}
	})
}

func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Concurrent: 8}, nil)
		p := &Principal{Name: "a"}
		var inside, most, refused, done atomic.Int32
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for {
					leave, err := l.Enter(p)
					if err != nil {
						refused.Add(1)
						time.Sleep(retry(t, err))
						continue
					}
					for n := inside.Add(1); ; {
						if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
							break
						}
					}
					time.Sleep(time.Second / 2)
					inside.Add(-1)
					leave()
					leave() // twice is once
					done.Add(1)
					return
				}
			})
		}
		wg.Wait()
		if most.Load() != 8 || done.Load() != 50 || refused.Load() == 0 {
			t.Errorf("%d at a time, %d done, %d refused", most.Load(), done.Load(), refused.Load())
		}
		for range 8 {
			if _, err := l.Enter(p); err != nil {
				t.Fatalf("a place was lost: %v", err)
			}
		}
	})
}

// A refused request takes nothing: not of the rate when too many are under way.
func TestRefusedRequestsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Rate: 1, Burst: 2, Concurrent: 1}, nil)
		p := &Principal{Name: "a"}
		leave, err := l.Enter(p)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := l.Enter(p); retry(t, err) != time.Second {
				t.Error(err)
			}
		}
		leave()
		if leave, err = l.Enter(p); err != nil {
			t.Fatal(err)
		}
		leave()
	})
}

// Callers that come and go cost no memory, and being forgotten gains nothing.
func TestLimitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(Limits{Rate: 1, Burst: 5, Concurrent: 5}, nil)
		busy, err := l.Enter(&Principal{Name: "busy"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 * maxKept {
			leave, err := l.Enter(&Principal{Name: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			leave()
			if len(l.kept) > maxKept {
				t.Fatalf("%d kept", len(l.kept))
			}
		}
		if l.kept[holder{"busy", ""}] == nil {
			t.Error("a caller with a request under way was forgotten")
		}
		busy()
		spender := &Principal{Name: "spender"}
		for range 5 {
			leave, err := l.Enter(spender)
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		time.Sleep(2 * time.Minute)
		if _, err := l.Enter(&Principal{Name: "next"}); err != nil || len(l.kept) != 1 {
			t.Errorf("%d kept after everybody was quiet for long: %v", len(l.kept), err)
		}
	})
}

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewThrottle(nil)
		for i := range failureBurst {
			if err := h.Failed(fmt.Sprintf("192.0.2.1:%d", i)); err != nil {
				t.Fatalf("failure %d: %v", i, err)
			}
		}
		wait := retry(t, h.Failed("192.0.2.1:999"))
		if wait != failureEvery {
			t.Errorf("told to wait %v", wait)
		}
		retry(t, h.Failed("[::ffff:192.0.2.1]:1")) // the same machine
		if err := h.Failed("192.0.2.2:1"); err != nil {
			t.Errorf("another address pays for it: %v", err)
		}
		time.Sleep(wait)
		if err := h.Failed("192.0.2.1:1"); err != nil {
			t.Errorf("after the wait: %v", err)
		}
		// All addresses of one IPv6 network are one source.
		for i := range failureBurst {
			if err := h.Failed(fmt.Sprintf("[2001:db8::%x]:1", i)); err != nil {
				t.Fatal(err)
			}
		}
		retry(t, h.Failed("[2001:db8::ffff]:1"))
		if err := h.Failed("[2001:db8:0:1::1]:1"); err != nil {
			t.Errorf("another network: %v", err)
		}
		if err := h.Failed("@"); err != nil { // a unix socket has no address
			t.Error(err)
		}
	})
}

// More sources than there is room for share what is left: no memory, no way round.
func TestThrottleIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewThrottle(nil)
		refused := 0
		for i := range 2 * maxKept {
			for range 2 {
				if h.Failed(fmt.Sprintf("10.%d.%d.1:1", i/256, i%256)) != nil {
					refused++
				}
			}
		}
		if len(h.kept) > maxKept || refused < maxKept {
			t.Errorf("%d kept, %d refused", len(h.kept), refused)
		}
		time.Sleep(time.Hour)
		if err := h.Failed("192.0.2.1:1"); err != nil || len(h.kept) > 2 {
			t.Errorf("%d kept after an hour: %v", len(h.kept), err)
		}
	})
}

func TestRetrySeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "1", 1: "1", time.Second: "1", time.Second + 1: "2", 3 * time.Minute: "180"} {
		if got := RetrySeconds(d); got != want {
			t.Errorf("%v: %s", d, got)
		}
	}
}

// The last use is known at once and written at most once a minute, and at the end.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tokens{byDigest: map[[32]byte]Token{}}
		s.add("secret", Token{Name: "x", Scope: Read})
		u := NewUsage(s, zerolog.Nop())
		u.Start()
		a, err := NewAuthenticator(AuthOptions{Mode: ModeBearer, Store: s, Usage: u})
		if err != nil {
			t.Fatal(err)
		}
		digest := DigestOf("secret")
		use := func() {
			if _, err := a.Authenticate(t.Context(), "Bearer secret"); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		for range 1000 {
			use()
			a.Authenticate(t.Context(), "Bearer wrong")
			time.Sleep(300 * time.Millisecond)
		}
		synctest.Wait()
		if s.writes != 5 {
			t.Errorf("%d writes for 1000 calls in five minutes", s.writes)
		}
		use()
		if at := u.Latest(digest); !at.Equal(time.Now()) {
			t.Errorf("last use %v, began %v", at, began)
		}
		u.mu.Lock()
		if len(u.times) != 1 {
			t.Errorf("%d tokens remembered", len(u.times))
		}
		u.mu.Unlock()
		// A disk that fails loses nothing.
		s.mu.Lock()
		s.err = errors.New("no space")
		s.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		if u.Latest(digest).IsZero() {
			t.Error("forgotten after a failed write")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !u.Latest(digest).IsZero() || s.byDigest[digest].Used.IsZero() {
			t.Error("not written once the disk works again")
		}
		use()
		last := time.Now()
		if err := u.Stop(t.Context()); err != nil || !s.byDigest[digest].Used.Equal(last) {
			t.Errorf("after stop: %v, %v", s.byDigest[digest].Used, err)
		}
	})
}

func TestDelegate(t *testing.T) {
	admin := &Principal{Scope: Admin, Deny: []string{"store"}}
	narrow := &Principal{Scope: Read, Allow: []string{"token create", "announce"}}
	for name, row := range map[string]struct {
		p    *Principal
		t    Token
		ok   bool
		deny string
	}{
		"admin":         {admin, Token{Scope: Admin, Allow: []string{"wipe"}}, true, "[store]"},
		"admin, denied": {admin, Token{Scope: Read, Deny: []string{"show", "store"}}, true, "[show store]"},
		"less":          {narrow, Token{Scope: None, Allow: []string{"announce flowspec"}}, true, "[]"},
		"as much":       {narrow, Token{Scope: Read, Allow: []string{"announce"}}, true, "[]"},
		"more scope":    {narrow, Token{Scope: Write}, false, "[]"},
		"more commands": {narrow, Token{Scope: Read, Allow: []string{"announce", "withdraw"}}, false, "[]"},
		"a wider word":  {narrow, Token{Scope: Read, Allow: []string{"token"}}, false, "[]"},
		"no word of it": {narrow, Token{Scope: Read, Allow: []string{"announcements"}}, false, "[]"},
	} {
		err := row.p.Delegate(&row.t)
		if (err == nil) != row.ok || fmt.Sprint(row.t.Deny) != row.deny {
			t.Errorf("%s: %v, deny %v", name, err, row.t.Deny)
		}
	}
}
