package audit

import (
	"context"
	"time"
)

// Retention says how much of the chain is kept. The older end goes first.
type Retention struct {
	Age     time.Duration // records older than this go; 0: age does not matter
	Records int           // the most that stay; 0: any number
}

const (
	upkeepEvery = time.Minute
	upkeepPause = 20 * time.Millisecond // between two steps, in which callers have their turn
	upkeepStep  = 512                   // records removed in one transaction
)

// SetRetention changes what is kept. Removing begins within a minute.
func (l *Log) SetRetention(r Retention) { l.retention.Store(&r) }

// upkeep removes one step of records that need not be kept any more, and returns
// when to come back. A failure is tried again like everything else.
func (l *Log) upkeep() time.Duration {
	r := l.retention.Load()
	if r == nil || *r == (Retention{}) {
		return upkeepEvery
	}
	var before time.Time
	if r.Age > 0 {
		before = l.clock().Add(-r.Age)
	}
	removed, err := l.store.TrimAudit(context.Background(), before, r.Records, upkeepStep)
	if err != nil {
		l.log.Error().Err(err).Msg("old audit records not removed")
		return upkeepEvery
	}
	l.trimmed.Add(float64(removed))
	if removed == upkeepStep {
		return upkeepPause
	}
	return upkeepEvery
}
