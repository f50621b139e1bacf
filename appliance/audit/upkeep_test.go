package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// What was recorded a while ago, or too long ago in number, goes in small steps
// while callers have their turn, and the rest still verifies.
func TestRetention(t *testing.T) {
	for name, row := range map[string]struct {
		keep Retention
		left int
	}{
		"all":        {Retention{}, 2000},
		"by number":  {Retention{Records: 300}, 300},
		"by age":     {Retention{Age: time.Hour}, 500},
		"both":       {Retention{Age: time.Hour, Records: 10}, 10},
		"never none": {Retention{Age: time.Nanosecond}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{}
				l := start(t, d)
				now := time.Now()
				for i := range 2000 {
					r := Record{Time: now.Add(-2 * time.Hour), Command: fmt.Sprint(i)}
					if i >= 1500 {
						r.Time = now
					}
					if err := l.Note(r); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				l.SetRetention(row.keep)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if len(d.chain) != row.left {
					t.Errorf("%d records left", len(d.chain))
				}
				for _, n := range d.trims {
					if n > upkeepStep {
						t.Errorf("%d removed at once", n)
					}
				}
				if _, err := l.Begin(t.Context(), Record{Command: "next"}); err != nil {
					t.Error(err)
				}
				stop(t, l)
				if err := Verify(all(d.chain), d.anchor, head(d.chain)); err != nil || head(d.chain).Seq != 2001 {
					t.Errorf("chain ends with %d: %v", head(d.chain).Seq, err)
				}
			})
		})
	}
}

func TestRetentionTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		for range 20 {
			l.Note(Record{})
		}
		time.Sleep(time.Second)
		d.set(errors.New("no space"))
		l.SetRetention(Retention{Records: 5})
		time.Sleep(3 * time.Minute)
		d.set(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(d.chain) != 5 {
			t.Errorf("%d records left once the disk works again", len(d.chain))
		}
		stop(t, l)
	})
}

// A flood of refused requests is counted in a few records, and nothing is lost:
// what stands in the records adds up.
func TestRefusalsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		const flood, minutes = 1000, 10
		sent := 0
		for range minutes * 60 {
			for range flood {
				l.Refused(Record{Surface: "mcp", Remote: "192.0.2.1:5", Outcome: "unauthenticated"})
				sent++
			}
			time.Sleep(time.Second)
		}
		l.Refused(Record{Surface: "mcp", Principal: "ci", Accessor: "a", Outcome: "limit"})
		stop(t, l)
		var single, sums, total int
		for _, r := range d.chain {
			if r.Phase != Call || r.Time.IsZero() {
				t.Fatalf("%+v", r)
			}
			if r.Outcome == "limit" {
				if r.Principal != "ci" || r.Accessor != "a" {
					t.Errorf("%+v", r)
				}
				continue
			}
			if r.Count == 0 {
				single, total = single+1, total+1
				if r.Remote != "192.0.2.1:5" {
					t.Errorf("where it came from is not in %+v", r)
				}
			} else {
				sums, total = sums+1, total+int(r.Count)
			}
		}
		if total != sent {
			t.Errorf("%d of %d refusals are in the records", total, sent)
		}
		if limit := refusalBurst + minutes*60/int(refusalEvery/time.Second) + 1; single > limit || sums > minutes+1 || single < refusalBurst {
			t.Errorf("%d records of their own (at most %d), %d sums", single, limit, sums)
		}
		if err := Verify(all(d.chain), Head{}, head(d.chain)); err != nil {
			t.Error(err)
		}
	})
}

// However many callers are refused, the sums are few.
func TestRefusalKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		for i := range 10_000 {
			l.Refused(Record{Surface: "mcp", Principal: fmt.Sprint(i), Outcome: "limit"})
		}
		stop(t, l)
		total := 0
		for _, r := range d.chain {
			total += max(1, int(r.Count))
		}
		if total != 10_000 || len(d.chain) > refusalBurst+refusalKinds+1 {
			t.Errorf("%d refusals in %d records", total, len(d.chain))
		}
		l.Refused(Record{}) // after the end: nobody listens, nothing breaks
	})
}

