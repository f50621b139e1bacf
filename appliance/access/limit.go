package access

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are what one principal may ask for. A zero field does not limit.
type Limits struct {
	Rate       float64 // requests a second, in the long run
	Burst      int     // requests at once
	Concurrent int     // requests under way
}

// LimitError says that a limit is reached, and when to come again.
type LimitError struct {
	Message    string
	RetryAfter time.Duration
}

// Error implements error.
func (e *LimitError) Error() string { return e.Message }

// maxKept bounds how many principals, or sources, are remembered.
const maxKept = 4096

// Limiter holds every principal to the same limits, each for itself.
type Limiter struct {
	clock func() time.Time

	mu     sync.Mutex
	limits Limits
	kept   map[holder]*account
	swept  time.Time
}

// holder is whose share an account is.
type holder struct{ name, accessor string }

// account is one principal's share.
type account struct {
	rate *rate.Limiter
	busy int // requests under way
}

// NewLimiter returns a Limiter; clock nil means time.Now.
func NewLimiter(limits Limits, clock func() time.Time) *Limiter {
	if clock == nil {
		clock = time.Now
	}
	return &Limiter{clock: clock, limits: limits, kept: map[holder]*account{}}
}

// SetLimits changes the limits from the next request on.
func (l *Limiter) SetLimits(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
	now := l.clock()
	for _, a := range l.kept {
		a.rate.SetLimitAt(now, limits.rate())
		a.rate.SetBurstAt(now, limits.Burst)
	}
}

func (l Limits) rate() rate.Limit {
	if l.Rate <= 0 {
		return rate.Inf
	}
	return rate.Limit(l.Rate)
}

// Enter admits one request of p, to be ended with leave, or fails with a
// *LimitError. A request that is refused does not count.
func (l *Limiter) Enter(p *Principal) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	a := l.account(holder{p.Name, p.Accessor}, now)
	if n := l.limits.Concurrent; n > 0 && a.busy >= n {
		return nil, &LimitError{RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests of %s are under way, the most allowed at a time; wait for one of them to end", n, p.Name)}
	}
	if wait := reserve(a.rate, now); wait > 0 {
		return nil, &LimitError{RetryAfter: wait,
			Message: fmt.Sprintf("%s sends more than the %v requests a second allowed, %d at once; try again in %v", p.Name, l.limits.Rate, l.limits.Burst, roundUp(wait))}
	}
	a.busy++
	left := false
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !left {
			left = true
			a.busy--
		}
	}, nil
}

// reserve takes one event, or returns how long until there is one.
func reserve(r *rate.Limiter, now time.Time) time.Duration {
	if r.Limit() == rate.Inf {
		return 0
	}
	v := r.ReserveN(now, 1)
	if !v.OK() {
		return time.Second // a burst of nothing
	}
	wait := v.DelayFrom(now)
	if wait > 0 {
		v.CancelAt(now)
	}
	return wait
}

func (l *Limiter) account(of holder, now time.Time) *account {
	if a := l.kept[of]; a != nil {
		return a
	}
	if now.Sub(l.swept) >= time.Minute {
		l.swept = now
		for other, a := range l.kept {
			// With a full burst again it is as a new one would be.
			if a.busy == 0 && a.rate.TokensAt(now) >= float64(l.limits.Burst) {
				delete(l.kept, other)
			}
		}
	}
	for other, a := range l.kept {
		if len(l.kept) < maxKept {
			break
		}
		if a.busy == 0 { // any one will do; so many at once are nobody's normal use
			delete(l.kept, other)
		}
	}
	a := &account{rate: rate.NewLimiter(l.limits.rate(), l.limits.Burst)}
	l.kept[of] = a
	return a
}

// Failed authentications one source may make before they are answered with less.
const (
	failureBurst = 20
	failureEvery = 3 * time.Second // so 20 a minute
)

// Throttle counts failed authentications for each source. It slows down guessing
// and nothing else: whoever has a valid token is never asked.
type Throttle struct {
	clock func() time.Time

	mu    sync.Mutex
	kept  map[netip.Prefix]*rate.Limiter
	rest  *rate.Limiter // of sources for which there is no room
	swept time.Time
}

// NewThrottle returns a Throttle; clock nil means time.Now.
func NewThrottle(clock func() time.Time) *Throttle {
	if clock == nil {
		clock = time.Now
	}
	return &Throttle{clock: clock, kept: map[netip.Prefix]*rate.Limiter{}, rest: newFailureLimiter()}
}

func newFailureLimiter() *rate.Limiter {
	return rate.NewLimiter(rate.Every(failureEvery), failureBurst)
}

// Failed counts a failed authentication of a request from remote, host and port,
// and returns a *LimitError if there have been too many.
func (t *Throttle) Failed(remote string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	if wait := reserve(t.source(remote, now), now); wait > 0 {
		return &LimitError{RetryAfter: wait, Message: "too many requests from this address without a valid token; a valid one is still accepted"}
	}
	return nil
}

// source returns the count of an address, or of the network that a host with
// IPv6 can take any address of.
func (t *Throttle) source(remote string, now time.Time) *rate.Limiter {
	var key netip.Prefix
	if ap, err := netip.ParseAddrPort(remote); err == nil {
		addr, bits := ap.Addr().Unmap().WithZone(""), 32
		if addr.Is6() {
			bits = 64
		}
		key = netip.PrefixFrom(addr, bits).Masked()
	}
	if r := t.kept[key]; r != nil {
		return r
	}
	if len(t.kept) >= maxKept {
		if now.Sub(t.swept) < failureEvery {
			return t.rest
		}
		t.swept = now
		for key, r := range t.kept {
			if r.TokensAt(now) >= failureBurst {
				delete(t.kept, key)
			}
		}
		if len(t.kept) >= maxKept {
			return t.rest
		}
	}
	r := newFailureLimiter()
	t.kept[key] = r
	return r
}

// roundUp rounds to whole seconds, at least one: what Retry-After can say.
func roundUp(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// RetrySeconds returns the value of the Retry-After header (RFC 9110 section
// 10.2.3) for a wait.
func RetrySeconds(d time.Duration) string { return fmt.Sprint(int64(roundUp(d) / time.Second)) }
