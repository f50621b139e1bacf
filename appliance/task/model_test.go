package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ze.internal/ze/appliance/command"
	. "ze.internal/ze/appliance/task"
)

// modelled is what is known of a task from what was done to it.
type modelled struct {
	status  Status
	repeats bool // its command may run twice
	open    int  // questions
	created time.Time
	end     chan error // tells the command how to end; nil: well
	ask     chan int   // tells it to ask so many questions
}

// machine drives a manager and holds it against the model.
type machine struct {
	t     *testing.T
	g     *rig
	tasks map[string]*modelled
	runs  sync.Map // *modelled by the number that its command is given
	next  int
}

const (
	modelTTL      = 20 * time.Minute
	modelDeadline = 10 * time.Minute
	modelRunning  = 4
)

func (m *machine) run(ctx context.Context, r *command.Request) (any, error) {
	var in struct{ N int }
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	v, _ := m.runs.Load(in.N)
	x := v.(*modelled)
	for n := 0; ; {
		select {
		case err := <-x.end:
			return answer(1), err
		case k := <-x.ask:
			questions := make([]command.Question, k)
			for i := range questions {
				questions[i] = question(fmt.Sprint("q", n))
				n++
			}
			if _, err := command.Ask(ctx, questions...); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (m *machine) daemon(store *memory) {
	m.g = newRigOn(m.t, store, Limits{Running: modelRunning, Kept: 1000, TTL: modelTTL, Deadline: modelDeadline})
	m.g.run = m.run
}

// pick returns a task for an action, or skips it.
func (m *machine) pick(rt *rapid.T, fits func(*modelled) bool) (string, *modelled) {
	var ids []string
	for _, t := range m.g.List(alice.Owner()) {
		if fits(m.tasks[t.ID]) {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) == 0 {
		rt.Skip("there is none")
	}
	id := rapid.SampledFrom(ids).Draw(rt, "task")
	return id, m.tasks[id]
}

func (m *machine) begin(rt *rapid.T) {
	repeats := rapid.Bool().Draw(rt, "repeats")
	m.next++
	line := fmt.Sprint(map[bool]string{true: "look ", false: "act "}[repeats], m.next)
	x := &modelled{status: Working, repeats: repeats, created: time.Now(), end: make(chan error), ask: make(chan int)}
	running := 0
	for _, other := range m.tasks {
		if !other.status.Final() {
			running++
		}
	}
	m.runs.Store(m.next, x)
	_, task, err := m.g.Run(command.WithAsker(m.t.Context(), caller{}), call(alice, line), Required, nil)
	if running >= modelRunning {
		if e := command.AsError(err); task != nil || e.Code != command.Limit {
			rt.Fatalf("one too many: %v, %v", task, err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	m.tasks[task.ID] = x
}

func (m *machine) finish(rt *rapid.T) {
	_, x := m.pick(rt, func(x *modelled) bool { return x.status == Working })
	switch rapid.IntRange(0, 2).Draw(rt, "how") {
	case 0:
		x.status = Completed
		x.end <- nil
	case 1:
		x.status = Completed
		x.end <- &command.Error{Code: command.Conflict, Message: "no"}
	case 2:
		x.status = Failed
		x.end <- errors.New("broken")
	}
}

func (m *machine) cancel(rt *rapid.T) {
	id, x := m.pick(rt, func(*modelled) bool { return true })
	if err := m.g.Cancel(alice.Owner(), id); err != nil {
		rt.Fatal(err)
	}
	if !x.status.Final() {
		x.status, x.open = Cancelled, 0
	}
}

func (m *machine) ask(rt *rapid.T) {
	_, x := m.pick(rt, func(x *modelled) bool { return x.status == Working })
	x.open = rapid.IntRange(1, 3).Draw(rt, "questions")
	x.status = InputRequired
	x.ask <- x.open
}

func (m *machine) reply(rt *rapid.T) {
	id, x := m.pick(rt, func(x *modelled) bool { return x.status == InputRequired })
	task, err := m.g.Get(context.Background(), alice.Owner(), id)
	if err != nil {
		rt.Fatal(err)
	}
	open := task.Questions
	n := rapid.IntRange(0, len(open)).Draw(rt, "answers")
	answers := map[string]json.RawMessage{"none": json.RawMessage(`{}`)}
	for _, q := range open[:n] {
		answers[q.Key] = json.RawMessage(`{}`)
	}
	if err := m.g.Answer(alice.Owner(), id, answers); err != nil {
		rt.Fatal(err)
	}
	if x.open -= n; x.open == 0 {
		x.status = Working
	}
}

func (m *machine) wait(rt *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 400).Draw(rt, "seconds")) * time.Second)
	for _, x := range m.tasks {
		if !x.status.Final() && time.Since(x.created) >= modelDeadline {
			x.status, x.open = Failed, 0
		}
	}
}

func (m *machine) restart(rt *rapid.T) {
	synctest.Wait()
	if err := m.g.Stop(context.Background()); err != nil {
		rt.Fatal(err)
	}
	m.daemon(m.g.store)
	for _, x := range m.tasks {
		switch {
		case x.status.Final():
		case !x.repeats:
			x.status, x.open = Failed, 0
		default:
			x.status, x.open = Working, 0
		}
	}
	kept, err := m.g.store.Tasks(context.Background())
	if err != nil {
		rt.Fatal(err)
	}
	for _, t := range kept {
		if x := m.tasks[t.ID]; x != nil && !x.status.Final() && t.Starts >= 3 {
			x.status = Failed
		}
	}
	if err := m.g.Start(context.Background()); err != nil {
		rt.Fatal(err)
	}
}

// check holds every task against the model.
func (m *machine) check(rt *rapid.T) {
	synctest.Wait()
	for id, x := range m.tasks {
		task, err := m.g.Get(context.Background(), alice.Owner(), id)
		if x.status.Final() && time.Since(x.created) >= modelTTL {
			if !errors.Is(err, ErrNoTask) {
				rt.Fatalf("an expired task is still there: %+v, %v", task, err)
			}
			delete(m.tasks, id)
			continue
		}
		if err != nil {
			rt.Fatal(err)
		}
		if task.Status != x.status || len(task.Questions) != x.open {
			rt.Fatalf("task is %+v, want %s with %d questions", task, x.status, x.open)
		}
		if kept, err := m.g.store.Task(context.Background(), id); err != nil || x.status.Final() && kept.Status != x.status {
			rt.Fatalf("the store has %+v, %v", kept, err)
		}
	}
}

// inBubble hides what may not be asked of a test under a clock of its own: when
// it has to be done.
type inBubble struct{ rapid.TB }

// TestModel does anything in any order, restarts included.
func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(rt *rapid.T) {
			m := &machine{t: t, tasks: map[string]*modelled{}}
			m.daemon(newMemory())
			if err := m.g.Start(context.Background()); err != nil {
				rt.Fatal(err)
			}
			defer func() { m.g.stop(t) }()
			rt.Repeat(map[string]func(*rapid.T){
				"begin": m.begin, "finish": m.finish, "cancel": m.cancel, "ask": m.ask, "reply": m.reply, "wait": m.wait, "restart": m.restart,
				"": m.check,
			})
		})
	})
}
