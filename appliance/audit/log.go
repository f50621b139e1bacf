package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// ErrUnavailable means that the record could not be kept: what it describes must
// not happen. The caller may try again.
var ErrUnavailable = errors.New("the audit log cannot be written")

// AnswerTime is how long a call waits for the disk to take its record.
const AnswerTime = 2 * time.Second

// How much may wait for the disk.
const (
	queueSize = 1024
	noteSize  = 8192
	batchSize = 512 // records of Begin and End in one commit
)

// Options are what a Log is made of.
type Options struct {
	Store      Store
	Clock      func() time.Time // default time.Now; stamps records without a time
	Logger     zerolog.Logger
	FlushEvery time.Duration // longest a Note stays in memory; default 100 ms
	Retention  Retention     // what is kept; SetRetention changes it
}

// Log is the way records reach the store. One goroutine writes: whatever is
// waiting when it turns to the store goes into one transaction, so that many
// callers share a sync and a single one waits for nobody.
type Log struct {
	store      Store
	clock      func() time.Time
	log        zerolog.Logger
	flushEvery time.Duration

	queue chan *entry
	wake  chan struct{} // a value when notes has something to flush
	stop  chan struct{}
	done  chan struct{}

	retention atomic.Pointer[Retention]
	trouble   trouble // the writer's

	mu      sync.Mutex // guards the following
	notes   []Record
	spare   []Record // the other of two buffers that take turns
	refused refusals
	stopped bool

	records  *prometheus.CounterVec
	trimmed  prometheus.Counter
	phases   map[Phase]prometheus.Counter
	failures prometheus.Counter
	buffered prometheus.GaugeFunc
}

// entry is a Begin or End on its way. Whoever moves state on from waiting
// decides: the writer takes it, or the caller has given up.
type entry struct {
	record Record
	empty  bool // no record: only wants to know when those before it are on disk
	state  atomic.Int32
	answer chan error // holds one
}

const (
	waiting int32 = iota
	taken
	abandoned
)

// NewLog returns a Log that has not been started.
func NewLog(o Options) *Log {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 100 * time.Millisecond
	}
	l := &Log{
		store: o.Store, clock: o.Clock, log: o.Logger, flushEvery: o.FlushEvery,
		queue: make(chan *entry, queueSize), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
		notes: make([]Record, 0, 64), spare: make([]Record, 0, 64),
		records: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ze_audit_records_total", Help: "Audit records made durable.",
		}, []string{"phase"}),
		trimmed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ze_audit_trimmed_total", Help: "Audit records removed because of their age or number.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ze_audit_failures_total", Help: "Attempts to write audit records that failed, and calls refused because of it.",
		}),
	}
	l.SetRetention(o.Retention)
	l.phases = map[Phase]prometheus.Counter{}
	for _, p := range []Phase{Begin, End, Call} {
		l.phases[p] = l.records.WithLabelValues(string(p))
	}
	l.buffered = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ze_audit_buffered", Help: "Audit records of reads and refused calls not yet on disk.",
	}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(len(l.notes))
	})
	return l
}

// Collectors returns the log's metrics, to be registered once by the caller.
func (l *Log) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.records, l.trimmed, l.failures, l.buffered}
}

// Start begins writing. Call it once, and Stop after it.
func (l *Log) Start() { go l.run() }

// Stop refuses further records, makes those that are waiting durable, and waits
// for that, at most until ctx ends.
func (l *Log) Stop(ctx context.Context) error {
	l.mu.Lock()
	if !l.stopped {
		l.stopped = true
		close(l.stop)
	}
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		return fmt.Errorf("stop audit log: %w: %w", ErrUnavailable, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.notes); n > 0 {
		return fmt.Errorf("stop audit log: %d records lost: %w", n, ErrUnavailable)
	}
	return nil
}

// Begin records that a call with outside effects is about to act. When it
// returns without an error the record is on disk; otherwise, after at most two
// seconds, ErrUnavailable: the call must not act.
func (l *Log) Begin(ctx context.Context, r Record) (seq uint64, err error) {
	r.Phase, r.Begin = Begin, 0
	l.stamp(&r)
	e, err := l.submit(ctx, &entry{record: r}, true)
	if err != nil {
		return 0, err
	}
	return e.record.Seq, nil
}

// End records how the call with Begin record begin ended. On ErrUnavailable the
// record may still be written: it tells of something that has happened.
func (l *Log) End(ctx context.Context, begin uint64, r Record) error {
	r.Phase, r.Begin = End, begin
	l.stamp(&r)
	_, err := l.submit(ctx, &entry{record: r}, false)
	return err
}

// Flush returns when every record noted before is on disk, so that whoever reads
// the chain then finds it there.
func (l *Log) Flush(ctx context.Context) error {
	_, err := l.submit(ctx, &entry{empty: true}, true)
	return err
}

// Pending has records wait for the change of the store that they tell of. When
// that takes them an End record learns how long the call has taken.
func (l *Log) Pending(records ...Record) *Pending {
	for i := range records {
		l.stamp(&records[i])
	}
	p := NewPending(records...)
	p.taken = func(records []Record) {
		for i := range records {
			if r := &records[i]; r.Phase == End {
				r.Duration = l.clock().Sub(r.Time)
			}
		}
	}
	p.committed = l.count
	return p
}

