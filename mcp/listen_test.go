package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
)

// lampResource is read at ze://lamp/{lamp} and changes with every lamp-change.
func lampResource() *command.Command {
	lamp := &schema.Node{Name: "lamp", Kind: schema.Leaf, Type: &schema.Type{Base: schema.String}}
	return command.New(&schema.Command{Path: []string{"show", "lamp", "state"}, Effect: "read", Hidden: true, Description: "A lamp.",
		Resource: "ze://lamp/{lamp}", UpdatedOn: []string{"lamp-change"}, Input: &schema.Object{Params: []*schema.Node{lamp}}, Output: &schema.Object{}},
		func(context.Context, *command.Request) (any, error) { return struct{}{}, nil })
}

func (f *fixture) happens(kind, lamp string) {
	f.events.Publish(event.Event{Type: kind, Subject: map[string]string{"lamp": lamp}})
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		if err := f.registry.Register(lampResource()); err != nil {
			t.Fatal(err)
		}
		e := f.listen(t, t.Context(), adminToken, `{"toolsListChanged":true,"resourceSubscriptions":["ze://lamp/hall","lamp://all","ze://nothing","ui://lamps/panel.html"],"more":1}`)
		defer e.end()
		if got, want := e.acknowledged(t), `{"toolsListChanged":true,"resourceSubscriptions":["ze://lamp/hall"]}`; got != want {
			t.Errorf("honoured is %s, want %s", got, want)
		}
		if e.header.Get("Content-Type") != "text/event-stream" || e.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("headers %v", e.header)
		}
		if n := testutil.ToFloat64(f.metrics.streams); n != 1 {
			t.Errorf("%v streams are counted", n)
		}

		f.happens("lamp-change", "attic") // another lamp
		f.happens("else", "hall")
		f.happens("lamp-change", "hall")
		if n := e.next(t); n.Method != "notifications/resources/updated" || n.Params.URI != "ze://lamp/hall" {
			t.Errorf("%+v", n)
		}
		f.add(t, "show hidden thing", nil) // in no list
		synctest.Wait()
		runtime := f.runtimeTool(t, "extra")
		if n := e.next(t); n.Method != "notifications/tools/list_changed" {
			t.Errorf("%+v", n)
		}
		if err := f.registry.Unregister(runtime); err != nil {
			t.Fatal(err)
		}
		if n := e.next(t); n.Method != "notifications/tools/list_changed" {
			t.Errorf("%+v", n)
		}
		time.Sleep(time.Minute)
		if len(e.heard) > 0 {
			t.Errorf("without a change %+v is heard", <-e.heard)
		}

		e.end()
		<-e.ended
		if n := testutil.ToFloat64(f.metrics.streams); n != 0 {
			t.Errorf("%v streams are counted when the caller has gone", n)
		}
	})
}

// runtimeTool registers a tool declared at run time and returns its command's name.
func (f *fixture) runtimeTool(t *testing.T, name string) string {
	t.Helper()
	input, err := schema.FromJSON(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := command.NewRuntime(&schema.Command{Path: []string{name}, Effect: "read", Description: "One more.", Input: input}, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.registry.Register(c); err != nil {
		t.Fatal(err)
	}
	return c.Name()
}

// A caller hears nothing of what it may not read, and of lists only what it sees.
func TestListenIsForTheCallerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		if err := f.registry.Register(lampResource()); err != nil {
			t.Fatal(err)
		}
		e := f.listen(t, t.Context(), narrowToken, `{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["ze://lamp/hall"]}`)
		defer e.end()
		if got := e.acknowledged(t); !strings.Contains(got, "ze://lamp/hall") { // it may "show lamp"
			t.Errorf("honoured is %s", got)
		}
		f.runtimeTool(t, "extra")
		f.happens("lamp-change", "hall")
		if n := e.next(t); n.Method != "notifications/resources/updated" {
			t.Errorf("%+v", n)
		}
		f.keys.change(narrowToken, func(k *access.Token) { k.Allow = []string{"show clock"} })
		time.Sleep(time.Second)
		if n := e.next(t); n.Method != "notifications/tools/list_changed" {
			t.Errorf("after its rights changed: %+v", n)
		}
		f.happens("lamp-change", "hall")
		synctest.Wait()
		if len(e.heard) > 0 {
			t.Errorf("what it may no longer read: %+v", <-e.heard)
		}
	})
}

