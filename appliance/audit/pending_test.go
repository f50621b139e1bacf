package audit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestPending(t *testing.T) {
	if PendingFrom(t.Context()) != nil {
		t.Error("pending records out of nowhere")
	}
	p := NewPending(Record{Phase: Begin}, Record{Phase: End})
	if PendingFrom(WithPending(t.Context(), p)) != p {
		t.Error("lost in the context")
	}
	if _, done := p.Seq(); done {
		t.Error("committed before anything happened")
	}
	records, ok := p.Take()
	if _, again := p.Take(); !ok || len(records) != 2 || again {
		t.Errorf("taken %v, twice %v", ok, again)
	}
	p.Release()
	if _, ok := p.Take(); !ok {
		t.Error("not to be had again after the transaction failed")
	}
	p.Committed(7)
	p.Release() // too late: they are durable
	if _, ok := p.Take(); ok {
		t.Error("taken after they were committed")
	}
	if seq, done := p.Seq(); seq != 7 || !done {
		t.Errorf("%d, %v", seq, done)
	}
}

// Of many that want the records at once one gets them.
func TestPendingIsTakenOnce(t *testing.T) {
	for range 100 {
		p := NewPending(Record{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		taken := 0
		for range 8 {
			wg.Go(func() {
				if _, ok := p.Take(); ok {
					mu.Lock()
					taken++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if taken != 1 {
			t.Fatalf("taken %d times", taken)
		}
	}
}

func TestPendingOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog(Options{Store: &disk{}})
		p := l.Pending(Record{Phase: Begin}, Record{Phase: End, Outcome: "ok"})
		time.Sleep(time.Second)
		records, _ := p.Take()
		if records[0].Duration != 0 || records[1].Duration != time.Second || records[0].Time.IsZero() {
			t.Errorf("%+v", records)
		}
		for _, phase := range []string{"begin", "end"} {
			if n := testutil.ToFloat64(l.records.WithLabelValues(phase)); n != 0 {
				t.Errorf("%s counted before it was committed", phase)
			}
		}
		p.Committed(1)
		for _, phase := range []string{"begin", "end"} {
			if n := testutil.ToFloat64(l.records.WithLabelValues(phase)); n != 1 {
				t.Errorf("%s counted %v times", phase, n)
			}
		}
	})
}
