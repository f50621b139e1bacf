package mcp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ze.internal/ze/appliance/access"
)

// valueKey is a key for a value of a context.
type valueKey struct{}

// The context of a call ends with the call, its request and its credential,
// whether somebody waits for that yet or asks only later.
func TestRunningEnds(t *testing.T) {
	gone := errors.New("gone")
	for name, end := range map[string]func(c *running, request context.CancelFunc){
		"the call":       func(c *running, _ context.CancelFunc) { _ = c.end(nil) },
		"the credential": func(c *running, _ context.CancelFunc) { _ = c.end(gone) },
		"the request":    func(_ *running, request context.CancelFunc) { request() },
	} {
		for _, waiting := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "value"))
				defer cancel()
				c := &running{Context: ctx}
				if c.Err() != nil {
					t.Errorf("%s: %v before its end", name, c.Err())
				}
				child, drop := context.WithCancel(context.WithoutCancel(ctx))
				if waiting {
					child, drop = context.WithCancel(c)
				}
				defer drop()
				end(c, cancel)
				if (child.Err() != nil) != waiting { // at once: no goroutine stands in between
					t.Errorf("%s: a context made of it: %v", name, child.Err())
				}
				if c.Err() != context.Canceled || c.Value(valueKey{}) != "value" {
					t.Errorf("%s: %v, value %v", name, c.Err(), c.Value(valueKey{}))
				}
				<-c.Done()
				if c.Err() != context.Canceled || context.Cause(c) != context.Canceled || c.Value(valueKey{}) != "value" {
					t.Errorf("%s: %v, cause %v, value %v", name, c.Err(), context.Cause(c), c.Value(valueKey{}))
				}
			})
		}
	}
}

// The first reason is the one that counts.
func TestRunningRefused(t *testing.T) {
	gone := errors.New("gone")
	c := &running{Context: t.Context()}
	if err := c.end(gone); err != gone {
		t.Error(err)
	}
	if err := c.end(nil); err != gone {
		t.Errorf("%v, want the refusal", err)
	}
	c = &running{Context: t.Context()}
	if err := errors.Join(c.end(nil), c.end(gone)); err != nil {
		t.Errorf("%v after the answer", err)
	}
}

// What has been answered is not looked after any more, however it ended, and the
// timer rests when nothing is.
func TestWatchRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		send(f, call(readToken, "ze_show", `{"action":"clock"}`))
		f.ledger.broken.Store(true)
		send(f, call(readToken, "ze_show", `{"action":"clock"}`)) // ends in a panic
		state := func() (open int, set bool) {
			f.watch.mu.Lock()
			defer f.watch.mu.Unlock()
			return len(f.watch.open), f.watch.set
		}
		if open, set := state(); open != 0 || !set {
			t.Errorf("%d requests are still looked after; the timer is set: %v", open, set)
		}
		time.Sleep(2 * checkInterval)
		synctest.Wait()
		if _, set := state(); set {
			t.Error("the timer is set, and nothing to be looked after")
		}
	})
}

// Of several that wait, in whatever order they come and go, each is ended by the
// end of its own credential.
func TestWatchMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		wait := func(token, name, accessor string) (leave func(), ended chan error) {
			r := &request{header: post(token, "", "", "").Header, principal: &access.Principal{Name: name, Accessor: accessor}}
			answered, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- f.whileValid(t.Context(), r, func(ctx context.Context) {
					select {
					case <-ctx.Done():
					case <-answered:
					}
				})
			}()
			synctest.Wait()
			return func() { close(answered); synctest.Wait() }, ended
		}
		first, _ := wait(adminToken, "admin", "a1")
		_, reader := wait(readToken, "reader", "r1")
		_, narrow := wait(narrowToken, "narrow", "n1")
		last, _ := wait(adminToken, "admin", "a1")
		first()
		f.keys.change(narrowToken, nil)
		time.Sleep(checkInterval)
		synctest.Wait()
		if len(narrow) != 1 || len(reader) != 0 {
			t.Errorf("of the narrow caller %d have ended, of the reader %d; want 1 and 0", len(narrow), len(reader))
		}
		f.keys.change(readToken, nil)
		time.Sleep(checkInterval)
		synctest.Wait()
		if len(reader) != 1 {
			t.Fatal("the reader goes on waiting")
		}
		if err := <-reader; !errors.Is(err, access.ErrAuthUnknown) {
			t.Error(err)
		}
		last()
	})
}
