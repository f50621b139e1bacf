package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/outputtest"
)

// shell supervises a child that runs a script.
func shell(script string) Options {
	return Options{Name: "test", Path: "/bin/sh", Args: []string{"-c", script}, Grace: 5 * time.Second}
}

// run starts a Supervisor and stops it at the end of the test.
func run(t *testing.T, o Options) *Supervisor {
	t.Helper()
	s := New(o)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// eventually polls until f succeeds: processes report nothing.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func awaitState(t *testing.T, s *Supervisor, want State) Status {
	t.Helper()
	eventually(t, func() error {
		if got := s.Status(); got.State != want {
			return fmt.Errorf("status = %+v, want %s", got, want)
		}
		return nil
	})
	return s.Status()
}

// alive reports whether a process runs; a zombie that waits for a parent other
// than this process does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	return len(rest) > 0 && rest[0] != 'Z'
}

func reaped(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestCrashLoopBacksOff(t *testing.T) {
	waits, release := make(chan time.Duration), make(chan time.Time)
	var log bytes.Buffer
	o := shell("exit 3")
	o.Logger = zerolog.New(&log).Level(zerolog.InfoLevel)
	o.Backoff = Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	o.After = func(d time.Duration) <-chan time.Time { waits <- d; return release }
	s := run(t, o)
	for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if got := <-waits; got != want*time.Millisecond {
			t.Errorf("wait %d = %s, want %d ms", i, got, want)
		}
		pid := awaitState(t, s, BackingOff)
		if pid.PID != 0 || !strings.Contains(pid.LastExit, "exit status 3") || pid.Restarts != uint64(i) {
			t.Errorf("status = %+v, want exit status 3 and %d restarts", pid, i)
		}
		release <- time.Time{}
	}
	<-waits // the seventh
	awaitState(t, s, BackingOff)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitState(t, s, Stopped)
	// Each life is one record that it ended, and at most one that it ran.
	if n := strings.Count(log.String(), "process ended"); n != 7 {
		t.Errorf("%d records of an end, want 7:\n%s", n, &log)
	}
	if n := strings.Count(log.String(), "\n"); n > 7*2+1 {
		t.Errorf("%d log lines for 7 lives:\n%s", n, &log)
	}
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second, Reset: time.Minute}
	for _, c := range []struct{ last, lived, want time.Duration }{
		{0, 0, time.Second},
		{time.Second, 0, 2 * time.Second},
		{2 * time.Second, 59 * time.Second, 4 * time.Second},
		{4 * time.Second, 0, 5 * time.Second},
		{5 * time.Second, time.Minute, time.Second},
	} {
		if got := b.Next(c.last, c.lived); got != c.want {
			t.Errorf("Next(%s, %s) = %s, want %s", c.last, c.lived, got, c.want)
		}
	}
	if got := (Backoff{}).Next(0, 0); got != 100*time.Millisecond {
		t.Errorf("the first default wait = %s, want 100 ms", got)
	}
}

