package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/appliance/task"
	"ze.internal/ze/store"
)

const (
	canTask    = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	canTaskAsk = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// working are tools that may become tasks: they do what their name says.
func working(t *testing.T, kind string, run command.Run) *command.Command {
	t.Helper()
	input, err := schema.FromJSON(json.RawMessage(`{"type":"object"}`))
	if err != nil {
		t.Fatal(err)
	}
	mode, only := strings.CutSuffix(kind, "-only")
	c, err := command.NewRuntime(&schema.Command{Path: []string{kind}, Effect: "change", Description: "For tests.", Task: mode, Input: input}, kind, run)
	if err != nil {
		t.Fatal(err)
	}
	c.TaskOnly = only
	return c
}

// taskFixture is a server with tasks whose tools required, optional and
// required-only do what run says.
type taskFixture struct {
	*fixture
	run command.Run
}

func withTasks(t *testing.T, test func(t *testing.T, f *taskFixture)) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(store.Options{Dir: dir, Create: true, Instance: "test", Logger: zerolog.Nop()})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		f := &taskFixture{}
		var manager *task.Manager
		f.fixture = newFixture(t, func(o *Options) {
			manager = task.New(task.Options{
				Store: db, Dispatcher: o.Dispatcher, CanAnswer: CanAnswer, Logger: zerolog.Nop(), Clock: time.Now,
				Principal: func(context.Context, string) (*access.Principal, error) { return &access.Principal{}, nil },
			})
			o.Tasks = manager
		})
		for _, kind := range []string{"required", "optional", "required-only", "forbidden"} {
			if err := f.registry.Register(working(t, kind, func(ctx context.Context, r *command.Request) (any, error) { return f.run(ctx, r) })); err != nil {
				t.Fatal(err)
			}
		}
		if err := manager.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := manager.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		test(t, f)
	})
}

// taskAnswer is what comes back, of every kind.
type taskAnswer struct {
	status int
	text   string
	Result *struct {
		ResultType     string
		TaskID         string
		Status         string
		StatusMessage  string
		CreatedAt      time.Time
		LastUpdatedAt  time.Time
		TTL            int64 `json:"ttlMs"`
		Poll           int64 `json:"pollIntervalMs"`
		InputRequests  map[string]struct{ Method string }
		Result         *struct{ IsError bool }
		Error          *struct{ Code int }
		IsError        bool
		RequestState   string
		Content        json.RawMessage
		StructuredJSON json.RawMessage `json:"structuredContent"`
	}
	Error *struct {
		Code    int
		Message string
		Data    json.RawMessage
	}
}

// send sends a request of a client with these capabilities.
func (f *taskFixture) send(t *testing.T, token, can, method, name, params string) taskAnswer {
	t.Helper()
	r := post(token, method, name, params)
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	text := strings.Replace(body.String(), `clientCapabilities":{}`, `clientCapabilities":`+can, 1)
	if !strings.Contains(text, can) {
		t.Fatalf("no place for capabilities in %s", text)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, withBody(r, text))
	a := taskAnswer{status: w.Code, text: w.Body.String()}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil && err != io.EOF {
		t.Fatalf("%s: %v", a.text, err)
	}
	return a
}

func (f *taskFixture) callTool(t *testing.T, can, tool string) taskAnswer {
	t.Helper()
	return f.send(t, adminToken, can, "tools/call", tool, `"name":"`+tool+`"`)
}

// created calls a tool and returns the id of the task that comes of it.
func (f *taskFixture) created(t *testing.T, can, tool string) string {
	t.Helper()
	a := f.callTool(t, can, tool)
	if a.Result == nil || a.Result.ResultType != "task" || a.Result.TaskID == "" || a.Result.Status != "working" ||
		a.Result.TTL != 14_400_000 || a.Result.Poll != 1000 || a.Result.CreatedAt.IsZero() || a.Result.LastUpdatedAt.IsZero() || a.Result.Content != nil {
		t.Fatalf("%s: %s", tool, a.text)
	}
	return a.Result.TaskID
}

func (f *taskFixture) get(t *testing.T, id string) taskAnswer {
	t.Helper()
	synctest.Wait()
	a := f.send(t, adminToken, canTask, "tasks/get", id, `"taskId":"`+id+`"`)
	if a.Result == nil || a.Result.ResultType != "complete" || a.Result.TaskID != id {
		t.Fatal(a.text)
	}
	return a
}

func finished(context.Context, *command.Request) (any, error) { return map[string]int{"n": 1}, nil }

