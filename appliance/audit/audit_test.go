package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk stands for the store. Each commit takes a time of the test's clock, may
// fail, or may not return before it is let go.
type disk struct {
	mu      sync.Mutex
	chain   []Record
	anchor  Head
	trims   []int // numbers of records removed at a time
	commits [][]Record
	takes   time.Duration
	err     error
	block   chan struct{}
}

func (d *disk) AppendAudit(_ context.Context, records []Record) error {
	d.mu.Lock()
	block, err := d.block, d.err
	d.mu.Unlock()
	if block != nil {
		<-block
	}
	time.Sleep(d.takes)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range records {
		last := d.anchor
		if len(d.chain) > 0 {
			last = head(d.chain)
		}
		Seal(last.Hash, last.Seq+1, &records[i])
		d.chain = append(d.chain, records[i])
	}
	d.commits = append(d.commits, slices.Clone(records))
	return nil
}

func (d *disk) TrimAudit(_ context.Context, before time.Time, keep, limit int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return 0, d.err
	}
	n := 0
	for n < limit && n < len(d.chain)-1 && (d.chain[n].Time.Before(before) || keep > 0 && len(d.chain)-n > keep) {
		n++
	}
	if n > 0 {
		d.anchor = head(d.chain[:n])
		d.chain = d.chain[n:]
		d.trims = append(d.trims, n)
	}
	return n, nil
}

func (d *disk) AuditBefore(_ context.Context, before uint64, limit int) (records []Record, next uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range slices.Backward(d.chain) {
		switch {
		case before != 0 && r.Seq >= before:
			continue
		case len(records) == limit:
			return records, records[limit-1].Seq, nil
		}
		records = append(records, r)
	}
	return records, 0, nil
}

func (d *disk) set(err error) { d.mu.Lock(); d.err = err; d.mu.Unlock() }

func (d *disk) count() (records, commits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.chain), len(d.commits)
}

func start(t *testing.T, d *disk) *Log {
	t.Helper()
	l := NewLog(Options{Store: d, Logger: zerolog.Nop()})
	l.Start()
	return l
}

func stop(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func all(records []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func head(records []Record) Head {
	if len(records) == 0 {
		return Head{}
	}
	last := records[len(records)-1]
	return Head{last.Seq, last.Hash}
}

func TestBeginIsDurableAndLinksToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 3 * time.Millisecond}
		l := start(t, d)
		began := time.Now()
		seq, err := l.Begin(t.Context(), Record{Command: "announce"})
		if n, _ := d.count(); err != nil || seq != 1 || n != 1 {
			t.Fatalf("seq %d, %v, %d on disk", seq, err, n)
		}
		if took := time.Since(began); took != d.takes {
			t.Errorf("a lone caller waited %v for a commit of %v", took, d.takes)
		}
		if err := l.End(t.Context(), seq, Record{Command: "announce", Outcome: "ok"}); err != nil {
			t.Fatal(err)
		}
		stop(t, l)
		if d.chain[0].Phase != Begin || d.chain[1].Phase != End || d.chain[1].Begin != 1 || d.chain[1].Time.IsZero() {
			t.Errorf("%+v", d.chain)
		}
	})
}

func TestConcurrentCallersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 10 * time.Millisecond}
		l := start(t, d)
		var wg sync.WaitGroup
		seqs := make([]uint64, 64)
		for i := range seqs {
			wg.Go(func() {
				seq, err := l.Begin(t.Context(), Record{Command: fmt.Sprint(i)})
				if err != nil {
					t.Error(err)
				}
				seqs[i] = seq
			})
		}
		wg.Wait()
		stop(t, l)
		if n, commits := d.count(); n != 64 || commits > 3 {
			t.Errorf("%d records in %d commits", n, commits)
		}
		for i, seq := range seqs {
			if d.chain[seq-1].Command != fmt.Sprint(i) {
				t.Errorf("caller %d was given the number of %q", i, d.chain[seq-1].Command)
			}
		}
	})
}

