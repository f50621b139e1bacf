package stdio

import (
	"context"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// How long to wait before the server is asked again to tell what changes.
const (
	minWait = time.Second
	maxWait = 30 * time.Second
)

// listChanges are the notifications that revisions with a handshake share with
// Revision, by the member that asks for them.
var listChanges = []struct{ wanted, notification string }{
	{"toolsListChanged", "notifications/tools/list_changed"},
	{"promptsListChanged", "notifications/prompts/list_changed"},
	{"resourcesListChanged", "notifications/resources/list_changed"},
}

// watchFor begins to tell the host of changes, which it may hear of once it has
// said that the handshake is over.
func (s *server) watchFor(ctx context.Context) {
	if h := s.shaken(); h != nil {
		h.watching(ctx)
	}
}

// watcher returns what starts a goroutine, once, that tells the host which lists
// change until leaving ends.
func (s *server) watcher(leaving context.Context, h *host) func(context.Context) {
	var once sync.Once
	return func(ctx context.Context) {
		once.Do(func() {
			ctx, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(leaving, cancel)
			s.work.Go(func() {
				defer cancel()
				defer stop()
				s.watch(ctx, h)
			})
		})
	}
}

// watch tells the host which lists change. A server that was away may have
// changed all of them.
func (s *server) watch(ctx context.Context, h *host) {
	s.mu.Lock()
	missed := h.missed
	s.mu.Unlock()
	wait := minWait
	for {
		served, wanted := false, true
		_, err := s.listen(ctx, h, func(method string, n jsontext.Value) {
			if method != "notifications/subscriptions/acknowledged" {
				s.tellChange(method)
				return
			}
			heard := parseObject(parseObject(parseObject(n).get("params")).get("notifications"))
			served, wanted, wait = true, len(heard) > 0, minWait
			for _, c := range listChanges {
				if missed && heard.get(c.wanted) != nil {
					s.tellChange(c.notification)
				}
			}
		})
		if err == nil && (!served || !wanted) {
			return // the server has nothing to tell
		}
		missed = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
			wait = min(2*wait, maxWait)
		}
	}
}

// listen asks the server to tell which lists change.
func (s *server) listen(ctx context.Context, h *host, each func(string, jsontext.Value)) (response, error) {
	wanted := object{}
	for _, c := range listChanges {
		wanted.set(c.wanted, jsontext.Value("true"))
	}
	request := object{
		{"jsonrpc", quote("2.0")}, {"id", quote(s.nextID())}, {"method", quote("subscriptions/listen")},
		{"params", h.params(object{{"notifications", wanted.encode()}})},
	}
	return s.exchange(ctx, request.encode(), each)
}

// tellChange passes on that a list has changed.
func (s *server) tellChange(method string) {
	for _, c := range listChanges {
		if c.notification == method {
			s.notify(method, nil)
		}
	}
}
