package store

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/config"
)

// TestRevisionNumbers: a revision follows the newest one, or is refused.
func TestRevisionNumbers(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	for range 3 {
		_, err := addRevision(ctx, db, config.Revision{Text: []byte("x")})
		check(t, err)
	}
	for what, before := range map[string]uint64{"none": 0, "taken": 1, "newest": 2, "gap": 4} {
		if err := db.CommitRevision(ctx, config.Step{Revision: config.NewRevision(before, now, "", "", "", nil)}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCommitStep: revision, candidate and wait change together or not at all.
func TestCommitStep(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	db := openTest(t, o)
	check(t, db.PutCandidate(ctx, config.Candidate{Owner: "a", Base: 7, Modified: now, Text: []byte("a;")}))
	check(t, db.PutCandidate(ctx, config.Candidate{Owner: "b", Text: []byte("")}))
	wait := config.Confirm{Revision: 1, RevertTo: 0, Deadline: now.Add(time.Minute), Who: "alice"}

	refused := config.Step{Revision: config.NewRevision(9, now, "", "", "", []byte("x")), Owner: "a", Confirm: &wait}
	if err := db.CommitRevision(ctx, refused); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	c, err := db.Candidate(ctx, "a")
	check(t, err)
	if c.Owner != "a" || c.Base != 7 || !c.Modified.Equal(now) || string(c.Text) != "a;" {
		t.Errorf("candidate: %+v", c)
	}
	if _, err := db.PendingConfirm(ctx); !errors.Is(err, config.ErrNoConfirm) {
		t.Errorf("a refused step waits: %v", err)
	}

	check(t, db.CommitRevision(ctx, config.Step{Revision: config.NewRevision(0, now, "", "", "", []byte("a;")), Owner: "a", Confirm: &wait}))
	check(t, db.Close())
	db = openTest(t, o)
	if _, err := db.Candidate(ctx, "a"); !errors.Is(err, config.ErrNoCandidate) {
		t.Errorf("the candidate is still there: %v", err)
	}
	if c, err := db.Candidate(ctx, "b"); err != nil || len(c.Text) != 0 {
		t.Errorf("the other candidate: %+v, %v", c, err)
	}
	got, err := db.PendingConfirm(ctx)
	check(t, err)
	if got != wait {
		t.Errorf("waits: %+v", got)
	}
	if err := db.ClearConfirm(ctx, 2); !errors.Is(err, config.ErrNoConfirm) {
		t.Errorf("another revision was confirmed: %v", err)
	}
	check(t, db.ClearConfirm(ctx, 1))
	if _, err := db.PendingConfirm(ctx); !errors.Is(err, config.ErrNoConfirm) {
		t.Errorf("still waits: %v", err)
	}
	check(t, db.DeleteCandidate(ctx, "b"))
	if err := db.DeleteCandidate(ctx, "b"); !errors.Is(err, config.ErrNoCandidate) {
		t.Errorf("deleted twice: %v", err)
	}
	for _, owner := range []string{"", "two\nlines"} {
		if err := db.PutCandidate(ctx, config.Candidate{Owner: owner}); !errors.Is(err, ErrInvalid) {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
}

// TestCandidatesAreLimited: a new one beyond the limit is refused, unless the
// oldest was left alone for long: then it makes way, and the log says so.
func TestCandidatesAreLimited(t *testing.T) {
	var logged bytes.Buffer
	ctx, o := t.Context(), options(privateDir(t))
	o.Logger = zerolog.New(&logged)
	db := openTest(t, o)
	put := func(owner string, at time.Time) error {
		return db.PutCandidate(ctx, config.Candidate{Owner: owner, Modified: at, Text: []byte(owner + ";")})
	}
	for i := range config.MaxCandidates {
		check(t, put(fmt.Sprint("o", i), now.Add(time.Duration(-i)*time.Minute)))
	}
	oldest := fmt.Sprint("o", config.MaxCandidates-1)
	var full *config.FullError
	if err := put("new", now); !errors.As(err, &full) || full.Oldest.Owner != oldest {
		t.Errorf("one too many: %v", err)
	}
	check(t, put(oldest, now)) // its own may always be changed
	if err := put("new", now.AddDate(0, 0, 6)); !errors.As(err, &full) {
		t.Errorf("before the oldest is abandoned: %v", err)
	}
	check(t, put("new", now.AddDate(0, 0, 7)))
	oldest = fmt.Sprint("o", config.MaxCandidates-2)
	if _, err := db.Candidate(ctx, oldest); !errors.Is(err, config.ErrNoCandidate) || !strings.Contains(logged.String(), oldest) {
		t.Errorf("the abandoned one: %v; log: %s", err, logged.String())
	}
	if c, err := db.Candidate(ctx, "new"); err != nil || string(c.Text) != "new;" {
		t.Errorf("%+v %v", c, err)
	}
	check(t, db.DeleteCandidate(ctx, "o0"))
	check(t, put("another", now))
}

// TestLaterBuckets: a database from before candidates gets their buckets when it
// is opened, and only then is written to.
func TestLaterBuckets(t *testing.T) {
	o := options(privateDir(t))
	packed, err := os.Open(filepath.Join("testdata", "v1.db.gz"))
	check(t, err)
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	check(t, err)
	old, err := io.ReadAll(z)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(o.Dir, FileName), old, fileMode))
	db := openTest(t, o)
	check(t, db.PutCandidate(t.Context(), config.Candidate{Owner: "a", Text: []byte("a;")}))
	check(t, db.Close())
	written, err := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, err)
	if bytes.Equal(old, written) {
		t.Error("the file is as before")
	}
	db = openTest(t, o)
	check(t, db.Close())
	again, err := os.ReadFile(filepath.Join(o.Dir, FileName))
	check(t, err)
	if !bytes.Equal(written, again) {
		t.Error("opening an up to date database writes to it")
	}
}
