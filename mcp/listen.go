package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/task"
)

const (
	defaultMaxStreams = 8
	maxListened       = 100                    // resources, and tasks, of one stream
	listenBuffer      = 256                    // events that may wait while a caller reads slowly
	checkInterval     = 500 * time.Millisecond // between looks whether the caller may still listen
)

// listenFilter is what a caller wants to hear of (page basic/patterns/subscriptions).
type listenFilter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"`
}

func (f *listenFilter) empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && len(f.URIs) == 0 && len(f.Tasks) == 0
}

// streams counts the open streams of each caller.
type streams struct {
	most int
	mu   sync.Mutex
	open map[string]int
}

// enter counts one more, to be ended with leave, unless that is too many.
func (o *streams) enter(p *access.Principal) (leave func(), ok bool) {
	key := p.Name + " " + p.Accessor
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[key] >= o.most {
		return nil, false
	}
	if o.open == nil {
		o.open = map[string]int{}
	}
	o.open[key]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.open[key]--; o.open[key] == 0 {
			delete(o.open, key)
		}
	}, true
}

// subscriptionsListen answers with a stream that tells what changes, until the
// caller goes or may no longer listen, or the daemon ends.
func (s *Server) subscriptionsListen(ctx context.Context, r *request) ([]byte, *failure) {
	wanted, fail := r.listenFilter()
	if fail != nil {
		return nil, s.refuse(ctx, r, command.Invalid, fail)
	}
	leave, ok := s.streams.enter(r.principal)
	if !ok {
		r.out.w.Header().Set("Retry-After", "1")
		return nil, s.refuse(ctx, r, command.Limit, refusal(http.StatusTooManyRequests,
			fmt.Sprintf("%d streams of %s are open, the most allowed at a time; close one of them first", s.streams.most, r.principal.Name)))
	}
	defer leave()
	if err := s.record(ctx, r, "subscriptions/listen", nil); err != nil {
		return nil, commandFailure(command.AsError(err))
	}
	r.leave() // a stream counts as one, no longer as a request under way
	r.forget()
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	id := append([]byte(`{"io.modelcontextprotocol/subscriptionId":`), r.id...)
	l := &listener{server: s, request: r, meta: append(slices.Clip(id), '}')}
	l.run(ctx, wanted)
	return slices.Concat([]byte(`{"resultType":"complete","_meta":`), id, []byte{','}, s.info[1:], []byte{'}'}), nil
}

