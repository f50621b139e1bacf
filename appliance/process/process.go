// Package process starts child processes, watches them, restarts them with
// exponential back-off and ends their process groups. It owns the children and
// their pipes; it must not know what is spoken over the pipes.
//
// A child leads a process group of its own, and the whole group is killed when
// the child ends, whatever ended it. What leaves the group (setsid) is left to
// the service manager's control group. There is no parent-death signal: under
// Go it follows the starting thread and kills children early. A child that must
// not outlive the daemon ends when its standard input does.
package process

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configures a Supervisor. Name and Path are required.
type Options struct {
	Name string   // names the child in the log, in metrics and in errors
	Path string   // the program
	Args []string // its arguments, without the program's name
	// Env is the child's whole environment, "NAME=value". Nothing is inherited,
	// and the variables by which a service manager talks to the daemon itself
	// are dropped even from here.
	Env    []string
	Logger zerolog.Logger

	Backoff Backoff
	// Grace is how long a child that is being stopped may take after its
	// standard input closed, and once more after TERM. Default 3 s.
	Grace time.Duration
	// OnStart is called after each start and makes the child ready to use. While
	// it runs the state is starting, after it running. Its error ends the child,
	// which is then restarted like one that crashed. ctx is cancelled when the
	// child ends or is to be stopped. Nil: ready at once.
	OnStart func(ctx context.Context, c *Conn) error

	Now   func() time.Time                     // default time.Now
	After func(time.Duration) <-chan time.Time // default time.After
}

// State is what a supervised child is doing.
type State string

// The states.
const (
	Stopped    State = "stopped"     // not started, or stopped for good
	Starting   State = "starting"    // the process runs; OnStart has not returned
	Running    State = "running"     // the process runs and is ready
	BackingOff State = "backing-off" // ended; waits for its next start
)

// Status is a snapshot of a Supervisor.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	Since    time.Time `json:"since"`               // when the state was entered
	PID      int       `json:"pid,omitempty"`       // 0 unless starting or running
	Restarts uint64    `json:"restarts"`            // starts after the first
	LastExit string    `json:"last-exit,omitempty"` // why the child ended last
}

// Supervisor runs one child process and restarts it when it ends.
type Supervisor struct {
	o Options

	mu     sync.Mutex
	status Status
	starts uint64
	cancel context.CancelFunc // asks run to end; nil before Start
	kill   context.CancelFunc // ends the graces of a stop
	done   chan struct{}      // closed when run has ended
}

// New returns a Supervisor whose child is not yet started.
func New(o Options) *Supervisor {
	if o.Grace <= 0 {
		o.Grace = 3 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	o.Env = withoutManager(o.Env)
	o.Logger = o.Logger.With().Str("process", o.Name).Logger()
	return &Supervisor{o: o, status: Status{Name: o.Name, State: Stopped, Since: o.Now()}}
}

// Start begins to supervise and returns at once; failed starts are retried like
// crashes. When ctx ends the child is stopped as by Stop, which must still be
// called to wait for it. After Stop it can be started again.
func (s *Supervisor) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return fmt.Errorf("start %s: it runs already", s.o.Name)
	}
	ctx, s.cancel = context.WithCancel(ctx)
	hurry, kill := context.WithCancel(context.Background())
	s.kill = kill
	done := make(chan struct{})
	s.done, s.starts = done, 0
	go func() {
		defer close(done)
		s.run(ctx, hurry)
	}()
	return nil
}

// Stop closes the child's standard input, after Grace sends TERM to its group,
// after Grace again KILL, and waits until the child is reaped. When ctx ends the
// KILL comes at once. It does nothing if the child was never started.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	cancel, kill, done := s.cancel, s.kill, s.done
	s.mu.Unlock()
	if done == nil {
		return nil
	}
	cancel()
	defer func() {
		kill()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.done == done {
			s.done = nil
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		kill()
		<-done
		return fmt.Errorf("stop %s: killed before its grace was over: %w", s.o.Name, ctx.Err())
	}
}

// Status returns a snapshot.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Collectors returns the child's metrics; the caller registers them.
func (s *Supervisor) Collectors() []prometheus.Collector {
	labels := prometheus.Labels{"process": s.o.Name}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ze_process_up", Help: "1 while the child process runs and is ready.", ConstLabels: labels,
		}, func() float64 {
			if s.Status().State == Running {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "ze_process_restarts_total", Help: "Starts of the child process after its first.", ConstLabels: labels,
		}, func() float64 { return float64(s.Status().Restarts) }),
	}
}

func (s *Supervisor) run(ctx, hurry context.Context) {
	var next time.Duration
	for ctx.Err() == nil {
		began := s.o.Now()
		err := s.child(ctx, hurry)
		if ctx.Err() != nil {
			break
		}
		next = s.o.Backoff.Next(next, s.o.Now().Sub(began))
		wait := s.o.After(next)
		s.enter(BackingOff, 0, err)
		s.o.Logger.Warn().Err(err).Dur("restart-in-ms", next).Msg("process ended")
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	s.enter(Stopped, 0, nil)
	s.o.Logger.Info().Msg("process stopped")
}

// enter changes the state; exit, if any, is kept as the reason of the last end.
func (s *Supervisor) enter(state State, pid int, exit error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.State, s.status.PID, s.status.Since = state, pid, s.o.Now()
	if exit != nil {
		s.status.LastExit = exit.Error()
	}
	if state == Starting {
		if s.starts++; s.starts > 1 {
			s.status.Restarts++
		}
	}
}

var errEnded = errors.New("exited with status 0")

// withoutManager drops what the service manager gave the daemon alone: with it a
// child could spoof the daemon's readiness or take over its sockets.
func withoutManager(env []string) []string {
	kept := make([]string, 0, len(env)) // never nil: nil would inherit everything
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case name == "NOTIFY_SOCKET", name == "CREDENTIALS_DIRECTORY",
			strings.HasPrefix(name, "WATCHDOG_"), strings.HasPrefix(name, "LISTEN_"):
		default:
			kept = append(kept, v)
		}
	}
	return kept
}
