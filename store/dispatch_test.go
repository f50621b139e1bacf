package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/command"
	declarations "ze.internal/ze/appliance/schema"
)

// changes declares a command of each kind that changes something.
const changes = `module changes {
  yang-version 1.1; namespace "urn:changes"; prefix c;
  import ze-extensions { prefix ze; }
  revision 2026-11-30 { description "Commands for tests."; }
  rpc keep { ze:command "keep"; ze:effect change; ze:offline; ze:example "keep a"; description "Change only the store.";
    input { leaf name { type string; mandatory true; ze:positional; description "Name."; } } output { leaf ok { type boolean; description "Done."; } } }
  rpc send { ze:command "send"; ze:effect change; ze:store-first; ze:example "send a"; description "Change the store, then the world.";
    input { leaf name { type string; mandatory true; ze:positional; description "Name."; } } output { leaf ok { type boolean; description "Done."; } } }
  rpc act { ze:command "act"; ze:effect change; ze:example "act a"; description "Change the world.";
    input { leaf name { type string; mandatory true; ze:positional; description "Name."; } } output { leaf ok { type boolean; description "Done."; } } }
}`

// caller is the one door to commands on a real store.
type caller struct {
	*command.Dispatcher
	db  *DB
	log *audit.Log
	act func(ctx context.Context, name string) error // what a command does
}

func newCaller(t testing.TB, db *DB, act func(ctx context.Context, name string) error) *caller {
	t.Helper()
	set, err := declarations.Load([]declarations.Source{{Name: "changes.yang", Text: []byte(changes)}})
	check(t, err)
	c := &caller{db: db, log: audit.NewLog(audit.Options{Store: db, Logger: zerolog.Nop()}), act: act}
	registry := command.NewRegistry()
	for _, decl := range set.Commands() {
		check(t, registry.Register(command.New(decl, func(ctx context.Context, r *command.Request) (any, error) {
			var in struct{ Name string }
			if err := r.Bind(&in); err != nil {
				return nil, err
			}
			return map[string]bool{"ok": true}, c.act(ctx, in.Name)
		})))
	}
	c.Dispatcher = command.NewDispatcher(command.Options{Registry: registry, Audit: c.log, Clock: time.Now, Logger: zerolog.New(io.Discard).Level(zerolog.InfoLevel)})
	c.log.Start()
	t.Cleanup(func() {
		_ = c.log.Stop(context.Background()) // some tests break the disk
	})
	return c
}

func (c *caller) call(ctx context.Context, line string) error {
	_, err := c.Do(ctx, command.Call{Principal: &access.Principal{Name: "admin", Scope: access.Admin}, Surface: "test", Line: line})
	return err
}

// trail returns what the chain says, one word for a record, in commits.
func (c *caller) trail(t testing.TB) string {
	t.Helper()
	check(t, c.log.Flush(t.Context()))
	records, err := c.db.AuditRecords(t.Context(), 0, 1000)
	check(t, err)
	var out []string
	for _, r := range records {
		s := string(r.Phase)
		if r.Outcome != "" {
			s += ":" + r.Outcome
		}
		if r.Begin != 0 {
			s += fmt.Sprint(" of ", r.Begin)
		}
		out = append(out, s)
	}
	verifyChain(t, c.db)
	return strings.Join(out, ", ")
}

// A change and what the log says of it are in the same transaction: the kind of
// the command decides how much that is.
func TestChangeAndRecordsAreOneTransaction(t *testing.T) {
	for line, row := range map[string]struct {
		commits int
		trail   string
	}{
		"keep a": {1, "begin, end:ok of 1"},
		"send a": {2, "begin, end:ok of 1"},
		"act a":  {3, "begin, end:ok of 1"},
	} {
		db := openTest(t, options(privateDir(t)))
		c := newCaller(t, db, func(ctx context.Context, name string) error { return db.CreateToken(ctx, testToken(name)) })
		before := transactions(t, db)
		check(t, c.call(t.Context(), line))
		if n := transactions(t, db) - before; n != row.commits {
			t.Errorf("%s: %d transactions, want %d", line, n, row.commits)
		}
		if got := c.trail(t); got != row.trail {
			t.Errorf("%s: %s", line, got)
		}
		if records, _ := db.AuditRecords(t.Context(), 0, 1); records[0].Command == "" || records[0].Args == "" || records[0].Principal != "admin" {
			t.Errorf("%s: %+v", line, records[0])
		}
	}
}