// listenFilter reads what a caller wants to hear of.
func (r *request) listenFilter() (f listenFilter, fail *failure) {
	var params struct {
		Notifications jsontext.Value `json:"notifications"`
	}
	if err := json.Unmarshal(r.params, &params, checked); err != nil {
		return f, invalidParams("params: %v", err)
	}
	switch {
	case params.Notifications == nil:
		return f, invalidParams("params.notifications is missing: it says what to listen for, and may be {}")
	case params.Notifications.Kind() != '{':
		return f, invalidParams("params.notifications must be an object")
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(params.Notifications, &members, checked); err != nil {
		return f, invalidParams("params.notifications: %v", err)
	}
	for name, to := range map[string]*bool{"toolsListChanged": &f.Tools, "promptsListChanged": &f.Prompts, "resourcesListChanged": &f.Resources} {
		if v := members[name]; v != nil && json.Unmarshal(v, to, checked) != nil {
			return f, invalidParams("params.notifications.%s must be true or false", name)
		}
	}
	for name, to := range map[string]*[]string{"resourceSubscriptions": &f.URIs, "taskIds": &f.Tasks} {
		if v := members[name]; v != nil && json.Unmarshal(v, to, checked) != nil {
			return f, invalidParams("params.notifications.%s must be an array of strings", name)
		}
	}
	switch {
	case len(f.URIs) > maxListened || len(f.Tasks) > maxListened:
		return f, invalidParams("params.notifications: at most %d resources and as many tasks in one stream; open another for more", maxListened)
	case len(f.Tasks) > 0 && !r.client.tasks:
		return f, missingCapability("params.notifications.taskIds is part of the Tasks extension, which the request did not declare", taskCapability)
	case !r.out.accepts.stream:
		return f, refusal(http.StatusNotAcceptable, "subscriptions/listen answers with a stream; send Accept: application/json, text/event-stream")
	}
	return f, nil
}

// forget lets go of the body of a request that is about to last.
func (r *request) forget() {
	r.id = bytes.Clone(r.id)
	r.params, r.given, r.client.raw, r.progress = nil, namedParams{}, nil, nil
	r.give()
}

// listener is one stream.
type listener struct {
	server  *Server
	request *request
	meta    []byte // the _meta object of every notification
	heard   listenFilter
	lists   []watchedList
}

// watchedList is a list that a caller wants to hear of, and what it was answered
// last when it asked for it.
type watchedList struct {
	notification string
	methods      []string
	digest       [sha256.Size]byte
}

// run tells the caller what changes. Everything is watched before the caller is
// told that it is, so that no change in between is lost.
func (l *listener) run(ctx context.Context, wanted listenFilter) {
	s := l.server
	registry := s.dispatcher.Registry()
	var (
		changed  <-chan struct{}
		events   *event.Subscription
		happened <-chan event.Event
	)
	if s.events != nil {
		changed = registry.Changed()
		events = s.events.Subscribe(event.Filter{Owner: l.request.principal.Owner()}, listenBuffer)
		defer events.Close()
		happened = events.C
		l.honour(ctx, wanted)
	}
	var tasks *task.Watch
	var tasksChanged <-chan struct{}
	if s.tasks != nil && len(wanted.Tasks) > 0 {
		tasks = s.tasks.Watch(l.request.principal.Owner(), wanted.Tasks)
		defer tasks.Close()
		tasksChanged, l.heard.Tasks = tasks.C, tasks.IDs
	}
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	ack, err := json.Marshal(struct {
		Meta          jsontext.Value `json:"_meta"`
		Notifications listenFilter   `json:"notifications"`
	}{l.meta, l.heard})
	if err == nil {
		err = l.request.out.notify("notifications/subscriptions/acknowledged", ack)
	}
	lost := uint64(0)
	for err == nil && !l.heard.empty() {
		select {
		case <-ctx.Done():
			return
		case <-command.Ending(ctx):
			return
		case <-changed:
			changed = registry.Changed()
			err = l.compareLists(ctx)
		case e := <-happened:
			err = l.updated(func(res *command.Resource, vars map[string]string) bool { return changes(e, res, vars) })
			if n := events.Lost(); err == nil && n > lost {
				lost = n // nobody knows what these were
				err = l.updated(func(*command.Resource, map[string]string) bool { return true })
			}
		case <-tasksChanged:
			err = l.tellTasks(ctx, tasks)
		case <-check.C:
			p, authErr := s.principal(ctx, l.request.header)
			if authErr != nil || p.Owner() != l.request.principal.Owner() {
				return
			}
			if p.View() != l.request.principal.View() {
				l.request.principal = p
				err = l.compareLists(ctx)
			}
		}
	}
}

// honour keeps of what is wanted what there is for the caller.
func (l *listener) honour(ctx context.Context, wanted listenFilter) {
	for _, list := range []struct {
		wanted       bool
		heard        *bool
		notification string
		methods      []string
	}{
		{wanted.Tools, &l.heard.Tools, "notifications/tools/list_changed", []string{"tools/list"}},
		{wanted.Prompts, &l.heard.Prompts, "notifications/prompts/list_changed", []string{"prompts/list"}},
		{wanted.Resources, &l.heard.Resources, "notifications/resources/list_changed", []string{"resources/list", "resources/templates/list"}},
	} {
		if !list.wanted {
			continue
		}
		*list.heard = true
		l.lists = append(l.lists, watchedList{list.notification, list.methods, l.digest(ctx, list.methods)})
	}
	for _, uri := range wanted.URIs {
		if res, _ := l.resource(uri); res != nil && len(res.Command.UpdatedOn) > 0 && !slices.Contains(l.heard.URIs, uri) {
			l.heard.URIs = append(l.heard.URIs, uri)
		}
	}
}

func (l *listener) resource(uri string) (*command.Resource, map[string]string) {
	return l.server.dispatcher.Registry().Resource(l.request.principal, uri)
}

// digest returns the digest of what the caller would be answered by methods now.
func (l *listener) digest(ctx context.Context, methods []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	asked := &request{message: message{params: jsontext.Value("{}")}, principal: l.request.principal, client: l.request.client}
	for _, name := range methods {
		answer, fail := l.server.methods[name](ctx, asked)
		if fail != nil {
			answer = fail.encode()
		}
		h.Write(answer)
	}
	h.Sum(sum[:0])
	return sum
}

// compareLists tells the caller of every list that is another one than before.
func (l *listener) compareLists(ctx context.Context) error {
	for i := range l.lists {
		list := &l.lists[i]
		digest := l.digest(ctx, list.methods)
		if digest == list.digest {
			continue
		}
		list.digest = digest
		if err := l.notify(list.notification, ""); err != nil {
			return err
		}
	}
	return nil
}

// updated tells the caller of the resources that is says it of.
func (l *listener) updated(is func(*command.Resource, map[string]string) bool) error {
	for _, uri := range l.heard.URIs {
		if res, vars := l.resource(uri); res != nil && is(res, vars) {
			if err := l.notify("notifications/resources/updated", uri); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellTasks tells the caller how the tasks are that have changed.
func (l *listener) tellTasks(ctx context.Context, tasks *task.Watch) error {
	changed, err := tasks.Changed(ctx)
	for _, t := range changed {
		state, err := l.server.wholeTask(t)
		if err != nil {
			return err
		}
		state.Meta = l.meta
		b, err := json.Marshal(state, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		if err := l.request.out.notify("notifications/tasks", b); err != nil {
			return err
		}
	}
	return err
}

// changes reports whether an event says that what stands at a resource has
// changed: it is of one of its types, and about what its variables name.
func changes(e event.Event, res *command.Resource, vars map[string]string) bool {
	if !slices.Contains(res.Command.UpdatedOn, e.Type) {
		return false
	}
	for name, value := range vars {
		if about, ok := e.Subject[name]; ok && about != value {
			return false
		}
	}
	return true
}

// notify sends a notification of this stream, about uri unless that is empty.
func (l *listener) notify(method, uri string) error {
	b, err := json.Marshal(struct {
		Meta jsontext.Value `json:"_meta"`
		URI  string         `json:"uri,omitzero"`
	}{l.meta, uri}, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return err
	}
	return l.request.out.notify(method, b)
}

// principal returns who sends a request with these headers. Two Authorization
// headers become one that no scheme allows, so that none is picked.
func (s *Server) principal(ctx context.Context, h http.Header) (*access.Principal, error) {
	return s.auth.Authenticate(ctx, strings.Join(h["Authorization"], ", "))
}