// Note records a call without outside effects. The record is on disk after
// FlushEvery at the latest; if the disk does not keep up, ErrUnavailable: the
// call must be refused.
func (l *Log) Note(r Record) error {
	r.Phase, r.Begin = Call, 0
	l.stamp(&r)
	l.mu.Lock()
	refused := l.stopped || len(l.notes) >= noteSize
	if !refused {
		l.keep(r)
	}
	l.mu.Unlock()
	if refused {
		l.failures.Inc()
		return fmt.Errorf("note call: %w: too many records wait for the disk, or the daemon is stopping", ErrUnavailable)
	}
	return nil
}

// keep adds to the notes. Only the first of a group wakes the writer: with every
// call it would cost more than the record does. l.mu is held.
func (l *Log) keep(records ...Record) {
	if len(l.notes) == 0 && len(records) > 0 {
		l.signal()
	}
	l.notes = append(l.notes, records...)
}

func (l *Log) stamp(r *Record) {
	if r.Time.IsZero() {
		r.Time = l.clock()
	}
}

func (l *Log) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// submit hands an entry to the writer and waits for the disk. give says whether
// a caller that stops waiting takes the record back.
func (l *Log) submit(ctx context.Context, e *entry, give bool) (*entry, error) {
	e.answer = make(chan error, 1)
	limit := time.NewTimer(AnswerTime)
	defer limit.Stop()
	var reason string
	for queue, answer := l.queue, (chan error)(nil); reason == ""; {
		select {
		case queue <- e:
			queue, answer = nil, e.answer
		case err := <-answer:
			return e, err
		case <-l.done:
			select {
			case err := <-e.answer: // of the last commit
				return e, err
			default:
				reason = "the daemon is stopping"
			}
		case <-ctx.Done():
			reason = ctx.Err().Error()
		case <-limit.C:
			reason = "the disk does not answer"
		}
	}
	if give {
		e.state.CompareAndSwap(waiting, abandoned)
	}
	l.failures.Inc()
	return nil, fmt.Errorf("record call: %w: %s", ErrUnavailable, reason)
}

// run is the writer.
func (l *Log) run() {
	defer close(l.done)
	var (
		flush   = time.NewTimer(l.flushEvery)
		pending bool // flush is running
		upkeep  = time.NewTimer(upkeepPause)
	)
	flush.Stop()
	defer upkeep.Stop()
	for {
		select {
		case e := <-l.queue:
			l.write(l.drain(e))
		case <-l.wake:
			if !pending {
				pending = true
				flush.Reset(l.flushEvery)
			}
		case <-flush.C:
			pending = false
			if !l.write(nil) {
				// They stay in the buffer: try again in a while.
				l.signal()
			}
		case <-upkeep.C:
			l.sumUp(false)
			upkeep.Reset(l.upkeep())
		case <-l.stop:
			l.sumUp(true)
			for {
				batch := l.drain(nil)
				ok := l.write(batch)
				if len(batch) == 0 || !ok {
					return
				}
			}
		}
	}
}

// drain collects what is waiting in the queue, after first.
func (l *Log) drain(first *entry) []*entry {
	var batch []*entry
	take := func(e *entry) {
		if e.state.CompareAndSwap(waiting, taken) {
			batch = append(batch, e)
		}
	}
	if first != nil {
		take(first)
	}
	for len(batch) < batchSize {
		select {
		case e := <-l.queue:
			take(e)
		default:
			return batch
		}
	}
	return batch
}

// write appends the notes and then batch in one transaction, and answers batch.
// Notes that could not be written stay for the next time.
func (l *Log) write(batch []*entry) bool {
	l.mu.Lock()
	notes := l.notes
	l.notes, l.spare = l.spare[:0], nil
	l.mu.Unlock()

	records := notes
	for _, e := range batch {
		if !e.empty {
			records = append(records, e.record)
		}
	}
	err := l.append(records)
	sealed := records[len(notes):]
	for _, e := range batch {
		if !e.empty {
			e.record.Seq, sealed = sealed[0].Seq, sealed[1:]
		}
		e.answer <- err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.notes, l.spare = append(notes, l.notes...), l.notes
		return false
	}
	clear(records) // let go of the strings
	l.spare = records[:0]
	return true
}

func (l *Log) append(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	if err := l.store.AppendAudit(context.Background(), records); err != nil {
		l.failures.Inc()
		if unsaid, say := l.trouble.report(err, l.clock()); say {
			l.log.Error().Err(err).Int("records", len(records)).Uint64("repeated", unsaid).Msg("audit records not written")
		}
		return fmt.Errorf("record call: %w: %w", ErrUnavailable, err)
	}
	if l.trouble.over() {
		l.log.Info().Msg("audit records are written again")
	}
	l.count(records)
	return nil
}

func (l *Log) count(records []Record) {
	for i := range records {
		l.phases[records[i].Phase].Inc()
	}
}