// What fails leaves one record, whatever was tried before.
func TestFailedChangesLeaveARecord(t *testing.T) {
	wrong := errors.New("wrong")
	for line, want := range map[string]string{
		"keep none": "call:ok", "keep taken": "call:internal", "keep late": "begin, end:ok of 1, end:internal of 1", "keep again": "begin, end:ok of 1",
		"send none": "call:ok", "send taken": "call:internal", "send late": "begin, end:internal of 1", "send again": "begin, end:ok of 1",
		"act none": "begin, end:ok of 1", "act taken": "begin, end:internal of 1",
	} {
		db := openTest(t, options(privateDir(t)))
		check(t, db.CreateToken(t.Context(), testToken("taken")))
		c := newCaller(t, db, func(ctx context.Context, name string) error {
			switch name {
			case "none":
				return nil
			case "taken":
				return db.CreateToken(ctx, testToken("taken"))
			case "late":
				check(t, db.CreateToken(ctx, testToken("a")))
				return wrong
			}
			if err := db.CreateToken(ctx, testToken("taken")); !errors.Is(err, access.ErrTokenExists) {
				t.Error(err)
			}
			return db.CreateToken(ctx, testToken("a"))
		})
		_ = c.call(t.Context(), line) // the trail says how it ended
		if got := c.trail(t); got != want {
			t.Errorf("%s: %s\nwant %s", line, got, want)
		}
	}
}

// Many callers at once: each change is done once, with its own records, and the
// chain holds.
func TestManyChangesKeepTheirRecords(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	c := newCaller(t, db, func(ctx context.Context, name string) error { return db.CreateToken(ctx, testToken(name)) })
	const callers, each = 16, 8
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				kind := []string{"keep", "send", "act"}[(i+j)%3]
				if err := c.call(t.Context(), fmt.Sprintf("%s t-%d-%d", kind, i, j/2)); (err != nil) != (j%2 == 1) { // every other one exists already
					t.Errorf("%d-%d: %v", i, j, err)
				}
			}
		})
	}
	wg.Wait()
	check(t, c.log.Flush(t.Context()))
	records, err := db.AuditRecords(t.Context(), 0, 10000)
	check(t, err)
	verifyChain(t, db)
	ended := map[uint64]string{}
	begun, calls := 0, 0
	for _, r := range records {
		switch r.Phase {
		case audit.Begin:
			begun++
			ended[r.Seq] = r.Digest
		case audit.Call:
			calls++
		case audit.End:
			if ended[r.Begin] != r.Digest {
				t.Errorf("record %d ends %d, of another call", r.Seq, r.Begin)
			}
			delete(ended, r.Begin)
		}
	}
	if len(ended) > 0 || begun+calls != callers*each {
		t.Errorf("%d begun, %d without an end, %d calls", begun, len(ended), calls)
	}
	tokens, err := db.Tokens(t.Context())
	check(t, err)
	if len(tokens) != callers*each/2 {
		t.Errorf("%d tokens", len(tokens))
	}
}

// A store that cannot write says so in words for the caller.
func TestFailedStoreIsAnOutage(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	c := newCaller(t, db, func(ctx context.Context, name string) error { return db.CreateToken(ctx, testToken(name)) })
	db.fail(errors.New("broken"))
	for _, line := range []string{"keep a", "send a", "act a"} {
		e := command.AsError(c.call(t.Context(), line))
		if e.Code != command.Unavailable || len(e.Actions) == 0 || strings.Contains(e.Message, db.path) {
			t.Errorf("%s: %+v", line, e)
		}
	}
}

