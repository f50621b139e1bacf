package audit

import "time"

// Requests that were turned away cost their sender nothing, so a flood of them
// must not wash out what matters: some are recorded one by one, the rest as one
// record a minute for each kind.
const (
	refusalBurst = 20              // recorded one by one at once
	refusalEvery = 6 * time.Second // and then one in this time
	refusalKinds = 64              // summed up apart; the rest of them share one record
	refusalSpan  = time.Minute
)

// refusals is what a Log knows of requests turned away. The log's mutex guards it.
type refusals struct {
	credit float64 // how many may be recorded one by one
	last   time.Time
	since  time.Time // of the oldest one in sums
	sums   map[refusal]uint64
}

// refusal is a kind of request turned away.
type refusal struct{ principal, accessor, surface, outcome string }

// Refused records a request that was turned away before it was a call: r needs
// Surface, Remote and Outcome, and Principal and Accessor if somebody was
// recognised. It never fails: what finds no room is counted in a later record.
func (l *Log) Refused(r Record) {
	r.Phase, r.Begin = Call, 0
	l.stamp(&r)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case l.refused.single(r.Time) && len(l.notes) < noteSize:
		l.keep(r)
	default:
		l.refused.add(r)
	}
}

// sumUp notes what has been counted, if that is old enough, or all of it.
func (l *Log) sumUp(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keep(l.refused.due(l.clock(), all)...)
}

// single reports whether one more may have a record of its own.
func (f *refusals) single(now time.Time) bool {
	if f.last.IsZero() {
		f.credit = refusalBurst
	} else {
		f.credit = min(refusalBurst, f.credit+max(0, float64(now.Sub(f.last))/float64(refusalEvery)))
	}
	f.last = now
	if f.credit < 1 {
		return false
	}
	f.credit--
	return true
}

func (f *refusals) add(r Record) {
	kind := refusal{r.Principal, r.Accessor, r.Surface, r.Outcome}
	if len(f.sums) == 0 {
		f.since, f.sums = r.Time, map[refusal]uint64{}
	}
	if _, ok := f.sums[kind]; !ok && len(f.sums) >= refusalKinds {
		kind = refusal{outcome: r.Outcome, surface: r.Surface}
	}
	f.sums[kind]++
}

// due returns a record for each kind that has been counted, and begins anew, if
// that is old enough or all is asked for.
func (f *refusals) due(now time.Time, all bool) []Record {
	span := now.Sub(f.since)
	if len(f.sums) == 0 || !all && span >= 0 && span < refusalSpan {
		return nil
	}
	records := make([]Record, 0, len(f.sums))
	for k, n := range f.sums {
		records = append(records, Record{
			Time: now, Phase: Call, Principal: k.principal, Accessor: k.accessor, Surface: k.surface,
			Outcome: k.outcome, Duration: max(0, span), Count: n,
		})
	}
	f.sums = nil
	return records
}
