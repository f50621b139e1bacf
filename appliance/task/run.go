package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
)

// Mode says when a run becomes a task.
type Mode string

// The modes: what ze:task of a command says.
const (
	Required Mode = "required" // at once
	Optional Mode = "optional" // when it has not finished within Patience
)

// Patience is how long the caller of an optional task waits for the answer itself.
const Patience = time.Second

// Why a run is made to end.
var (
	errCancelled = errors.New("cancelled by its owner")
	errRevoked   = errors.New("its owner's credential is no longer valid")
	errStopped   = errors.New("the daemon was stopped while it ran")
	errDeadline  = errors.New("it ran longer than a task may")
)

// job is a run of a command, and the task that it is or may become.
type job struct {
	saving chan struct{} // holds one value, except while the task is being written: its states reach the store in their order

	done   chan struct{} // closed when result and err are set
	result *command.Result
	err    error

	// Guarded by Manager.mu.
	task     Task
	parent   context.Context            // of the request that began it, as long as that waits
	cancel   context.CancelCauseFunc    // nil: it has ended
	kept     bool                       // it is a task
	durable  bool                       // and the store has it
	saved    bool                       // the final state is in the store, and the answer only there
	passing  bool                       // it asks the request that began it, and must not become a task meanwhile
	answers  map[string]json.RawMessage // by key of the question
	answered chan struct{}              // closed and renewed when an answer comes
	notified time.Time                  // when watches last heard of progress
}

func newSaving() chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}

// written lets the next one write the task.
func (j *job) written() { j.saving <- struct{}{} }

// snapshot returns the task as it is. The caller holds Manager.mu.
func (j *job) snapshot() Task {
	t := j.task
	t.Questions = slices.Clone(t.Questions)
	return t
}

// Run runs a command for a caller that can wait for a task. In mode Optional it
// returns the result if there is one soon, else the task that the run has become;
// a caller that goes away before ends the run. In mode Required it returns a task
// at once. A task goes on whatever becomes of ctx, whose values it keeps; it is
// durable when Run returns it. client is what a surface must know of the caller
// when the command asks something.
//
// Where there is no room for another task, or it cannot be written, an Optional
// run is waited for, and a Required one fails. The error is a *command.Error.
func (m *Manager) Run(ctx context.Context, call command.Call, mode Mode, client json.RawMessage) (*command.Result, *Task, error) {
	c, planned, err := m.o.Dispatcher.Plan(call)
	if err != nil || mode == Required && len(c.Input.Check(planned.Values)) > 0 {
		// There is nothing to run: the dispatcher says why, and leaves its traces.
		result, err := m.o.Dispatcher.Do(ctx, call)
		return result, nil, err
	}
	j, running, cancel, err := m.newJob(ctx, c, planned, client)
	if err != nil {
		return nil, nil, err
	}
	defer m.settle(j)
	if mode == Required {
		t, err := m.adopt(j, call.Principal.Name)
		if err != nil {
			cancel(nil)
			m.work.Done()
			return nil, nil, command.AsError(err)
		}
		go m.run(command.WithEnding(running, nil), j, planned)
		return nil, t, nil
	}
	// What is a task already does not end with the door that the call came by.
	ending, soon := command.Ending(ctx), make(chan struct{})
	go m.run(command.WithEnding(running, soon), j, planned)
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		select {
		case <-j.done:
			return j.result, nil, j.err
		case <-ending:
			close(soon)
			ending = nil
			continue
		case <-ctx.Done():
			cancel(context.Cause(ctx))
			<-j.done
			return j.result, nil, j.err
		case <-patience.C:
		}
		t, err := m.adopt(j, call.Principal.Name)
		switch {
		case errors.Is(err, errPassing):
			patience.Reset(Patience / 20)
		case err != nil:
			m.log.Warn().Err(err).Str("command", c.Name()).Msg("a long call cannot become a task; its caller goes on waiting")
		case t != nil:
			return nil, t, nil
		}
	}
}