func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		l := start(t, d)
		began := time.Now()
		for i := range 1200 {
			r := Record{Time: began.Add(time.Duration(i) * time.Second), Principal: "alice", Surface: "mcp", Command: "show bgp", Outcome: "ok"}
			switch i % 4 {
			case 1:
				r.Principal, r.Command = "bob", "show bgp rib"
			case 2:
				r.Surface, r.Command = "cli", "show bgpx"
			case 3:
				r.Outcome = "invalid"
			}
			l.Note(r)
		}
		seqs := func(q Query) (out []uint64, next uint64) {
			t.Helper()
			if q.Count == 0 {
				q.Count = 1000
			}
			page, err := l.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				out = append(out, r.Seq)
			}
			if !slices.IsSortedFunc(out, func(a, b uint64) int { return int(b) - int(a) }) {
				t.Errorf("not newest first: %v", out)
			}
			return out, page.Next
		}
		if got, next := seqs(Query{Count: 3}); !slices.Equal(got, []uint64{1200, 1199, 1198}) || next != 1198 {
			t.Errorf("newest: %v, next %d", got, next)
		}
		for name, row := range map[string]struct {
			q     Query
			count int
		}{
			"principal":        {Query{Principal: "bob"}, 300},
			"command":          {Query{Command: "show bgp"}, 900},
			"command, deeper":  {Query{Command: "show bgp rib"}, 300},
			"outcome":          {Query{Outcome: "invalid"}, 300},
			"surface":          {Query{Surface: "cli"}, 300},
			"nobody":           {Query{Principal: "mallory"}, 0},
			"since":            {Query{Since: began.Add(1190 * time.Second)}, 10},
			"until":            {Query{Until: began.Add(10 * time.Second)}, 10},
			"since and until":  {Query{Since: began.Add(5 * time.Second), Until: began.Add(10 * time.Second)}, 5},
			"several together": {Query{Principal: "alice", Surface: "cli", Command: "show bgpx", Outcome: "ok"}, 300},
		} {
			got, next := seqs(row.q)
			if len(got) != row.count || next != 0 {
				t.Errorf("%s: %d records, next %d", name, len(got), next)
			}
		}
		// Page by page nothing is left out and nothing comes twice.
		var all []uint64
		for before := uint64(0); ; {
			got, next := seqs(Query{Principal: "bob", Count: 7, Before: before})
			all = append(all, got...)
			if next == 0 {
				break
			}
			before = next
		}
		once, _ := seqs(Query{Principal: "bob"})
		if !slices.Equal(all, once) {
			t.Errorf("%d records in pages, %d at once", len(all), len(once))
		}
		// Reading goes on when nothing can be written.
		d.set(errors.New("no space"))
		l.Note(Record{})
		if got, _ := seqs(Query{Count: 1}); len(got) != 1 || got[0] != 1200 {
			t.Errorf("with a full disk: %v", got)
		}
		d.set(nil)
		stop(t, l)
	})
}

// TestTroubleIsReportedSeldom: the same failure is not in the log ten times a
// second; another one, and the end of it, are there at once.
func TestTroubleIsReportedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := &disk{err: errors.New("no space")}
		l := NewLog(Options{Store: d, Logger: zerolog.New(&log)})
		l.Start()
		l.Note(Record{Command: "read"})
		time.Sleep(time.Hour)
		synctest.Wait()
		lines := func(want string) int { return strings.Count(log.String(), want) }
		// After 1, 2, 4 … 512 s, and then every ten minutes.
		if n := lines("no space"); n < 10 || n > 20 {
			t.Errorf("%d lines in an hour", n)
		}
		d.set(errors.New("another"))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := lines("another"); n != 1 && n != 2 {
			t.Errorf("%d lines for another failure", n)
		}
		if lines("written again") != 0 {
			t.Error("the end is reported before it comes")
		}
		d.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := lines("written again"); n != 1 {
			t.Errorf("its end is reported %d times", n)
		}
		stop(t, l)
		total := 0
		for line := range strings.Lines(log.String()) {
			var said struct {
				Error    string `json:"error"`
				Repeated int    `json:"repeated"`
			}
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Fatal(err)
			}
			if said.Error == "no space" {
				total += 1 + said.Repeated
			}
		}
		if total < 10*60*45 {
			t.Errorf("%d failures are accounted for", total)
		}
	})
}