func untilEnded(ctx context.Context, _ *command.Request) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who declares tasks may be given one, everybody else waits.
func TestTaskOnlyForWhoDeclaresIt(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		f.run = finished
		for _, row := range []struct{ can, tool, want string }{
			{`{}`, "required", "complete"}, {`{}`, "optional", "complete"}, {`{}`, "forbidden", "complete"},
			{canTask, "required", "task"}, {canTask, "required-only", "task"}, {canTask, "optional", "complete"}, {canTask, "forbidden", "complete"},
		} {
			if a := f.callTool(t, row.can, row.tool); a.Result == nil || a.Result.ResultType != row.want {
				t.Errorf("%s %s: %s", row.can, row.tool, a.text)
			}
		}
		a := f.callTool(t, `{}`, "required-only")
		if a.status != http.StatusBadRequest || a.Error == nil || a.Error.Code != codeMissingCapability ||
			string(a.Error.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
			t.Errorf("%d %s", a.status, a.text)
		}
		f.run = func(context.Context, *command.Request) (any, error) {
			time.Sleep(2 * task.Patience)
			return finished(context.Background(), nil)
		}
		f.created(t, canTask, "optional")
		if a := f.callTool(t, `{}`, "optional"); a.Result == nil || a.Result.ResultType != "complete" {
			t.Errorf("%s", a.text)
		}
		// A command line becomes a task as a tool does.
		if a := f.send(t, adminToken, canTask, "tools/call", "ze_execute", `"name":"ze_execute","arguments":{"command":"required"}`); a.Result == nil || a.Result.ResultType != "task" {
			t.Errorf("%s", a.text)
		}
	})
}

// What a task ends with is what the call would have answered.
func TestTaskResults(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		var errNow error
		f.run = func(context.Context, *command.Request) (any, error) { return map[string]int{"n": 1}, errNow }
		waited := f.callTool(t, `{}`, "required").text
		got := f.get(t, f.created(t, canTask, "required"))
		if got.Result.Status != "completed" || !strings.Contains(waited, resultOf(t, got.text)) {
			t.Errorf("task: %s\ncall: %s", got.text, waited)
		}
		errNow = &command.Error{Code: command.Conflict, Message: "no"}
		if got = f.get(t, f.created(t, canTask, "required")); got.Result.Status != "completed" || got.Result.Result == nil || !got.Result.Result.IsError {
			t.Error(got.text)
		}
		errNow = fmt.Errorf("broken")
		if got = f.get(t, f.created(t, canTask, "required")); got.Result.Status != "failed" || got.Result.Error == nil || got.Result.Error.Code != codeInternal || got.Result.StatusMessage == "" {
			t.Error(got.text)
		}
	})
}

// resultOf returns the member result of a task, as it was sent.
func resultOf(t *testing.T, text string) string {
	t.Helper()
	var m struct {
		Result struct{ Result json.RawMessage }
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result.Result == nil {
		t.Fatalf("%s: %v", text, err)
	}
	return string(m.Result.Result)
}

func TestTaskUpdateAndCancel(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		params := json.RawMessage(`{"message":"Which?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`)
		f.run = func(ctx context.Context, _ *command.Request) (any, error) {
			answers, err := command.Ask(ctx, command.Question{Key: "a", Method: "elicitation/create", Params: params},
				command.Question{Key: "b", Method: "elicitation/create", Params: params})
			return answers, err
		}
		id := f.created(t, canTaskAsk, "required")
		if got := f.get(t, id); got.Result.Status != "input_required" || len(got.Result.InputRequests) != 2 || got.Result.InputRequests["a"].Method != "elicitation/create" {
			t.Fatal(got.text)
		}
		update := func(responses string) taskAnswer {
			return f.send(t, adminToken, canTask, "tasks/update", id, `"taskId":"`+id+`","inputResponses":`+responses)
		}
		for responses, code := range map[string]int{
			`null`: codeInvalidParams, `[]`: codeInvalidParams, `{"a":5}`: codeInvalidParams,
			`{"a":{"action":"accept","content":{"n":"x"}}}`: codeInvalidParams, `{"a":{"action":"perhaps"}}`: codeInvalidParams,
		} {
			if a := update(responses); a.Error == nil || a.Error.Code != code {
				t.Errorf("%s: %s", responses, a.text)
			}
		}
		if a := update(`{"c":5,"b":{"action":"decline"}}`); a.Result == nil || a.Result.ResultType != "complete" || a.Result.TaskID != "" {
			t.Error(a.text)
		}
		if got := f.get(t, id); got.Result.Status != "input_required" || len(got.Result.InputRequests) != 1 {
			t.Error(got.text)
		}
		update(`{"a":{"action":"accept","content":{"n":5}}}`)
		if got := f.get(t, id); got.Result.Status != "completed" {
			t.Error(got.text)
		}
		f.run = untilEnded
		id = f.created(t, canTask, "required")
		for range 2 { // the second time changes nothing
			if a := f.send(t, adminToken, canTask, "tasks/cancel", id, `"taskId":"`+id+`"`); a.Result == nil || a.Result.ResultType != "complete" || a.Result.Status != "" {
				t.Error(a.text)
			}
			if got := f.get(t, id); got.Result.Status != "cancelled" {
				t.Error(got.text)
			}
		}
	})
}