// newJob prepares a run, which is then among those under way.
func (m *Manager) newJob(ctx context.Context, c *command.Command, call command.Call, client json.RawMessage) (*job, context.Context, context.CancelCauseFunc, error) {
	kept := Call{Path: c.Path, Surface: call.Surface, Remote: call.Remote, Principal: call.Principal.Name, Accessor: call.Principal.Accessor, Client: client}
	if repeatable(c) && !secretive(c) {
		var err error
		if kept.Args, err = json.Marshal(call.Values); err != nil { // before it runs: the run changes them
			return nil, nil, nil, command.AsError(fmt.Errorf("keep the arguments of %q: %w", c.Name(), err))
		}
	}
	now := m.o.Clock().UTC()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil, nil, nil, &command.Error{Code: command.Unavailable, Message: "the daemon is stopping", Actions: []string{"try again in a moment"}}
	}
	j := &job{saving: newSaving(), parent: ctx, task: Task{
		ID: m.newID(), Owner: call.Principal.Owner(), Call: kept, Status: Working,
		Created: now, Updated: now, TTL: m.limits.TTL, Deadline: now.Add(m.limits.Deadline), Starts: 1,
	}}
	running := m.begin(context.WithoutCancel(ctx), j, m.limits.Deadline, command.CanAsk(ctx))
	m.loose[j] = struct{}{}
	return j, running, j.cancel, nil
}

// begin makes j ready to run for a time. The caller holds m.mu.
func (m *Manager) begin(base context.Context, j *job, limit time.Duration, canAsk bool) context.Context {
	j.done, j.answers, j.answered = make(chan struct{}), map[string]json.RawMessage{}, make(chan struct{})
	ctx, cancel := context.WithCancelCause(base)
	j.cancel = cancel
	timer := time.AfterFunc(limit, func() { cancel(errDeadline) })
	stop := context.AfterFunc(m.ctx, func() { cancel(context.Cause(m.ctx)) })
	context.AfterFunc(ctx, func() { timer.Stop(); stop() })
	m.work.Add(1)
	ctx = command.WithProgress(ctx, func(p command.Progress) { m.progress(j, p) })
	if canAsk {
		ctx = command.WithAsker(ctx, asker{m, j})
	}
	return ctx
}

// settle takes a run that is no task out of those under way.
func (m *Manager) settle(j *job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.loose, j)
}

// repeatable reports whether running the command twice is the same as once.
func repeatable(c *command.Command) bool { return c.Idempotent || c.Effect == command.EffectRead }

// secretive reports whether arguments of the command must not be written down.
func secretive(c *command.Command) bool {
	var any func(nodes []*schema.Node) bool
	any = func(nodes []*schema.Node) bool {
		return slices.ContainsFunc(nodes, func(n *schema.Node) bool { return n.Sensitive || any(n.Children) })
	}
	return c.Conceal != nil || any(c.Input.Params)
}

// errPassing says that a run asks the request that began it.
var errPassing = errors.New("it asks the request that began it")

// adopt makes a run a task, durable when it returns. Without an error and a task
// the command has returned already.
func (m *Manager) adopt(j *job, name string) (*Task, error) {
	<-j.saving
	defer j.written()
	m.mu.Lock()
	switch {
	case j.cancel == nil:
		m.mu.Unlock()
		return nil, nil
	case j.passing:
		m.mu.Unlock()
		return nil, errPassing
	}
	if err := m.room(j.task.Owner, name); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	j.kept = true
	m.jobs[j.task.ID] = j
	t := j.snapshot()
	m.mu.Unlock()
	err := m.o.Store.PutTask(context.Background(), t) // the caller may go away, the run would not
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		j.kept = false
		delete(m.jobs, t.ID)
		return nil, fmt.Errorf("write the task: %w", err)
	}
	j.durable, j.parent = true, nil
	t = j.snapshot()
	m.publish(t)
	return &t, nil
}

// run carries out the command and, of a task, keeps how it ended.
func (m *Manager) run(ctx context.Context, j *job, call command.Call) {
	defer m.work.Done()
	begun := time.Now()
	result, err := m.do(ctx, call)
	cause := context.Cause(ctx)
	m.mu.Lock()
	j.cancel(nil)
	j.cancel = nil
	j.result, j.err = result, err
	m.mu.Unlock()
	close(j.done)

	<-j.saving // if it is becoming a task just now, that comes first
	defer j.written()
	m.mu.Lock()
	kept, t := j.kept, j.snapshot()
	if kept {
		j.result, j.err = nil, nil // nobody waits for it, and it may be large
	}
	m.mu.Unlock()
	if !kept || !t.conclude(result, err, cause) {
		return // what the store has of it says that it has not ended
	}
	t.Updated = m.later(t)
	m.metrics.durations.WithLabelValues(string(t.Status)).Observe(time.Since(begun).Seconds())
	m.save(j, t)
}

