package task_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	. "ze.internal/ze/appliance/task"
	"ze.internal/ze/store"
)

// The test binary runs itself as a daemon that is killed: the variable says on
// which database.
const dirVar = "ZE_TASK_TEST_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVar); dir != "" {
		if err := beKilled(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// onDisk returns a manager on a real database.
func onDisk(db *store.DB, run command.Run) (*Manager, error) {
	d, err := dispatcher(run)
	return New(Options{
		Store: db, Dispatcher: d, Logger: zerolog.Nop(),
		Principal: func(context.Context, string) (*access.Principal, error) { return alice, nil },
	}), err
}

// beKilled begins tasks, one after the other, and says what the caller has been
// told, until it is killed.
func beKilled(dir string) error {
	db, err := store.Open(store.Options{Dir: dir, Create: true, Instance: "test", Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	m, err := onDisk(db, func(ctx context.Context, r *command.Request) (any, error) {
		var in struct{ N int }
		if err := r.Bind(&in); err != nil || in.N > 0 {
			return answer(in.N), err
		}
		return untilEnded(ctx, r)
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if err := m.Start(ctx); err != nil {
		return err
	}
	m.SetLimits(Limits{Running: 1000, Kept: 1000})
	for i := 0; ; i++ {
		line := []string{"look", "act", "look 5"}[i%3]
		_, task, err := m.Run(ctx, call(alice, line), Required, nil)
		if err != nil {
			return err
		}
		for line == "look 5" && !task.Status.Final() {
			t, err := m.Get(ctx, alice.Owner(), task.ID)
			if err != nil {
				return err
			}
			task = &t
			time.Sleep(time.Millisecond)
		}
		fmt.Println(task.ID, line)
	}
}

// After kill -9 every task that anybody was told of is known: what had ended can
// be read, what may run twice does so, and the rest has failed.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), dirVar+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		id, line, _ := strings.Cut(lines.Text(), " ")
		if told[id] = line; len(told) == 31 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if len(told) < 31 {
		t.Fatalf("it said %v", told)
	}
	db, err := store.Open(store.Options{Dir: dir, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m, err := onDisk(db, func(context.Context, *command.Request) (any, error) { return answer(6), nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for id, line := range told {
		w := m.Watch(alice.Owner(), []string{id})
		var task Task
		for !task.Status.Final() {
			select {
			case <-w.C:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s %s is %s", line, id, task.Status)
			}
			all, err := w.Changed(t.Context())
			if err != nil || len(all) != 1 {
				t.Fatalf("%s %s: %v, %v", line, id, all, err)
			}
			task = all[0]
		}
		w.Close()
		got := fmt.Sprint(task.Status, " ", string(task.Result), task.Message)
		want := map[string]string{"look": `completed {"n":6}`, "look 5": `completed {"n":5}`, "act": "failed the daemon ended while it ran"}[line]
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