// The order of the checks, and that a foreign task looks like none.
func TestTaskRefusals(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		f.run = untilEnded
		id := f.created(t, canTask, "required")
		var foreign, unknown taskAnswer
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			for _, row := range []struct {
				what, token, can, name, params string
				status, code                   int
			}{
				{"not declared", adminToken, `{}`, id, `"taskId":"` + id + `"`, 400, codeMissingCapability},
				{"not declared, unknown", adminToken, `{}`, "x", `"taskId":"x"`, 400, codeMissingCapability},
				{"no id", adminToken, canTask, id, `"a":1`, 400, codeInvalidParams},
				{"id is a number", adminToken, canTask, id, `"taskId":1`, 400, codeInvalidParams},
				{"no header", adminToken, canTask, "", `"taskId":"` + id + `"`, 400, codeHeaderMismatch},
				{"another header", adminToken, canTask, "x", `"taskId":"` + id + `"`, 400, codeHeaderMismatch},
				{"foreign", readToken, canTask, id, `"taskId":"` + id + `"`, 200, codeInvalidParams},
				{"unknown", adminToken, canTask, "x", `"taskId":"x"`, 200, codeInvalidParams},
			} {
				a := f.send(t, row.token, row.can, method, row.name, row.params)
				if a.status != row.status || a.Error == nil || a.Error.Code != row.code {
					t.Errorf("%s, %s: %d %s", method, row.what, a.status, a.text)
				}
				switch row.what {
				case "foreign":
					foreign = a
				case "unknown":
					unknown = a
				}
			}
			if strings.ReplaceAll(foreign.text, id, "x") != unknown.text {
				t.Errorf("%s: foreign %s, unknown %s", method, foreign.text, unknown.text)
			}
		}
		for _, method := range []string{"tasks/list", "tasks/result"} {
			if a := f.send(t, adminToken, canTask, method, "", `"taskId":"`+id+`"`); a.status != http.StatusNotFound || a.Error.Code != codeMethodNotFound {
				t.Errorf("%s: %d %s", method, a.status, a.text)
			}
		}
		if got := f.get(t, id); got.Result.Status != "working" {
			t.Error(got.text)
		}
	})
}

// Whoever listens hears how its tasks are, as tasks/get would say it, and nothing
// of those of others.
func TestTaskNotifications(t *testing.T) {
	withTasks(t, func(t *testing.T, f *taskFixture) {
		step := make(chan struct{})
		f.run = func(ctx context.Context, _ *command.Request) (any, error) {
			for _, say := range []string{"half", ""} {
				select {
				case <-step:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if say != "" {
					command.Report(ctx, command.Progress{Message: say})
				}
			}
			return map[string]int{"n": 1}, nil
		}
		id := f.created(t, canTask, "required")
		listen := func(token string) (heard func() string, end func()) {
			r := post(token, "subscriptions/listen", "", `"notifications":{"taskIds":["`+id+`","x"]}`)
			var body bytes.Buffer
			_, _ = body.ReadFrom(r.Body)
			ctx, cancel := context.WithCancel(t.Context())
			r = withBody(r, strings.Replace(body.String(), `clientCapabilities":{}`, `clientCapabilities":`+canTask, 1)).WithContext(ctx)
			w := &lines{ResponseRecorder: httptest.NewRecorder(), heard: make(chan string, 100)}
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.ServeHTTP(w, r)
			}()
			return func() string {
					select {
					case line := <-w.heard:
						return line
					case <-time.After(5 * time.Second):
						return ""
					}
				}, func() {
					cancel()
					<-done
				}
		}
		heard, end := listen(adminToken)
		defer end()
		if got := heard(); !strings.Contains(got, `"notifications":{"taskIds":["`+id+`"]}`) {
			t.Errorf("acknowledged: %s", got)
		}
		for _, want := range []string{`"status":"working","createdAt"`, `"statusMessage":"half"`, `"status":"completed"`} {
			got := heard()
			if !strings.Contains(got, `"method":"notifications/tasks"`) || !strings.Contains(got, id) || !strings.Contains(got, want) ||
				!strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":1`) || strings.Contains(got, "resultType\":\"task") {
				t.Errorf("heard %s, want %s", got, want)
			}
			if want != `"status":"completed"` {
				step <- struct{}{}
			} else if !strings.Contains(got, `"structuredContent":{"n":1}`) {
				t.Errorf("the answer is not in %s", got)
			}
		}
		other, endOther := listen(readToken)
		defer endOther()
		if got := other(); strings.Contains(got, id) {
			t.Errorf("another caller is told of it: %s", got)
		}
	})
}

// lines hands on the data of each event.
type lines struct {
	*httptest.ResponseRecorder
	heard chan string
}

func (w *lines) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			w.heard <- data
		}
	}
	return len(b), nil
}
