package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is the daemon's end of one child. Its pipes close when the child ends.
type Conn struct {
	Stdin  io.Writer
	Stdout io.Reader // must be read to its end, or the child blocks
	PID    int

	kill func(error)
}

// Kill ends the child and its group at once; the Supervisor restarts it. reason
// becomes the reason of its end.
func (c *Conn) Kill(reason error) { c.kill(reason) }

// child runs the process once and returns why it ended, never nil.
func (s *Supervisor) child(ctx, hurry context.Context) error {
	cmd := exec.Command(s.o.Path, s.o.Args...)
	cmd.Env = s.o.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p, err := openPipes(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.o.Name, err)
	}
	err = cmd.Start()
	p.closeChildEnds()
	if err != nil {
		p.closeOurs()
		return fmt.Errorf("start %s: %w", s.o.Name, err)
	}
	s.enter(Starting, cmd.Process.Pid, nil)
	s.o.Logger.Debug().Int("pid", cmd.Process.Pid).Msg("process started")

	lifetime, end := context.WithCancelCause(ctx)
	defer end(nil)
	var readers, started sync.WaitGroup
	readers.Go(func() { copyLines(p.stderr, s.o.Logger) })
	stdout := &drained{r: p.stdout, end: make(chan struct{})}
	conn := &Conn{Stdin: p.stdin, Stdout: stdout, PID: cmd.Process.Pid, kill: func(err error) {
		end(fmt.Errorf("%s was killed: %w", s.o.Name, err))
	}}
	onStart := s.o.OnStart
	if onStart == nil {
		onStart = func(context.Context, *Conn) error {
			readers.Go(func() { _, _ = io.Copy(io.Discard, stdout) })
			return nil
		}
	}
	started.Go(func() {
		if err := onStart(lifetime, conn); err != nil {
			end(fmt.Errorf("make %s ready: %w", s.o.Name, err))
			stdout.finish() // nobody will read on
			return
		}
		if lifetime.Err() == nil {
			s.enter(Running, conn.PID, nil)
			s.o.Logger.Info().Int("pid", conn.PID).Msg("process running")
		}
	})

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(conn.PID)
	}()
	select {
	case <-exited:
	case <-lifetime.Done():
		if ctx.Err() != nil {
			s.askToEnd(conn.PID, p.stdin, exited, hurry)
		}
	}
	// The leader is not yet reaped, so the group's number cannot be anyone else's.
	_ = unix.Kill(-conn.PID, unix.SIGKILL)
	<-exited
	err = cmd.Wait()
	cause := context.Cause(lifetime)
	end(nil)

	// What the child wrote last is still in the pipes. They end by themselves,
	// unless a process that left the group holds them open.
	deadline := time.Now().Add(time.Second)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	_ = p.stdin.Close()
	started.Wait()
	readers.Wait()
	stdout.wait(deadline)
	p.closeOurs()

	if err == nil {
		err = errEnded
	}
	if cause != nil && ctx.Err() == nil {
		return cause // that it was killed for it says nothing more
	}
	return fmt.Errorf("%s ended: %w", s.o.Name, err)
}

// askToEnd lets the child end by itself: end of input, then TERM.
func (s *Supervisor) askToEnd(pid int, stdin io.Closer, exited <-chan struct{}, hurry context.Context) {
	_ = stdin.Close()
	for _, signal := range []unix.Signal{0, unix.SIGTERM} {
		if signal != 0 {
			s.o.Logger.Warn().Int("pid", pid).Msg("process did not end with its input; sending TERM")
			_ = unix.Kill(-pid, signal)
		}
		select {
		case <-exited:
			return
		case <-s.o.After(s.o.Grace):
		case <-hurry.Done():
			return
		}
	}
	s.o.Logger.Warn().Int("pid", pid).Msg("process ignored TERM; sending KILL")
}

// awaitExit blocks until the process has ended and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// drained is a reader that tells when it was read to its end.
type drained struct {
	r    io.Reader
	once sync.Once
	end  chan struct{}
}

func (d *drained) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	if err != nil {
		d.finish()
	}
	return n, err
}

func (d *drained) finish() { d.once.Do(func() { close(d.end) }) }

func (d *drained) wait(deadline time.Time) {
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case <-d.end:
	case <-t.C:
	}
}

type pipes struct {
	stdin, stdout, stderr *os.File    // our ends
	child                 [3]*os.File // the child's
}

func openPipes(cmd *exec.Cmd) (*pipes, error) {
	var p pipes
	var errs [3]error
	p.child[0], p.stdin, errs[0] = os.Pipe()
	p.stdout, p.child[1], errs[1] = os.Pipe()
	p.stderr, p.child[2], errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.closeChildEnds()
		p.closeOurs()
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.child[0], p.child[1], p.child[2]
	return &p, nil
}

// Closing a nil *os.File is an error and nothing more.
func (p *pipes) closeChildEnds() {
	for _, f := range p.child {
		_ = f.Close()
	}
}

func (p *pipes) closeOurs() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close()
	}
}
