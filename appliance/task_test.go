package appliance_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"ze.internal/ze/appliance"
	"ze.internal/ze/mcp/client"
)

// patient returns a client that takes tasks.
func (d *daemon) patient(t *testing.T, secret string) *client.Client {
	t.Helper()
	c := client.Open(client.Options{URL: d.url(t, "mcp") + "/mcp", Token: secret, Name: "test",
		Capabilities: map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}})
	t.Cleanup(c.Close)
	return c
}

// task begins a task that runs a command line, and returns its id.
func (d *daemon) task(t *testing.T, secret, line string) string {
	t.Helper()
	r, err := d.patient(t, secret).CallTool(t.Context(), "ze_execute", map[string]string{"command": line}, nil)
	if err != nil || r.Task == nil {
		t.Fatalf("%s: %+v, %v", line, r, err)
	}
	return r.Task.ID
}

// becomes waits until a task has a status.
func (d *daemon) becomes(t *testing.T, secret, id, status string) (last *client.Task) {
	t.Helper()
	c := d.patient(t, secret)
	eventually(t, "task "+id, func() string {
		var err error
		if last, err = c.Task(t.Context(), id); err != nil {
			return err.Error()
		}
		if last.Status != status {
			return last.Status
		}
		return ""
	})
	return last
}

func TestTasks(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	done := d.task(t, d.admin, "monitor event for 2s")
	running := d.task(t, d.admin, "monitor event for 1h")
	ended := d.becomes(t, d.admin, done, "completed")
	var r client.Result
	if err := json.Unmarshal(ended.Result, &r); err != nil || r.IsError || !strings.Contains(string(r.Structured), `"seconds":2`) {
		t.Errorf("%s, %v", ended.Result, err)
	}

	type shown struct {
		Task []struct{ ID, Command, Status, Result string }
	}
	var list, one shown
	d.execute(t, "show task", &list)
	if len(list.Task) != 2 || list.Task[0].ID != done || list.Task[0].Result != "" || list.Task[1].Status != "working" || list.Task[1].Command != "monitor event" {
		t.Errorf("%+v", list)
	}
	d.execute(t, "show task "+done, &one)
	if len(one.Task) != 1 || !json.Valid([]byte(one.Task[0].Result)) {
		t.Errorf("%+v", one)
	}
	// Of another caller nothing of this is known.
	if status, body := d.control(t, "show task"); status != http.StatusOK || strings.Contains(body, done) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := d.control(t, "request task cancel "+running); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}

	// A daemon that ends and begins again keeps what was answered, and goes on
	// with what may run twice.
	d.stop(t)
	d2 := startDaemon(t, daemonOptions{dir: d.dir})
	d2.admin, d2.mcp = d.admin, d2.as(t, d.admin)
	if again := d2.becomes(t, d.admin, done, "completed"); string(again.Result) != string(ended.Result) {
		t.Errorf("%s became %s", ended.Result, again.Result)
	}
	d2.becomes(t, d.admin, running, "working")
	d2.execute(t, "request task cancel "+running, nil)
	d2.becomes(t, d.admin, running, "cancelled")
}

// A token that is given a new secret keeps its tasks; one that is revoked has
// them ended, and a new one of its name knows nothing of them.
func TestTasksBelongToTheToken(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: plainConfig})
	var first, second, other bearer
	d.execute(t, "token create bot", &first)
	id := d.task(t, first.Secret, "monitor event for 1h")
	d.execute(t, "token rotate bot", &second)
	d.becomes(t, second.Secret, id, "working")

	d.execute(t, "token revoke bot", nil)
	eventually(t, "the task of the revoked token", func() string {
		for _, l := range strings.Split(d.text(t, "/metrics"), "\n") {
			if l == `ze_tasks{state="cancelled"} 1` {
				return ""
			}
		}
		return "not cancelled"
	})
	d.execute(t, "token create bot", &other)
	_, err := d.patient(t, other.Secret).Task(t.Context(), id)
	var refused *client.RPCError
	if !errors.As(err, &refused) || refused.Code != -32602 {
		t.Errorf("another bot is told %v", err)
	}
}

// text fetches a page of the metrics listener.
func (d *daemon) text(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(d.url(t, "metrics") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return readAll(t, resp)
}

// The limits of tasks are configured, and change with a reload.
func TestTaskLimits(t *testing.T) {
	d := startDaemon(t, daemonOptions{config: "environment { mcp { enabled true; } task { running 1; ttl 60; deadline 30; poll 2; } }\n"})
	r, err := d.patient(t, d.admin).CallTool(t.Context(), "ze_execute", map[string]string{"command": "monitor event for 1h"}, nil)
	if err != nil || r.Task == nil || r.Task.PollMs != 2000 || !strings.Contains(string(r.Raw), `"ttlMs":60000`) {
		t.Fatalf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if r, err := d.patient(t, d.admin).CallTool(ctx, "ze_execute", map[string]string{"command": "monitor event for 2s"}, nil); err != nil || r.Task != nil {
		t.Errorf("a second task: %+v, %v", r, err)
	}
	d.execute(t, "set environment task running 2", nil)
	d.execute(t, "request config commit", nil)
	d.task(t, d.admin, "monitor event for 1h")

	_, err = appliance.LoadConfiguration("ze.conf", []byte("environment { task { ttl 10; } }"), appliance.Overrides{}, 1)
	if err == nil || !strings.Contains(err.Error(), "at least 7200") {
		t.Errorf("a time to live shorter than the deadline: %v", err)
	}
}
