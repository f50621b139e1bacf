package process

import "time"

// Backoff says how long to wait before a restart. The zero value is a sensible
// default: one crash costs little, a crash loop settles at two starts a minute.
type Backoff struct {
	Min   time.Duration // before the first restart; default 100 ms
	Max   time.Duration // it doubles up to this; default 30 s
	Reset time.Duration // a child that lived this long starts over at Min; default 1 min
}

func (b Backoff) withDefaults() Backoff {
	if b.Min <= 0 {
		b.Min = 100 * time.Millisecond
	}
	if b.Max <= 0 {
		b.Max = 30 * time.Second
	}
	if b.Reset <= 0 {
		b.Reset = time.Minute
	}
	return b
}

// Next returns the wait that follows the wait last (0: none yet) when the child
// lived for lived in between.
func (b Backoff) Next(last, lived time.Duration) time.Duration {
	b = b.withDefaults()
	if last == 0 || lived >= b.Reset {
		return b.Min
	}
	return min(2*last, b.Max)
}