func TestNotesAreGrouped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		for range 10 {
			for range 50 {
				if err := l.Note(Record{Command: "show version"}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if n, commits := d.count(); n != 500 || commits > 6 {
			t.Errorf("%d records in %d commits within 0.6 s", n, commits)
		}
		// Idle costs nothing.
		_, before := d.count()
		time.Sleep(time.Hour)
		if _, after := d.count(); after != before {
			t.Errorf("%d commits while idle", after-before)
		}
		l.Note(Record{Command: "last"})
		stop(t, l)
		if n, _ := d.count(); n != 501 {
			t.Errorf("%d records after stop", n)
		}
	})
}

// A read before a change stands before it in the chain.
// TestEveryGroupIsFlushed mixes notes, records that take waiting notes along, and
// a disk that fails for a while: only the first note of a group wakes the writer,
// and whatever empties the group must not leave the next one asleep.
func TestEveryGroupIsFlushed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 40).Draw(rt, "steps")
		kept, found := 0, 0
		synctest.Test(t, func(t *testing.T) {
			d := &disk{takes: 3 * time.Millisecond}
			l, healthy := start(t, d), true
			defer stop(t, l)
			for _, s := range steps {
				switch s {
				case 0, 1:
					if err := l.Note(Record{}); err != nil {
						t.Fatal(err)
					}
					kept++
				case 2:
					if _, err := l.Begin(t.Context(), Record{}); err == nil {
						kept++
					}
				case 3:
					if healthy = !healthy; healthy {
						d.set(nil)
					} else {
						d.set(errors.New("disk full"))
					}
				case 4:
					time.Sleep(40 * time.Millisecond)
				}
			}
			d.set(nil)
			time.Sleep(100*time.Millisecond + 3*d.takes)
			found, _ = d.count()
		})
		if found != kept {
			rt.Fatalf("%d of %d records are on disk after 100 ms", found, kept)
		}
	})
}

func TestNotesKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		l.Note(Record{Command: "first"})
		seq, err := l.Begin(t.Context(), Record{Command: "second"})
		stop(t, l)
		if err != nil || seq != 2 || d.chain[0].Command != "first" || len(d.commits) != 1 {
			t.Errorf("seq %d, %v, %d commits", seq, err, len(d.commits))
		}
	})
}

func TestFailingDiskRefusesAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: errors.New("no space")}
		l := start(t, d)
		if _, err := l.Begin(t.Context(), Record{}); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no space") {
			t.Errorf("begin: %v", err)
		}
		accepted := 0
		for l.Note(Record{Command: "read"}) == nil {
			accepted++
		}
		if accepted != noteSize {
			t.Errorf("%d notes accepted, the buffer is for %d", accepted, noteSize)
		}
		time.Sleep(time.Second)
		if err := l.Note(Record{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("note: %v", err)
		}
		d.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := d.count(); n != noteSize {
			t.Errorf("%d notes on disk once it works again", n)
		}
		if err := l.Note(Record{}); err != nil {
			t.Errorf("note once it works again: %v", err)
		}
		stop(t, l)
		if err := Verify(all(d.chain), Head{}, head(d.chain)); err != nil {
			t.Error(err)
		}
	})
}

func TestBlockedDiskAnswersWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{block: make(chan struct{})}
		l := start(t, d)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				began := time.Now()
				var err error
				if i == 4 {
					err = l.End(t.Context(), 1, Record{Command: "end"})
				} else {
					_, err = l.Begin(t.Context(), Record{Command: fmt.Sprint("begin ", i)})
				}
				if took := time.Since(began); !errors.Is(err, ErrUnavailable) || took > 2*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
			})
			if i == 0 {
				synctest.Wait() // the writer is stuck with this one
			}
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Begin(ctx, Record{Command: "begin"}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("with a context: %v", err)
		}
		stopped, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Stop(stopped); !errors.Is(err, ErrUnavailable) {
			t.Errorf("stop: %v", err)
		}
		if _, err := l.Begin(t.Context(), Record{}); err == nil {
			t.Error("begin after stop")
		}
		close(d.block)
		<-l.done
		// Begins whose callers had gone before the writer took them are not
		// written: those calls did not happen. The end tells of one that did.
		var commands []string
		for _, r := range d.chain {
			commands = append(commands, r.Command)
		}
		if !slices.Equal(commands, []string{"begin 0", "end"}) {
			t.Errorf("written after all: %q", commands)
		}
	})
}

func TestStopRefusesAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Millisecond}
		l := start(t, d)
		var wg sync.WaitGroup
		var mu sync.Mutex
		acknowledged := 0
		for range 50 {
			wg.Go(func() {
				for {
					_, err := l.Begin(t.Context(), Record{})
					if err != nil {
						return
					}
					mu.Lock()
					acknowledged++
					mu.Unlock()
				}
			})
		}
		time.Sleep(20 * time.Millisecond)
		stop(t, l)
		stop(t, l) // twice is once
		wg.Wait()
		if n, _ := d.count(); n != acknowledged || n == 0 {
			t.Errorf("%d on disk, %d acknowledged", n, acknowledged)
		}
		if err := l.Note(Record{}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("note after stop: %v", err)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(l.Collectors()...)
		seq, _ := l.Begin(t.Context(), Record{})
		l.End(t.Context(), seq, Record{})
		d.set(errors.New("broken"))
		l.End(t.Context(), seq, Record{})
		l.Note(Record{})
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP ze_audit_buffered Audit records of reads and refused calls not yet on disk.
# TYPE ze_audit_buffered gauge
ze_audit_buffered 1
# HELP ze_audit_failures_total Attempts to write audit records that failed, and calls refused because of it.
# TYPE ze_audit_failures_total counter
ze_audit_failures_total 1
# HELP ze_audit_records_total Audit records made durable.
# TYPE ze_audit_records_total counter
ze_audit_records_total{phase="begin"} 1
ze_audit_records_total{phase="call"} 0
ze_audit_records_total{phase="end"} 1
# HELP ze_audit_trimmed_total Audit records removed because of their age or number.
# TYPE ze_audit_trimmed_total counter
ze_audit_trimmed_total 0
`)); err != nil {
			t.Error(err)
		}
		if err := l.Stop(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("stop with a record that cannot be written: %v", err)
		}
	})
}

func TestNoteAllocates(t *testing.T) {
	d := &disk{}
	l := NewLog(Options{Store: d}) // not started: the buffer only grows
	l.notes = make([]Record, 0, noteSize)
	r := Record{Command: "show version", Principal: "alice"}
	if n := testing.AllocsPerRun(1000, func() { l.Note(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func chainOf(n int) []Record {
	d := &disk{}
	for i := range n {
		d.AppendAudit(context.Background(), []Record{{
			Time: time.Date(2026, 12, 1, 0, 0, i, 7, time.FixedZone("x", 3600)), Phase: Call, Principal: "alice",
			Surface: "mcp", Command: "show version", Args: `{"a":"<&>\u2028"}`, Outcome: "ok", Duration: time.Duration(i),
		}})
	}
	return d.chain
}

// The hash is that of the record read back from JSON, whatever was in it.
func TestSealSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		r := Record{
			Time:  time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns")).In(time.FixedZone("z", 7200)),
			Phase: Begin, Principal: text.Draw(t, "principal"), Accessor: text.Draw(t, "accessor"), Surface: text.Draw(t, "surface"),
			Remote: text.Draw(t, "remote"), Command: text.Draw(t, "command"), Args: text.Draw(t, "args"), Digest: text.Draw(t, "digest"), Outcome: text.Draw(t, "outcome"),
		}
		Seal("", 1, &r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back Record
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if err := Verify(all([]Record{back}), Head{}, Head{1, r.Hash}); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	})
}

func TestVerify(t *testing.T) {
	for _, n := range []int{0, 1, 20} {
		c := chainOf(n)
		if err := Verify(all(c), Head{}, head(c)); err != nil {
			t.Errorf("chain of %d: %v", n, err)
		}
	}
	const at = 5 // 0-based: record 6
	for what, c := range map[string]struct {
		edit func(c []Record) []Record
		seq  uint64
	}{
		"removed":          {func(c []Record) []Record { return slices.Delete(c, at, at+1) }, at + 1},
		"first removed":    {func(c []Record) []Record { return c[1:] }, 1},
		"all removed":      {func(c []Record) []Record { return nil }, 1},
		"end cut off":      {func(c []Record) []Record { return c[:len(c)-1] }, 20},
		"two swapped":      {func(c []Record) []Record { c[at], c[at+1] = c[at+1], c[at]; return c }, at + 1},
		"doubled":          {func(c []Record) []Record { return slices.Insert(c, at, c[at]) }, at + 2},
		"renumbered":       {func(c []Record) []Record { c = slices.Delete(c, at, at+1); renumber(c); return c }, at + 1},
		"added at the end": {func(c []Record) []Record { r := Record{}; Seal(c[19].Hash, 21, &r); return append(c, r) }, 21},
		"two added at the end": {func(c []Record) []Record {
			for range 2 {
				r := Record{}
				Seal(c[len(c)-1].Hash, uint64(len(c)+1), &r)
				c = append(c, r)
			}
			return c
		}, 21},
		"changed, resealed": {func(c []Record) []Record { c[at].Command = "x"; Seal(c[at].Prev, at+1, &c[at]); return c }, at + 2},
		"last one resealed": {func(c []Record) []Record { c[19].Command = "x"; Seal(c[19].Prev, 20, &c[19]); return c }, 20},
		"another chain":     {func(c []Record) []Record { return reseal(c) }, 20},
	} {
		original := chainOf(20)
		err := Verify(all(c.edit(slices.Clone(original))), Head{}, head(original))
		var broken *BrokenError
		if !errors.As(err, &broken) || broken.Seq != c.seq {
			t.Errorf("%s: want broken at %d: %v", what, c.seq, err)
		}
	}
	unreadable := errors.New("unreadable")
	if err := Verify(func(yield func(Record, error) bool) { yield(Record{}, unreadable) }, Head{}, Head{}); !errors.Is(err, unreadable) {
		t.Errorf("unreadable: %v", err)
	}
}

func renumber(c []Record) {
	for i := range c {
		c[i].Seq = uint64(i + 1)
	}
}

// reseal makes a chain that is whole in itself, but is not the one that was kept.
func reseal(c []Record) []Record {
	prev := ""
	for i := range c {
		c[i].Principal = "mallory"
		Seal(prev, uint64(i+1), &c[i])
		prev = c[i].Hash
	}
	return c
}

// Whatever of its older end was removed: the rest verifies from the anchor, and
// any flipped bit in the JSON of any record is found, at that record; so is one
// removed, and an anchor that is not the record before.
func TestVerifyFindsTampering(t *testing.T) {
	whole := chainOf(10)
	rapid.Check(t, func(t *rapid.T) {
		gone := rapid.IntRange(0, 9).Draw(t, "trimmed")
		var anchor Head
		if gone > 0 {
			anchor = head(whole[:gone])
		}
		original, end := whole[gone:], head(whole)
		if err := Verify(all(original), anchor, end); err != nil {
			t.Fatal(err)
		}
		i := rapid.IntRange(0, len(original)-1).Draw(t, "record")
		seq := original[i].Seq
		broken := func(what string, c []Record, anchor Head, seq uint64) {
			var broken *BrokenError
			if err := Verify(all(c), anchor, end); !errors.As(err, &broken) || broken.Seq != seq {
				t.Fatalf("%s: %v, want broken at %d", what, err, seq)
			}
		}
		broken("removed", slices.Delete(slices.Clone(original), i, i+1), anchor, seq)
		broken("another anchor", original, Head{anchor.Seq, strings.Repeat("0", 64)}, original[0].Seq)
		broken("an older anchor", original, Head{Seq: anchor.Seq + 1, Hash: original[0].Hash}, original[0].Seq+1)

		b, _ := json.Marshal(original[i])
		at := rapid.IntRange(0, len(b)*8-1).Draw(t, "bit")
		b[at/8] ^= 1 << (at % 8)
		var changed Record
		if json.Unmarshal(b, &changed) != nil {
			return // found by whoever reads it
		}
		if changed == original[i] {
			return // the case of a member's name, or an escape of the same character
		}
		c := slices.Clone(original)
		c[i] = changed
		broken("became "+string(b), c, anchor, seq)
	})
}

func BenchmarkNote(b *testing.B) {
	l := NewLog(Options{Store: &disk{}})
	l.Start()
	defer l.Stop(context.Background())
	r := Record{Time: time.Unix(1, 0), Command: "show version", Principal: "alice"}
	b.ReportAllocs()
	for b.Loop() {
		for l.Note(r) != nil {
			time.Sleep(time.Millisecond)
		}
	}
}
