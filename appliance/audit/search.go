package audit

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Query selects records; fields left zero select nothing away.
type Query struct {
	Since     time.Time // not before
	Until     time.Time // before
	Principal string
	Command   string // this command, and those that begin with its words
	Outcome   string
	Surface   string
	Before    uint64 // only smaller numbers: where an earlier Page ended
	Count     int    // the most records to return; required
}

// Page is an answer to a Query, newest first.
type Page struct {
	Records []Record
	Next    uint64 // Before of the query for older ones; 0: there are none
}

const (
	searchStep = 512     // records read in one transaction
	searchMost = 200_000 // records looked at for one page; the next one goes on from there
	// Records lie in the order of their end but carry the time of their beginning,
	// and clocks are set: so much further back one may still be recent enough.
	searchSlack = 24 * time.Hour
)

// Search finds records that are on disk, those noted before included.
func (l *Log) Search(ctx context.Context, q Query) (Page, error) {
	// A disk that takes no records can still be read, and then most of all.
	_ = l.Flush(ctx)
	var page Page
	page.Next = q.Before
	for looked := 0; looked < searchMost; looked += searchStep {
		records, next, err := l.store.AuditBefore(ctx, page.Next, searchStep)
		if err != nil {
			return Page{}, fmt.Errorf("search the audit log: %w", err)
		}
		for _, r := range records {
			if !q.Since.IsZero() && r.Time.Before(q.Since.Add(-searchSlack)) {
				page.Next = 0
				return page, nil
			}
			if !q.matches(&r) {
				continue
			}
			if len(page.Records) == q.Count {
				page.Next = page.Records[q.Count-1].Seq
				return page, nil
			}
			page.Records = append(page.Records, r)
		}
		if page.Next = next; next == 0 {
			return page, nil
		}
	}
	return page, nil
}

func (q *Query) matches(r *Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return !r.Time.Before(q.Since) && (q.Until.IsZero() || r.Time.Before(q.Until)) &&
		is(q.Principal, r.Principal) && is(q.Outcome, r.Outcome) && is(q.Surface, r.Surface) &&
		(is(q.Command, r.Command) || strings.HasPrefix(r.Command, q.Command+" "))
}
