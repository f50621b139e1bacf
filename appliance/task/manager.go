package task

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
)

// Dispatcher runs commands; *command.Dispatcher is one.
type Dispatcher interface {
	Plan(call command.Call) (*command.Command, command.Call, error)
	Do(ctx context.Context, call command.Call) (*command.Result, error)
}

// Limits bound what tasks take. A zero field has its default.
type Limits struct {
	Running  int           // tasks of one owner that have not ended; default 8
	Kept     int           // tasks of one owner, ended ones included; default 128
	TTL      time.Duration // how long a task can be asked about, from its creation on; default 4 h
	Deadline time.Duration // how long a run may last; default 2 h
	Poll     time.Duration // how often a caller should ask how a task is; default 1 s
}

func (l Limits) withDefaults() Limits {
	return Limits{cmp.Or(l.Running, 8), cmp.Or(l.Kept, 128), cmp.Or(l.TTL, 4*time.Hour), cmp.Or(l.Deadline, 2*time.Hour), cmp.Or(l.Poll, time.Second)}
}

// Options of a Manager. Store, Dispatcher and Principal are required.
type Options struct {
	Store      Store
	Dispatcher Dispatcher
	// Principal returns who an owner is now, with the rights it has now; nil if
	// there is nobody of that name any more. Then its tasks are cancelled.
	Principal func(ctx context.Context, owner string) (*access.Principal, error)
	// CanAnswer reports whether a question can be put to the client that a surface
	// described when it started the task; nil: every one can.
	CanAnswer func(client json.RawMessage, q command.Question) bool
	Limits    Limits
	Events    *event.Bus // is told when a task changes; may be nil
	Clock     func() time.Time
	Rand      io.Reader // default crypto/rand.Reader
	Logger    zerolog.Logger
}

// Manager starts tasks and knows how they are. It is safe for concurrent use.
type Manager struct {
	o       Options
	log     zerolog.Logger
	metrics *metrics

	ctx  context.Context // ends when the manager stops
	stop context.CancelCauseFunc
	work sync.WaitGroup // runs and upkeep

	mu      sync.Mutex // guards what follows, and the fields of jobs that say so
	limits  Limits
	stopped bool
	jobs    map[string]*job   // tasks by id
	loose   map[*job]struct{} // runs that are no task yet
	watches map[*Watch]struct{}
}

// New returns a manager that knows no task yet; see Start.
func New(o Options) *Manager {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	m := &Manager{
		o: o, log: o.Logger, metrics: newMetrics(), limits: o.Limits.withDefaults(),
		jobs: map[string]*job{}, loose: map[*job]struct{}{}, watches: map[*Watch]struct{}{},
	}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	return m
}

// SetLimits changes the limits of tasks that begin from now on.
func (m *Manager) SetLimits(l Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits = l.withDefaults()
}

// Poll returns how often a caller should ask how a task is.
func (m *Manager) Poll() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.limits.Poll
}

// List returns the tasks of an owner, oldest first, without what they answered.
func (m *Manager) List(owner string) []Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []Task{}
	for _, j := range m.jobs {
		if m.visible(j, owner) {
			t := j.snapshot()
			t.Result, t.Answer, t.Error = nil, nil, nil
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Task) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Get returns one task of an owner. ErrNoTask for one that is unknown, expired
// or another's.
func (m *Manager) Get(ctx context.Context, owner, id string) (Task, error) {
	m.mu.Lock()
	j, err := m.find(owner, id)
	if err != nil {
		m.mu.Unlock()
		return Task{}, err
	}
	t, saved := j.snapshot(), j.saved
	m.mu.Unlock()
	if !saved {
		return t, nil
	}
	t, err = m.o.Store.Task(ctx, id) // answers are not held in memory
	if err != nil && !errors.Is(err, ErrNoTask) {
		err = fmt.Errorf("read task %s: %w", id, err)
	}
	return t, err
}

// Cancel asks a task to end. It may complete all the same; one that has ended
// stays as it is. ErrNoTask as for Get.
func (m *Manager) Cancel(owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(owner, id)
	if err != nil || j.cancel == nil {
		return err
	}
	j.task.Message = "cancellation was requested"
	m.changed(j)
	j.cancel(errCancelled)
	return nil
}

// find returns a task that is visible to owner. The caller holds m.mu.
func (m *Manager) find(owner, id string) (*job, error) {
	j := m.jobs[id]
	if j == nil || !m.visible(j, owner) {
		return nil, fmt.Errorf("task %q: %w", id, ErrNoTask)
	}
	return j, nil
}

// visible reports whether a task is owner's, durable, and not expired. The caller
// holds m.mu.
func (m *Manager) visible(j *job, owner string) bool {
	return j.task.Owner == owner && j.durable && !m.expired(j)
}

func (m *Manager) expired(j *job) bool {
	return j.task.Status.Final() && !m.o.Clock().Before(j.task.Created.Add(j.task.TTL))
}

// room says why owner may not have one more task; nil: it may. The caller holds
// m.mu.
func (m *Manager) room(owner, name string) error {
	running, kept := 0, 0
	var next time.Time // when the first one makes room
	for _, j := range m.jobs {
		if j.task.Owner != owner || m.expired(j) {
			continue
		}
		kept++
		if !j.task.Status.Final() {
			running++
		} else if end := j.task.Created.Add(j.task.TTL); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	switch {
	case running >= m.limits.Running:
		return &command.Error{Code: command.Limit, RetryAfter: m.limits.Poll, Actions: []string{"wait for one of them to end, or cancel one"},
			Message: fmt.Sprintf("%d tasks of %s are running, the most allowed at a time", running, name)}
	case kept >= m.limits.Kept:
		e := &command.Error{Code: command.Limit, Message: fmt.Sprintf("%d tasks of %s are kept, the most allowed", kept, name)}
		if !next.IsZero() {
			e.RetryAfter = next.Sub(m.o.Clock())
			e.Actions = []string{"try again after " + next.UTC().Format(time.RFC3339) + ", when the oldest is forgotten"}
		}
		return e
	}
	return nil
}

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns a name of 160 random bits: whoever does not have it cannot guess it.
func (m *Manager) newID() string {
	b := make([]byte, 20)
	if _, err := io.ReadFull(m.o.Rand, b); err != nil {
		panic(fmt.Sprintf("task: no randomness for a new id: %v", err))
	}
	return encoding.EncodeToString(b)
}
