package config_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/config"
)

// inWorld runs a test in synctest's time, on a world whose revision 1 is text.
func inWorld(t *testing.T, text string, test func(t *testing.T, w *world)) {
	root, dir := model(t), t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir, root)
		defer func() { w.stop(t) }()
		if _, err := w.m.Import(t.Context(), "init", []byte(text), ""); err != nil {
			t.Fatal(err)
		}
		test(t, w)
	})
}

func (w *world) edit(t *testing.T, owner, line string) {
	t.Helper()
	if _, err := w.m.Set(t.Context(), owner, words(line)); err != nil {
		t.Fatalf("set %s: %v", line, err)
	}
}

// TestRevertIsTriedAgain: when the daemon cannot go back at once, it does later.
func TestRevertIsTriedAgain(t *testing.T) {
	inWorld(t, named("a"), func(t *testing.T, w *world) {
		w.edit(t, "x", "environment instance name b")
		if _, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{Confirm: 10 * time.Second}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		w.set(refuse)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if w.runs() != named("b") {
			t.Fatalf("runs %q", w.runs())
		}
		w.set(none)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		all, err := w.m.History(t.Context())
		if err != nil || len(all) != 3 || w.runs() != named("a") || all[0].Who != "ze" || all[0].How != "revert to 1" {
			t.Errorf("runs %q: %+v, %v", w.runs(), all, err)
		}
	})
}

