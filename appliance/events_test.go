package appliance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ze.internal/ze/appliance/bgp/birdtest"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/mcp/client"
)

// streamed is a message on a listen stream.
type streamed struct {
	Method string
	Params struct {
		URI           string
		Notifications json.RawMessage
	}
	Result *struct{ ResultType string }
}

// listen opens a stream with a bearer token and returns what comes on it; the
// channel is closed when the stream ends.
func (d *daemon) listen(t *testing.T, token, filter string) <-chan streamed {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":` + filter + `,"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"` + client.Revision + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", d.url(t, "mcp")+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {client.Revision}, "Mcp-Method": {"subscriptions/listen"}}
	transport := &http.Transport{}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("listen: %s %s", resp.Status, text)
	}
	heard := make(chan streamed, 100)
	go func() {
		defer transport.CloseIdleConnections()
		defer close(heard)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var m streamed
				if err := json.Unmarshal([]byte(data), &m); err != nil {
					m.Method = "no JSON: " + data
				}
				heard <- m
			}
		}
	}()
	if m := await(t, heard, "notifications/subscriptions/acknowledged"); !strings.Contains(string(m.Params.Notifications), ":") {
		t.Errorf("nothing is honoured: %s", m.Params.Notifications)
	}
	return heard
}

// await returns the next message of a method, "" for the result, and skips others.
func await(t *testing.T, heard <-chan streamed, method string) streamed {
	t.Helper()
	for end := time.After(deadline); ; {
		select {
		case m, ok := <-heard:
			if !ok {
				t.Fatalf("the stream ended before %q", method)
			}
			if m.Method == method {
				return m
			}
		case <-end:
			t.Fatalf("no %q", method)
		}
	}
}

type happening struct {
	Seq     uint64
	Type    string
	Subject map[string]string
	Message string
}

type events struct {
	Lost  uint64
	Event []happening
}

// has reports whether an event of a type is about the subject.
func (e events) has(kind string, subject ...string) bool {
	return slices.ContainsFunc(e.Event, func(ev happening) bool {
		for i := 0; i < len(subject); i += 2 {
			if ev.Subject[subject[i]] != subject[i+1] {
				return false
			}
		}
		return ev.Type == kind && ev.Message != ""
	})
}

// TestPeerEvents: a session with BIRD that comes up, brings routes and is torn
// down is told on a stream, kept as events, and waited for.
func TestPeerEvents(t *testing.T) {
	l := newLab(t)
	d := startDaemon(t, daemonOptions{config: l.config("")})
	heard := d.listen(t, d.admin, `{"resourceSubscriptions":["ze://peer/north","ze://peer/south"]}`)

	var failed *client.ToolError
	_, err := d.mcp.Call(t.Context(), "ze_execute", map[string]string{"command": "request bgp wait-established timeout 1s"})
	if !errors.As(err, &failed) || !strings.Contains(failed.Text, "not established within 1s: north (") || !strings.Contains(failed.Text, "show bgp peer north") {
		t.Errorf("waiting for nobody: %v", err)
	}
	_, err = d.mcp.Call(t.Context(), "ze_request_bgp", map[string]any{"action": "wait-established", "peers": []string{"nrth"}})
	if !errors.As(err, &failed) || !strings.Contains(failed.Text, "peers[0]") || !strings.Contains(failed.Text, "north") {
		t.Errorf("waiting for a name that is wrong: %v", err)
	}

	bird := birdtest.Start(t, birdtest.Options{Local: l.theirs, AS: 64999, Peer: l.ours, PeerAS: 64512, Announce: birdtest.Hosts("10.20.0.0", 20)})
	var waited struct {
		Peer []struct{ Name string }
	}
	d.execute(t, "request bgp wait-established north timeout 1m", &waited)
	if len(waited.Peer) != 1 || waited.Peer[0].Name != "north" {
		t.Errorf("established are %+v", waited)
	}
	if m := await(t, heard, "notifications/resources/updated"); m.Params.URI != "ze://peer/north" {
		t.Errorf("%+v", m)
	}
	eventually(t, "events of the session", func() string {
		var e events
		d.execute(t, "show event recent peer north", &e)
		if !e.has("peer-up") || !e.has("route-change", "family", "ipv4/unicast") {
			return fmt.Sprint(e)
		}
		return ""
	})

	watched := make(chan events, 1)
	go func() {
		var e events
		answer, err := d.mcp.Call(t.Context(), "ze_monitor", map[string]any{"action": "event", "types": []string{"peer-down"}, "for": "4s"})
		if err == nil {
			err = json.Unmarshal(answer, &e)
		}
		if err != nil {
			t.Error(err)
		}
		watched <- e
	}()
	// It is told only what happens from when it watches on, which is not before it
	// is seen in flight.
	eventually(t, "the monitor", func() string {
		if _, text := get(t, d.url(t, "metrics")+"/metrics"); !strings.Contains(text, `ze_tool_calls_in_flight{tool="ze_monitor"} 1`) {
			return "is not running"
		}
		return ""
	})
	eventually(t, "the loss of the session", func() string {
		if out := bird.Control("disable", "peer"); !strings.Contains(out, "disabled") {
			return out
		}
		return ""
	})
	e := <-watched
	if len(e.Event) != 1 || !e.has("peer-down", "peer", "north") || !strings.Contains(e.Event[0].Message, "notification-received") || e.Lost != 0 {
		t.Errorf("watched %+v", e)
	}
}