// A disk that does not answer hangs nobody: who waits is refused and not done,
// and whose change is under way is told that it may be done.
func TestStalledDiskAnswersInTime(t *testing.T) {
	dir := privateDir(t)
	synctest.Test(t, func(t *testing.T) {
		db := openTest(t, options(dir))
		var stuck sync.Once
		entered, leave := make(chan struct{}), make(chan struct{})
		c := newCaller(t, db, func(ctx context.Context, name string) error {
			return db.update(ctx, func(tx *bolt.Tx) error {
				if name == "first" {
					stuck.Do(func() { close(entered); <-leave })
				}
				return put(tx, bucketBlobs, []byte(name), []byte("{}"))
			})
		})
		var wg sync.WaitGroup
		call := func(line, want string) {
			wg.Go(func() {
				began := time.Now()
				e := command.AsError(c.call(t.Context(), line))
				if took := time.Since(began); e.Code != command.Unavailable || took != audit.AnswerTime || !strings.Contains(strings.Join(e.Actions, " "), want) {
					t.Errorf("%s: after %v: %+v", line, took, e)
				}
			})
		}
		call("send first", "may still be made")
		<-entered
		for _, line := range []string{"keep second", "send second"} {
			call(line, "was not made")
		}
		call("act second", "")
		wg.Wait()
		close(leave)
		synctest.Wait()
		check(t, c.call(t.Context(), "keep third"))
		check(t, db.view(t.Context(), func(tx *bolt.Tx) error {
			for name, want := range map[string]bool{"first": true, "second": false, "third": true} {
				if got := tx.Bucket([]byte(bucketBlobs)).Get([]byte(name)) != nil; got != want {
					t.Errorf("%s is there: %v", name, got)
				}
			}
			return nil
		}))
		trail := c.trail(t)
		if !strings.HasPrefix(trail, "begin, ") || strings.Count(trail, "call:unavailable") != 3 {
			t.Errorf("%s", trail)
		}
		check(t, c.log.Stop(t.Context()))
	})
}

// BenchmarkChange measures what the audit log costs a change: one call of each
// kind against a bare bbolt transaction of the same size on the same disk, in
// turns; and how much 32 callers at once get done for one.
func BenchmarkChange(b *testing.B) {
	db := openTest(b, options(privateDir(b)))
	var n atomic.Int64
	c := newCaller(b, db, func(ctx context.Context, _ string) error {
		return db.ReplaceAnnouncements(ctx, []bgp.Announcement{testAnnouncement(fmt.Sprint(n.Add(1)%1000), 1)}, nil)
	})
	raw := newBare(b)
	kinds := []string{"bare", "keep", "send", "act"}
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, kind := range kinds {
			start := time.Now()
			if kind == "bare" {
				raw.measure(b, 1)
			} else {
				check(b, c.call(b.Context(), kind+" x"))
			}
			times[kind] = append(times[kind], time.Since(start))
		}
	}
	b.StopTimer()
	median := func(kind string) float64 {
		slices.Sort(times[kind])
		return float64(times[kind][len(times[kind])/2])
	}
	b.ReportMetric(0, "ns/op") // the sum of the four says nothing
	b.ReportMetric(median("bare")/1e6, "ms/bare")
	for _, kind := range kinds[1:] {
		b.ReportMetric(median(kind)/median("bare"), "x/"+kind)
	}
	const callers = 32
	start, each := time.Now(), max(8, min(b.N, 100))
	for range each {
		check(b, c.call(b.Context(), "keep x"))
	}
	alone := float64(each) / time.Since(start).Seconds()
	start = time.Now()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if err := c.call(b.Context(), "keep x"); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(callers*each)/time.Since(start).Seconds()/alone, "x/32-callers")
}
