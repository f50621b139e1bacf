package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/config"
)

// The test binary runs itself as another process that uses a store: the first
// variable says what it does, the second where.
const (
	childVar = "ZE_STORE_TEST_CHILD"
	dirVar   = "ZE_STORE_TEST_DIR"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(childVar); mode != "" {
		child(mode, os.Getenv(dirVar))
		return
	}
	os.Exit(m.Run())
}

func child(mode, dir string) {
	say := func(err error) {
		fmt.Println(err)
		os.Exit(1)
	}
	switch mode {
	case "hold": // open, and keep open until standard input ends
		db, err := Open(options(dir))
		if err != nil {
			say(err)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		db.Close()
	case "foreign": // lock the file as another program would
		b, err := bolt.Open(dir+"/"+FileName, 0o600, nil)
		if err != nil {
			say(err)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		b.Close()
	case "write": // append one change after the other, and say so after each
		db, err := Open(options(dir))
		if err != nil {
			say(err)
		}
		ctx := context.Background()
		have, err := db.Revisions(ctx)
		if err != nil {
			say(err)
		}
		for n := len(have) + 1; ; n++ {
			if err := db.AppendAudit(ctx, []audit.Record{{Phase: audit.Call, Command: "n" + strconv.Itoa(n)}}); err != nil {
				say(err)
			}
			if _, err := addRevision(ctx, db, config.Revision{Text: []byte(strconv.Itoa(n))}); err != nil {
				say(err)
			}
			fmt.Println(n)
		}
	case "limited":
		if err := limited(dir); err != nil {
			say(err)
		}
		fmt.Println("done")
	case "clients", "clients-nosync":
		say(writeAsClients(dir, mode == "clients"))
	case "until-error":
		if err := writeUntilError(dir); err != nil {
			say(err)
		}
	case "upgrade":
		o := options(dir)
		o.migrations = testMigrations()
		fmt.Println("ready")
		if _, err := Open(o); err != nil {
			say(err)
		}
		fmt.Println("done")
	case "create":
		fmt.Println("ready")
		if err := Create(options(dir)); err != nil {
			say(err)
		}
		fmt.Println("done")
	}
}

// process is a running child.
type process struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func spawn(t testing.TB, mode, dir string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+mode, dirVar+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	p := &process{cmd, in, bufio.NewReader(out)}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return p
}

// killAfter ends p after so many milliseconds: where that meets it is chance.
func killAfter(p *process, milliseconds int) {
	<-time.After(time.Duration(milliseconds) * time.Millisecond)
	p.Process.Kill()
	p.Wait()
}

func (p *process) line(t testing.TB) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the other process ended: %v", err)
	}
	return strings.TrimSpace(line)
}

func TestSecondProcessIsToldWhoHoldsTheLock(t *testing.T) {
	for _, mode := range []string{"hold", "foreign"} {
		t.Run(mode, func(t *testing.T) {
			o := options(privateDir(t))
			check(t, Create(o))
			holder := spawn(t, mode, o.Dir)
			if line := holder.line(t); line != "ready" {
				t.Fatal(line)
			}
			start := time.Now()
			_, err := Open(o)
			var e *Error
			if !errors.Is(err, ErrLocked) || !errors.As(err, &e) || e.PID != holder.Process.Pid {
				t.Fatalf("want ErrLocked by pid %d, got: %v", holder.Process.Pid, err)
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("refused after %v", d)
			}
			if !strings.Contains(err.Error(), strconv.Itoa(holder.Process.Pid)) {
				t.Errorf("the message does not name the pid: %v", err)
			}
			holder.in.Close()
			holder.Wait()
			openTest(t, o)
		})
	}
}

// Of many processes that start at once on an empty directory one creates the
// database and has it; the others are told so.
func TestRacingFirstStarts(t *testing.T) {
	dir := privateDir(t)
	var all []*process
	for range 100 {
		all = append(all, spawn(t, "hold", dir))
	}
	ready := 0
	for _, p := range all {
		switch line := p.line(t); {
		case line == "ready":
			ready++
		case !strings.Contains(line, ErrLocked.Error()):
			t.Errorf("unexpected answer: %s", line)
		}
	}
	if ready != 1 {
		t.Errorf("%d processes have the store", ready)
	}
}

func TestKilledWhileWriting(t *testing.T) {
	o := options(privateDir(t))
	check(t, Create(o))
	acknowledged := 0
	for round := range 10 {
		p := spawn(t, "write", o.Dir)
		for range 3 + round*2 {
			n, err := strconv.Atoi(p.line(t))
			check(t, err)
			acknowledged = n
		}
		check(t, p.Process.Kill())
		// What it acknowledged before it died counts too.
		for {
			line, err := p.out.ReadString('\n')
			if err != nil {
				break
			}
			acknowledged, err = strconv.Atoi(strings.TrimSpace(line))
			check(t, err)
		}
		p.Wait()

		db, err := Open(o)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		all, err := db.Revisions(t.Context())
		check(t, err)
		if len(all) < acknowledged || len(all) > acknowledged+1 {
			t.Fatalf("round %d: %d revisions, %d acknowledged", round, len(all), acknowledged)
		}
		for i := range all {
			r, err := db.Revision(t.Context(), uint64(i+1))
			check(t, err)
			if string(r.Text) != strconv.Itoa(i+1) {
				t.Fatalf("round %d: revision %d holds %q", round, i+1, r.Text)
			}
		}
		verifyChain(t, db)
		check(t, db.Close())
	}
}

// A first start that is interrupted leaves no database, and the next one can
// make it, or a complete one.
func TestKilledWhileCreating(t *testing.T) {
	fresh, complete := 0, 0
	for round := range 25 {
		o := options(privateDir(t))
		p := spawn(t, "create", o.Dir)
		p.line(t)
		killAfter(p, round)
		o.Create = false
		db, err := Open(o)
		switch {
		case errors.Is(err, ErrMissing):
			fresh++
			o.Create = true
			db = openTest(t, o)
		case err != nil:
			t.Fatalf("killed after %d ms: %v", round, err)
		default:
			complete++
		}
		_, err = db.Meta(t.Context())
		check(t, err)
		check(t, db.CreateToken(t.Context(), testToken("a")))
		check(t, db.Close())
	}
	t.Logf("%d left nothing, %d a complete database", fresh, complete)
	if fresh == 0 || complete == 0 {
		t.Logf("the delays did not meet both sides of the rename on this machine")
	}
}