// TestClockSetBack: when the clock was set back far while the daemon was down, a
// commit does not wait until it has caught up.
func TestClockSetBack(t *testing.T) {
	inWorld(t, named("a"), func(t *testing.T, w *world) {
		deadline := time.Now().Add(1000 * time.Hour)
		err := w.db.CommitRevision(t.Context(), config.Step{
			Revision: config.NewRevision(1, time.Now(), "x", "commit confirmed 10", "", []byte(named("b"))),
			Confirm:  &config.Confirm{Revision: 2, RevertTo: 1, Deadline: deadline, Who: "x"},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.stop(t)
		w.start(t)
		if w.runs() != named("a") {
			t.Errorf("runs %q", w.runs())
		}
	})
}

// TestOverdueWithoutDaemon: without a daemon nobody watches, so whoever comes
// first takes back what was not confirmed in time.
func TestOverdueWithoutDaemon(t *testing.T) {
	for what, act := range map[string]func(ctx context.Context, m *config.Manager) error{
		"confirm": func(ctx context.Context, m *config.Manager) error { _, err := m.Confirm(ctx, "x"); return err },
		"commit": func(ctx context.Context, m *config.Manager) error {
			_, _, err := m.Commit(ctx, "x", config.CommitOptions{})
			return err
		},
		"resume": func(ctx context.Context, m *config.Manager) error { _, err := m.Resume(ctx); return err },
	} {
		inWorld(t, named("a"), func(t *testing.T, w *world) {
			w.edit(t, "x", "environment instance name b")
			if _, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{Confirm: 10 * time.Second}); err != nil {
				t.Fatal(err)
			}
			w.m.Stop()
			offline := w.manager(nil)
			if offline.Applies() {
				t.Error("it says that a daemon runs")
			}
			time.Sleep(11 * time.Second)
			if r, err := offline.Running(t.Context()); err != nil || string(r.Text) != named("b") {
				t.Errorf("a look changed %s: %v", r.Text, err)
			}
			err := act(t.Context(), offline)
			if what == "confirm" && !errors.Is(err, config.ErrNoConfirm) || what == "commit" && !errors.Is(err, config.ErrNoCandidate) || what == "resume" && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if r, err := offline.Running(t.Context()); err != nil || string(r.Text) != named("a") || r.Number != 3 {
				t.Errorf("after %s the newest revision is %s: %v", what, r.Text, err)
			}
			w.m = offline
		})
	}
}

// TestCommitOutlivesCaller: a caller that goes away while the daemon applies
// leaves what runs kept.
func TestCommitOutlivesCaller(t *testing.T) {
	inWorld(t, named("a"), func(t *testing.T, w *world) {
		w.edit(t, "x", "environment instance name b")
		ctx, cancel := context.WithCancel(t.Context())
		w.applied = cancel
		if _, _, err := w.m.Commit(ctx, "x", config.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		if r, err := w.m.Running(t.Context()); err != nil || string(r.Text) != named("b") || w.runs() != named("b") {
			t.Errorf("kept %s, runs %s: %v", r.Text, w.runs(), err)
		}
	})
}

// TestConflictSaysWhat: who changed what, and nothing that is secret.
func TestConflictSaysWhat(t *testing.T) {
	inWorld(t, "bgp { router-id 192.0.2.1; local { as 1; } }\n", func(t *testing.T, w *world) {
		w.edit(t, "x", "bgp local as 2")
		w.edit(t, "y", "bgp peer n remote as 3")
		w.edit(t, "y", "bgp peer n remote ip 192.0.2.3")
		w.edit(t, "y", "bgp peer n password hunter2")
		if _, _, err := w.m.Commit(t.Context(), "y", config.CommitOptions{Who: "yvonne", Comment: "new peer"}); err != nil {
			t.Fatal(err)
		}
		_, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{})
		want := fmt.Sprintf("the candidate began as revision 1, and the configuration has changed since: revision 2 (commit) by yvonne at %s; "+
			"other values than before: bgp/peer[n], bgp/peer[n]/password, bgp/peer[n]/remote/as, bgp/peer[n]/remote/ip", time.Now().UTC().Format(time.RFC3339))
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// TestSecrets: what is shown is masked, a masked text keeps the secrets, and a
// changed secret shows as a change.
func TestSecrets(t *testing.T) {
	text := "bgp { router-id 192.0.2.1; local { as 1; }\n" +
		"    peer n {\n        remote { ip 192.0.2.3; as 3; }\n        password hunter2; # see the vault\n    }\n}\n"
	inWorld(t, text, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.edit(t, "x", "bgp peer n password correct|horse")
		diff, err := w.m.Diff(ctx, "x")
		want := "--- running\n+++ candidate\n@@ -1,6 +1,6 @@\n bgp { router-id 192.0.2.1; local { as 1; }\n     peer n {\n         remote { ip 192.0.2.3; as 3; }\n" +
			"-        password \"***\"; # see the vault\n+        password \"***\"; # see the vault\n     }\n }\n"
		if err != nil || diff != want {
			t.Errorf("diff: %v\n%s", err, diff)
		}
		part, err := w.m.Show([]byte(text), words("bgp peer n"))
		if err != nil || string(part) != "peer n {\n    remote {\n        ip 192.0.2.3;\n        as 3;\n    }\n    password \"***\"; # see the vault\n}\n" {
			t.Errorf("part: %v\n%s", err, part)
		}
		c, err := w.m.Candidate(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		// What was shown can be loaded again: the secret is the candidate's.
		if _, err := w.m.Load(ctx, "x", append(c.Text, "# edited\n"...), 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.m.Commit(ctx, "x", config.CommitOptions{}); err != nil {
			t.Fatal(err)
		}
		wantText := "bgp { router-id 192.0.2.1; local { as 1; }\n    peer n {\n        remote { ip 192.0.2.3; as 3; }\n" +
			"        password \"correct horse\"; # see the vault\n    }\n}\n# edited\n"
		if w.runs() != wantText {
			t.Errorf("runs:\n%s", w.runs())
		}
		// A text that began before somebody else's commit does not undo it unseen.
		began, err := w.m.Running(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.m.Import(ctx, "y", append(bytes.Clone(began.Text), "# of y\n"...), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.m.Load(ctx, "x", append(bytes.Clone(began.Text), "# of x\n"...), began.Number); err != nil {
			t.Fatal(err)
		}
		var conflict *config.ConflictError
		if _, _, err := w.m.Commit(ctx, "x", config.CommitOptions{}); !errors.As(err, &conflict) {
			t.Errorf("commit over a newer revision: %v", err)
		}
		var base *config.BaseError
		if _, err := w.m.Load(ctx, "x", began.Text, began.Number+1); !errors.As(err, &base) {
			t.Errorf("load over a changed candidate: %v", err)
		}
		if err := w.m.Discard(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.m.Import(ctx, "y", began.Text, ""); err != nil {
			t.Fatal(err)
		}
		// The same for an import; a secret that is not there cannot be kept.
		shown, err := w.m.Show([]byte(w.runs()), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.m.Import(ctx, "x", shown, ""); err != nil || w.runs() != wantText {
			t.Errorf("import: %v\n%s", err, w.runs())
		}
		var problems config.Problems
		_, err = w.m.Import(ctx, "x", []byte("bgp { router-id 192.0.2.1; local { as 1; }\npeer other { remote { ip 192.0.2.4; as 4; } password \"***\"; } }"), "")
		if !errors.As(err, &problems) || problems[0].Line != 2 || problems[0].Path != "bgp/peer[other]/password" {
			t.Errorf("import of an unknown secret: %v", err)
		}
		// Tokens are digests as soon as they are in a candidate.
		w.edit(t, "x", "environment mcp token a-token-that-is-long")
		kept, err := w.db.Candidate(ctx, "x")
		if err != nil || slices.Contains(words(string(kept.Text)), "a-token-that-is-long;") || !slices.Contains(words(string(kept.Text)), "token") {
			t.Errorf("candidate: %v\n%s", err, kept.Text)
		}
		got := w.m.MaskWords(words("bgp peer n password correct horse"))
		if fmt.Sprint(got) != "[bgp peer n password *** ***]" {
			t.Errorf("words: %v", got)
		}
		if got := w.m.MaskWords(words("bgp peer n passwrd hunter2")); fmt.Sprint(got) != "[bgp peer n *** ***]" {
			t.Errorf("misspelt words: %v", got)
		}
		for _, nameless := range []string{"environment mcp identity token hunter2", "bgp peer password hunter2", "hunter2"} {
			if got := w.m.MaskWords(words(nameless)); strings.Contains(fmt.Sprint(got), "hunter2") {
				t.Errorf("with the entry's name left out: %v", got)
			}
		}
	})
}

// TestFileOnly: a daemon that runs from a file commits nothing, and says why.
func TestFileOnly(t *testing.T) {
	m := config.NewManager(config.Options{File: "ze.conf", Model: model(t), Clock: time.Now, Logger: zerolog.Nop()})
	ctx := t.Context()
	_, _, commit := m.Commit(ctx, "x", config.CommitOptions{})
	_, confirm := m.Confirm(ctx, "x")
	_, rollback := m.Rollback(ctx, "x", 1)
	_, imported := m.Import(ctx, "x", nil, "")
	_, running := m.Running(ctx)
	for what, err := range map[string]error{"commit": commit, "confirm": confirm, "rollback": rollback, "import": imported, "running": running} {
		var file *config.FileError
		if !errors.As(err, &file) || file.File != "ze.conf" {
			t.Errorf("%s: %v", what, err)
		}
	}
	m.Start(ctx)
	m.Stop()
}

// TestRefusedCommit: what the gate refuses is not committed; what is missing may
// be missing in a candidate.
func TestRefusedCommit(t *testing.T) {
	inWorld(t, named("a"), func(t *testing.T, w *world) {
		w.edit(t, "x", "bgp local as 1")
		var problems config.Problems
		if _, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{}); !errors.As(err, &problems) || problems[0].Path != "bgp/router-id" {
			t.Errorf("commit: %v", err)
		}
		if err := w.m.Validate(t.Context(), "x"); !errors.As(err, &problems) {
			t.Errorf("validate: %v", err)
		}
		if _, err := w.m.Load(t.Context(), "x", []byte("bgp { loacl { } }"), 0); !errors.As(err, &problems) || problems[0].Suggest != "local" {
			t.Errorf("load: %v", err)
		}
		for _, wait := range []time.Duration{time.Millisecond, 2 * time.Hour} {
			if _, _, err := w.m.Commit(t.Context(), "x", config.CommitOptions{Confirm: wait}); err == nil {
				t.Errorf("confirmed in %v is accepted", wait)
			}
		}
		if w.runs() != named("a") {
			t.Errorf("runs %q", w.runs())
		}
	})
}