// TestChangesAreEvents: what changes the configuration and tokens is told, each
// once, to those who may know of it.
func TestChangesAreEvents(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var reader struct{ Secret string }
	d.execute(t, "token create reader scope read", &reader)
	d.execute(t, "token rotate reader overlap 1h", nil)
	d.execute(t, "set environment instance name other", nil)
	d.execute(t, "request config commit comment test", nil)
	d.execute(t, "set environment instance name third", nil)
	d.execute(t, "request config commit confirmed 1", nil)
	d.execute(t, "token revoke reader", nil)
	var all events
	eventually(t, "the unconfirmed commit", func() string {
		if d.execute(t, "show event recent", &all); !all.has("config-revert", "revision", "4") {
			return fmt.Sprint(all)
		}
		return ""
	})
	for _, want := range []struct {
		kind, key, value string
		times            int
	}{
		{"token-change", "token", "reader", 3}, {"config-commit", "revision", "2", 1}, {"config-commit", "revision", "3", 1},
		{"reload", "revision", "2", 1}, {"reload", "revision", "4", 1}, {"config-revert", "revision", "4", 1},
	} {
		n := 0
		for _, e := range all.Event {
			if e.Type == want.kind && e.Subject[want.key] == want.value {
				n++
			}
		}
		if n != want.times {
			t.Errorf("%s about %s %s: %d times, want %d", want.kind, want.key, want.value, n, want.times)
		}
	}

	var narrow struct{ Secret string }
	d.execute(t, "token create narrow allow [ 'show event' 'show config history' ]", &narrow)
	mine := client.New(d.url(t, "mcp")+"/mcp", narrow.Secret, "test")
	defer mine.Close()
	answer, err := mine.Call(t.Context(), "ze_execute", map[string]string{"command": "show event types"})
	if err != nil || !strings.Contains(string(answer), "config-commit") || strings.Contains(string(answer), "token") || strings.Contains(string(answer), "peer") {
		t.Errorf("types for whoever may see the history only: %s %v", answer, err)
	}
	var few events
	if answer, err = mine.Call(t.Context(), "ze_execute", map[string]string{"command": "show event recent"}); err == nil {
		err = json.Unmarshal(answer, &few)
	}
	if err != nil || !few.has("config-commit") || few.has("token-change") || few.has("reload") {
		t.Errorf("events for it: %s %v", answer, err)
	}
	if _, err := mine.Call(t.Context(), "ze_execute", map[string]string{"command": "show event recent token-change"}); err == nil || !strings.Contains(err.Error(), "there is no type of event") {
		t.Errorf("a type that is not for it: %v", err)
	}
}

// TestRevocationEndsStreams: within a second of the end of its token a stream
// ends, others go on.
func TestRevocationEndsStreams(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var token struct{ Secret string }
	d.execute(t, "token create listener scope read", &token)
	theirs, ours := d.listen(t, token.Secret, `{"toolsListChanged":true}`), d.listen(t, d.admin, `{"toolsListChanged":true,"promptsListChanged":true}`)
	d.execute(t, "token revoke listener", nil)
	revoked := time.Now()
	await(t, theirs, "")
	for range theirs {
	}
	if took := time.Since(revoked); took >= time.Second {
		t.Errorf("the stream ended %s after the revocation", took)
	}
	select {
	case m := <-ours:
		t.Errorf("another's stream: %+v", m)
	default:
	}
}

// TestStopEndsWhatWaits: whatever only waits for something does not hold up the
// end of the daemon.
func TestStopEndsWhatWaits(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	heard := d.listen(t, d.admin, `{"toolsListChanged":true}`)
	monitored := make(chan error, 1)
	go func() {
		answer, err := d.mcp.Call(context.WithoutCancel(t.Context()), "ze_execute", map[string]string{"command": "monitor event for 1h"})
		if err == nil && !strings.Contains(string(answer), `"seconds":0`) {
			err = fmt.Errorf("it answers %s", answer)
		}
		monitored <- err
	}()
	eventually(t, "the monitor", func() string {
		if _, text := get(t, d.url(t, "metrics")+"/metrics"); !strings.Contains(text, `ze_tool_calls_in_flight{tool="ze_execute"} 1`) || !strings.Contains(text, "ze_mcp_streams 1") {
			return "is not running"
		}
		return ""
	})
	began := time.Now()
	d.stop(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
	await(t, heard, "")
	if err := <-monitored; err != nil {
		t.Errorf("the monitor: %v", err)
	}
}

// TestEventTypes: each type of event names a command that tells as much, and a
// resource changes on types that there are.
func TestEventTypes(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var types struct {
		Type []struct{ Name string }
	}
	d.execute(t, "show event types", &types)
	names := make([]string, len(types.Type))
	for i, kind := range types.Type {
		names[i] = kind.Name
	}
	if len(names) != 8 || !slices.IsSorted(names) {
		t.Errorf("an administrator sees %v; a type whose command does not exist is shown to nobody", names)
	}
	set, err := schema.Load(builtin.Models())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range set.Commands() {
		for _, name := range c.UpdatedOn {
			if !slices.Contains(names, name) {
				t.Errorf("%v changes on events of type %s, which does not exist", c.Path, name)
			}
		}
	}
}
