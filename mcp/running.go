package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"ze.internal/ze/appliance/access"
)

// running is a request that a command answers, and the context the command runs
// with: that of HTTP, which ends also when the credential of the caller does.
// Most are answered before anybody asks for the end, so only who asks pays for a
// context that can be canceled.
type running struct {
	context.Context
	request *request
	begun   time.Time
	at      int        // index in watch.open
	looking sync.Mutex // held while a look is under way

	mu      sync.Mutex
	inner   context.Context // nil: nobody has asked for the end
	cancel  context.CancelFunc
	over    bool  // the end has come from here
	refused error // why the caller may no longer have an answer
}

// Done implements context.Context.
func (c *running) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inner == nil {
		c.inner, c.cancel = context.WithCancel(c.Context)
		if c.over {
			c.cancel()
		}
	}
	return c.inner.Done()
}

// Err implements context.Context.
func (c *running) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.inner != nil:
		return c.inner.Err()
	case c.over:
		return context.Canceled
	}
	return c.Context.Err()
}

// Value implements context.Context. Contexts made of this one find their parent
// by it: without inner each would need a goroutine that waits for Done.
func (c *running) Value(key any) any {
	c.mu.Lock()
	from := c.inner
	c.mu.Unlock()
	if from == nil {
		from = c.Context
	}
	return from.Value(key)
}

// end ends the context, the first time for the reason why; nil: there is an answer.
// It returns the reason.
func (c *running) end(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.over, c.refused = true, why
		if c.cancel != nil {
			c.cancel()
		}
	}
	return c.refused
}

// watch looks after the requests that commands answer, twice a second: the
// callers of long ones are to hear that they are alive, and nothing any more once
// their credential has ended. One timer does for all, and none while there are no
// requests: one for each would cost more than most commands do.
type watch struct {
	every time.Duration
	look  func(*running)

	mu   sync.Mutex
	open []*running
	set  bool // the timer
}

func (w *watch) add(c *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.at = len(w.open)
	w.open = append(w.open, c)
	w.wind()
}

func (w *watch) remove(c *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.open) - 1
	w.open[c.at] = w.open[last]
	w.open[c.at].at = c.at
	w.open[last] = nil
	w.open = w.open[:last]
}

// wind sets the timer if it is needed. w.mu is held.
func (w *watch) wind() {
	if !w.set && len(w.open) > 0 {
		w.set = true
		time.AfterFunc(w.every, w.tick)
	}
}

// tick looks at every open request, each in a goroutine of its own: a look may
// take long, and then none of the others waits for it.
func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		if c.looking.TryLock() {
			go func() {
				defer c.looking.Unlock()
				w.look(c)
			}()
		}
	}
	w.set = false
	w.wind()
}

// whileValid runs f in a context that ends when the credential of the caller does:
// a call that waits hears nothing of what happens afterwards. It returns why the
// caller may no longer have an answer, nil if it may.
func (s *Server) whileValid(ctx context.Context, r *request, f func(ctx context.Context)) (refused error) {
	c := &running{Context: ctx, request: r, begun: time.Now()}
	s.watch.add(c)
	defer func() {
		s.watch.remove(c)
		c.looking.Lock() // whoever looks is waited for, and nobody will again
		refused = c.end(nil)
	}()
	f(c)
	return nil
}

// look ends a request whose caller may no longer have an answer, and tells others
// that wait long that it is being worked on.
func (s *Server) look(c *running) {
	if c.Err() != nil {
		return
	}
	p, err := s.principal(c.Context, c.request.header)
	if err == nil && p.Owner() != c.request.principal.Owner() {
		err = errors.New("the credential is another caller's now")
	}
	if err != nil && !errors.Is(err, access.ErrAuthUnavailable) {
		_ = c.end(err)
		return
	}
	if time.Since(c.begun) >= s.keepAlive {
		c.request.out.stretch()
	}
}