// do runs the command; no request stands behind it that would stop a panic.
func (m *Manager) do(ctx context.Context, call command.Call) (result *command.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			m.log.Error().Strs("command", call.Path).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("a call ended in a panic")
			result, err = nil, command.AsError(fmt.Errorf("command %q panicked: %v", strings.Join(call.Path, " "), p))
		}
	}()
	return m.o.Dispatcher.Do(ctx, call)
}

// later returns the time of a change of t, never before the last one.
func (m *Manager) later(t Task) time.Time {
	now := m.o.Clock().UTC()
	if now.Before(t.Updated) {
		return t.Updated
	}
	return now
}

// save writes the final state t of a task and then makes it known. The caller
// has j.saving.
func (m *Manager) save(j *job, t Task) {
	err := m.o.Store.PutTask(context.Background(), t)
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !j.task.Status.Final()
	j.task, j.answers = t, nil
	if j.saved = err == nil; j.saved {
		j.task.Result, j.task.Answer, j.task.Error = nil, nil, nil
	} else {
		m.log.Error().Err(err).Str("task", t.ID).Msg("the end of a task cannot be written; it is known until the daemon ends")
	}
	if first {
		m.publish(t)
		m.notify(j)
	}
}

// conclude makes t what the end of its run says. It reports whether that is an
// end: a task that can run again goes on after the daemon's next start.
func (t *Task) conclude(result *command.Result, err error, cause error) bool {
	t.Questions, t.Message = nil, ""
	if err == nil {
		t.Status, t.Result, t.Answer = Completed, result.JSON, result.Answer
		t.Call.Args, t.Call.Client = nil, nil
		return true
	}
	e := command.AsError(err)
	ended := cause != nil && (errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
	switch {
	case !ended && e.Code != command.Internal && e.Code != command.InputRequired:
		t.Status, t.Error = Completed, e
	case ended && errors.Is(cause, errStopped) && t.Call.Args != nil:
		return false
	case ended && (errors.Is(cause, errCancelled) || errors.Is(cause, errRevoked)):
		t.Status, t.Message = Cancelled, cause.Error()
	case ended:
		t.fail(cause.Error())
	default:
		t.Status, t.Error, t.Message = Failed, e, e.Message
	}
	t.Call.Args, t.Call.Client = nil, nil
	return true
}

// fail makes t one that has no answer.
func (t *Task) fail(why string) {
	t.Status, t.Message, t.Call.Args, t.Call.Client = Failed, why, nil, nil
	t.Error = &command.Error{Code: command.Internal, Message: why}
}

// progress takes up how far a run has come.
func (m *Manager) progress(j *job, p command.Progress) {
	m.mu.Lock()
	if parent := j.parent; parent != nil {
		m.mu.Unlock()
		command.Report(parent, p)
		m.mu.Lock()
	}
	defer m.mu.Unlock()
	switch j.task.Message = p.Message; {
	case p.Message == "" && p.Total > 0:
		j.task.Message = fmt.Sprintf("%v of %v", p.Done, p.Total)
	case p.Message == "":
		j.task.Message = fmt.Sprint(p.Done)
	}
	j.task.Updated = m.later(j.task)
	// Whoever watches wants to see it move, not each step.
	if now := time.Now(); now.Sub(j.notified) >= time.Second {
		j.notified = now
		m.notify(j)
	}
}

// changed records a change of a task's state and makes it known. The caller holds
// m.mu.
func (m *Manager) changed(j *job) {
	j.task.Updated = m.later(j.task)
	if j.durable {
		m.publish(j.task)
		m.notify(j)
	}
}

func (m *Manager) publish(t Task) {
	if m.o.Events != nil {
		m.o.Events.Publish(event.Event{Type: "task-change", Owner: t.Owner, Subject: map[string]string{"task": t.ID}, Message: fmt.Sprintf("task %s is %s", t.ID, t.Status)})
	}
}

// principal returns the caller of a task with the rights it has now, nil if it
// is gone.
func (m *Manager) principal(ctx context.Context, owner string) (*access.Principal, error) {
	p, err := m.o.Principal(ctx, owner)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", owner, err)
	}
	return p, nil
}