func TestConversation(t *testing.T) {
	line := make(chan string, 1)
	o := shell("read word; echo got $word; cat >/dev/null")
	o.OnStart = func(_ context.Context, c *Conn) error {
		if _, err := io.WriteString(c.Stdin, "hello\n"); err != nil {
			return err
		}
		r := bufio.NewReader(c.Stdout)
		s, err := r.ReadString('\n')
		line <- s
		go io.Copy(io.Discard, r)
		return err
	}
	s := run(t, o)
	if got := <-line; got != "got hello\n" {
		t.Errorf("the child said %q", got)
	}
	st := awaitState(t, s, Running)
	registry := prometheus.NewRegistry()
	for _, c := range s.Collectors() {
		registry.MustRegister(c)
	}
	const want = `# HELP ze_process_up 1 while the child process runs and is ready.
# TYPE ze_process_up gauge
ze_process_up{process="test"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "ze_process_up"); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil { // the end of its input ends it
		t.Fatal(err)
	}
	if !reaped(st.PID) {
		t.Errorf("process %d was not reaped", st.PID)
	}
}

func TestOnStartFails(t *testing.T) {
	o := shell("cat >/dev/null")
	o.Backoff = Backoff{Min: time.Hour, Max: time.Hour}
	o.OnStart = func(context.Context, *Conn) error { return errors.New("wrong greeting") }
	s := run(t, o)
	st := awaitState(t, s, BackingOff)
	if !strings.Contains(st.LastExit, "wrong greeting") {
		t.Errorf("status = %+v, want the reason", st)
	}
}

func TestConnKill(t *testing.T) {
	conns := make(chan *Conn)
	o := shell("trap '' TERM; sleep 1000")
	o.Backoff = Backoff{Min: time.Millisecond}
	o.OnStart = func(ctx context.Context, c *Conn) error {
		select {
		case conns <- c:
		case <-ctx.Done():
		}
		return nil
	}
	s := run(t, o)
	first := <-conns
	first.Kill(errors.New("no answer"))
	second := <-conns
	if st := s.Status(); !strings.Contains(st.LastExit, "no answer") || st.Restarts != 1 || !reaped(first.PID) || second.PID == first.PID {
		t.Errorf("status = %+v, want one restart with the reason", st)
	}
	second.Kill(errors.New("enough")) // it would sit out the graces of Stop
	<-conns
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop in a hurry: %v, want its context's error", err)
	}
}

// The child ignores TERM, so does its grandchild, whose parent is gone.
func TestStopKillsTheGroup(t *testing.T) {
	pids := make(chan int, 2)
	o := shell(`trap '' TERM
(sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' &)
echo $$
while :; do sleep 1000; done`)
	o.After = func(time.Duration) <-chan time.Time { // no grace
		c := make(chan time.Time)
		close(c)
		return c
	}
	o.OnStart = func(_ context.Context, c *Conn) error {
		r := bufio.NewReader(c.Stdout)
		for range 2 {
			s, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			pid, err := strconv.Atoi(strings.TrimSpace(s))
			if err != nil {
				return err
			}
			pids <- pid
		}
		return nil
	}
	s := run(t, o)
	first, second := <-pids, <-pids
	awaitState(t, s, Running)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		for _, pid := range []int{first, second} {
			if alive(pid) {
				return fmt.Errorf("process %d survived", pid)
			}
		}
		return nil
	})
}

// A crash of the leader takes its group with it, and leaves no zombie.
func TestCrashKillsTheGroup(t *testing.T) {
	pids := make(chan int, 1)
	o := shell(`sleep 1000 & echo $!; exit 1`)
	o.Backoff = Backoff{Min: time.Hour, Max: time.Hour}
	leader := 0
	o.OnStart = func(_ context.Context, c *Conn) error {
		leader = c.PID
		s, err := bufio.NewReader(c.Stdout).ReadString('\n')
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(s))
		pids <- pid
		return err
	}
	s := run(t, o)
	orphan := <-pids
	awaitState(t, s, BackingOff)
	if !reaped(leader) {
		t.Errorf("process %d is a zombie", leader)
	}
	eventually(t, func() error {
		if alive(orphan) {
			return fmt.Errorf("process %d survived its group's leader", orphan)
		}
		return nil
	})
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	out := make(chan string, 1)
	o := Options{Name: "test", Path: "/usr/bin/env", Env: []string{
		"LANG=C", "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1", "LISTEN_FDS=3", "CREDENTIALS_DIRECTORY=/x",
	}, Backoff: Backoff{Min: time.Hour, Max: time.Hour}}
	o.OnStart = func(_ context.Context, c *Conn) error {
		b, err := io.ReadAll(c.Stdout)
		out <- string(b)
		return err
	}
	run(t, o)
	if got := <-out; got != "LANG=C\n" {
		t.Errorf("environment = %q, want LANG=C alone", got)
	}
	o.Env = nil
	run(t, o)
	if got := <-out; got != "" {
		t.Errorf("environment = %q, want none", got)
	}
}

func TestNoSuchProgram(t *testing.T) {
	s := run(t, Options{Name: "test", Path: "/nonexistent/program", Backoff: Backoff{Min: time.Hour, Max: time.Hour}})
	if st := awaitState(t, s, BackingOff); !strings.Contains(st.LastExit, "/nonexistent/program") {
		t.Errorf("status = %+v, want the missing program", st)
	}
}

func TestStartedOnce(t *testing.T) {
	s := New(shell("cat >/dev/null"))
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop before start: %v", err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("a second start is no error")
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A line of 1 MiB, then a flood, must neither block the child nor fill the log.
func TestStandardError(t *testing.T) {
	var log outputtest.Output
	done := make(chan struct{})
	o := shell(`head -c 1048576 /dev/zero | tr '\0' x >&2; echo >&2; echo short >&2
i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done >&2
echo done; cat >/dev/null`)
	o.Logger = zerolog.New(&log)
	o.OnStart = func(_ context.Context, c *Conn) error {
		_, err := bufio.NewReader(c.Stdout).ReadString('\n')
		close(done)
		return err
	}
	s := run(t, o)
	<-done
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := log.String()
	for _, want := range []string{
		`"stderr":"` + strings.Repeat("x", maxLine) + `","cut":` + strconv.Itoa(1<<20-maxLine), `"stderr":"short"`, `"stderr":"line 0"`,
		`"process":"test"`, "lines not logged",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %.80s", want)
		}
	}
	if n := strings.Count(got, "\n"); n > lineBurst+100 {
		t.Errorf("%d log lines, want at most about %d", n, lineBurst)
	}
}