// A stream ends within a second of the end of its token, and with its door.
func TestStreamEnds(t *testing.T) {
	for name, act := range map[string]func(f *fixture, closing chan struct{}){
		"token revoked": func(f *fixture, _ chan struct{}) { f.keys.change(readToken, nil) },
		"token expired": func(f *fixture, _ chan struct{}) {
			f.keys.change(readToken, func(k *access.Token) { k.Expires = time.Now() })
		},
		"token of another": func(f *fixture, _ chan struct{}) {
			f.keys.change(readToken, func(k *access.Token) { k.Name = "other" })
		},
		"the door is closed": func(_ *fixture, closing chan struct{}) { close(closing) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, nil)
				closing := make(chan struct{})
				e := f.listen(t, command.WithEnding(t.Context(), closing), readToken, `{"toolsListChanged":true}`)
				defer e.end()
				e.acknowledged(t)
				time.Sleep(time.Hour + 123*time.Millisecond)
				if len(e.heard) > 0 {
					t.Fatalf("it has not lasted: %+v", <-e.heard)
				}
				began := time.Now()
				act(f, closing)
				e.over(t)
				if took := time.Since(began); took >= time.Second {
					t.Errorf("it ends after %s", took)
				}
			})
		})
	}
}

// Of a task its owner hears each state, whole, and nobody else that it exists.
func TestListenForTasks(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		finish := make(chan struct{})
		f.run = func(context.Context, *command.Request) (any, error) {
			<-finish
			return map[string]any{"done": true}, nil
		}
		id := f.callTool(t, canTask, "required").Result.TaskID
		filter := fmt.Sprintf(`{"taskIds":["unknown",%q]}`, id)
		foreign := f.listenAs(t, t.Context(), readToken, canTask, filter)
		defer foreign.end()
		if got := foreign.acknowledged(t); got != "{}" {
			t.Errorf("honoured for another is %s", got)
		}
		foreign.over(t)

		e := f.listenAs(t, t.Context(), adminToken, canTask, filter)
		defer e.end()
		if got, want := e.acknowledged(t), fmt.Sprintf(`{"taskIds":[%q]}`, id); got != want {
			t.Errorf("honoured is %s, want %s", got, want)
		}
		if n := e.next(t); n.Method != "notifications/tasks" || n.Params.TaskID != id || n.Params.Status != "working" || n.Params.ResultType != "" {
			t.Errorf("%+v", n)
		}
		close(finish)
		n := e.next(t)
		for ; n.Params.Status == "working"; n = e.next(t) {
		}
		if n.Method != "notifications/tasks" || n.Params.Status != "completed" || !strings.Contains(string(n.Params.Result), `"structuredContent":{"done":true}`) {
			t.Errorf("%+v", n)
		}
	})
}

// With nothing to hear of the stream is over at once.
func TestListenForNothing(t *testing.T) {
	f := newFixture(t, nil)
	for _, filter := range []string{`{}`, `{"toolsListChanged":false}`, `{"resourceSubscriptions":["ze://nothing"]}`, `{"later":true}`} {
		e := f.listen(t, t.Context(), readToken, filter)
		if got := e.acknowledged(t); got != "{}" {
			t.Errorf("%s: honoured is %s", filter, got)
		}
		e.over(t)
		e.end()
	}
}

// A caller has so many streams and no more, and they are no requests under way.
func TestStreamsOfACaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, func(o *Options) { o.Limiter = access.NewLimiter(access.Limits{Concurrent: 1}, nil) })
		var open []*ear
		for range defaultMaxStreams {
			e := f.listen(t, t.Context(), readToken, `{"toolsListChanged":true}`)
			e.acknowledged(t)
			open = append(open, e)
		}
		more := f.listen(t, t.Context(), readToken, `{"toolsListChanged":true}`)
		<-more.ended
		if more.status != http.StatusTooManyRequests || more.header.Get("Retry-After") == "" || !strings.Contains(more.text.String(), "8 streams of reader are open") {
			t.Errorf("one more: %d %v %s", more.status, more.header, &more.text)
		}
		if status, body := send(f, call(readToken, "ze_show_lamp", `{}`)); status != http.StatusOK {
			t.Errorf("a call beside the streams: %d %s", status, body)
		}
		other := f.listen(t, t.Context(), adminToken, `{"toolsListChanged":true}`)
		other.acknowledged(t)
		open[3].end()
		<-open[3].ended
		again := f.listen(t, t.Context(), readToken, `{"toolsListChanged":true}`)
		again.acknowledged(t)
		for _, e := range append(open, other, again) {
			e.end()
			<-e.ended
		}
		if len(f.streams.open) != 0 {
			t.Errorf("counted are still %v", f.streams.open)
		}
	})
}

// A stream holds nothing of the body that asked for it, however large that was.
func TestStreamLetsGoOfItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		e := f.listen(t, t.Context(), readToken, `{"toolsListChanged":true,"pad":"`+strings.Repeat("x", 200<<10)+`"}`)
		e.acknowledged(t)
		f.large.mu.Lock()
		if f.large.held != 0 {
			t.Errorf("%d octets are held", f.large.held)
		}
		f.large.mu.Unlock()
		e.end()
		<-e.ended
	})
}

// Who waits for a tool or a resource is not answered when the token was revoked
// meanwhile.
func TestRevokedWhileWaiting(t *testing.T) {
	for _, sent := range []*http.Request{
		call(readToken, executeName, `{"command":"show wait"}`),
		post(readToken, "resources/read", "ze://wait", `"uri":"ze://wait"`),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, nil)
			wait := f.registry.Find(&access.Principal{Scope: access.Admin}, []string{"show", "wait"})
			if err := f.registry.Register(command.New(&schema.Command{Path: []string{"show", "slow"}, Effect: "read", Hidden: true, Description: "Waits.",
				Resource: "ze://wait", Input: &schema.Object{}, Output: &schema.Object{}}, wait.Run)); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			type answer struct {
				status int
				body   string
			}
			answered := make(chan answer, 1)
			go func() {
				status, body := send(f, sent)
				answered <- answer{status, body}
			}()
			<-f.lamps.waiting
			f.keys.change(readToken, nil)
			a := <-answered
			if a.status != http.StatusUnauthorized || time.Since(begun) > checkInterval {
				t.Errorf("%s: %d %s after %s", sent.Header.Get(headerMethod), a.status, a.body, time.Since(begun))
			}
			<-f.lamps.cancelled
		})
	}
}

// What happens faster than a caller reads is summed up, never passed over.
func TestListenCatchesUp(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.registry.Register(lampResource()); err != nil {
		t.Fatal(err)
	}
	e := f.listen(t, t.Context(), adminToken, `{"resourceSubscriptions":["ze://lamp/hall","ze://lamp/attic"]}`)
	defer e.end()
	e.acknowledged(t)
	e.mu.Lock() // the caller does not read
	for range 2 {
		f.happens("lamp-change", "hall") // taken, and held up
	}
	for n := range listenBuffer + 50 {
		f.happens("else", fmt.Sprint(n))
	}
	f.happens("lamp-change", "attic") // lost
	e.mu.Unlock()
	for {
		if n := e.next(t); n.Params.URI == "ze://lamp/attic" {
			return
		}
	}
}

// deadlines records in which order a connection is written to and limited.
type deadlines struct {
	http.ResponseWriter
	did []string
}

func (d *deadlines) Write(b []byte) (int, error) {
	d.did = append(d.did, "write")
	return len(b), nil
}
func (d *deadlines) Flush() { d.did = append(d.did, "flush") }
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.did = append(d.did, map[bool]string{true: "no limit", false: "limit"}[at.IsZero()])
	return nil
}

// A caller that does not read cannot hold a stream up for ever, and the limit
// does not outlive the event: the connection may be used again.
func TestEventsAreLimited(t *testing.T) {
	d := &deadlines{}
	o := &responder{w: d, interval: defaultKeepAlive}
	if err := o.event([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"limit", "write", "flush", "no limit"}; !slices.Equal(d.did, want) {
		t.Errorf("%v, want %v", d.did, want)
	}
}
