package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"ze.internal/ze/appliance/bgp"
)

// exchange carries requests and responses with one child.
type exchange struct {
	in     io.Writer
	lines  chan []byte      // to be written
	ended  chan struct{}    // closed when the child answers no more
	report func(bgp.Report) // told of what the child tells unasked, from one goroutine

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan<- response // nil: the child has ended
}

func newExchange(in io.Writer, report func(bgp.Report)) *exchange {
	return &exchange{
		in: in, lines: make(chan []byte), ended: make(chan struct{}), report: report,
		waiting: map[uint64]chan<- response{},
	}
}

// call sends one request and waits for its answer. A request that was sent is
// carried out even if ctx ends before its answer.
func (x *exchange) call(ctx context.Context, m method, params, result any) error {
	r := request{Method: m}
	var err error
	if params != nil {
		if r.Params, err = json.Marshal(params); err != nil {
			return fmt.Errorf("ask the bgp speaker to %s: %w", m, err)
		}
	}
	answer := make(chan response, 1)
	x.mu.Lock()
	if x.waiting == nil {
		x.mu.Unlock()
		return bgp.ErrUnavailable
	}
	x.last++
	r.ID = x.last
	x.waiting[r.ID] = answer
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		delete(x.waiting, r.ID)
		x.mu.Unlock()
	}()

	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ask the bgp speaker to %s: %w", m, err)
	}
	select {
	case x.lines <- append(line, '\n'):
	case <-x.ended:
		return bgp.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case a := <-answer:
		if a.Error != nil {
			return a.Error.err()
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(a.Result, result); err != nil {
			return fmt.Errorf("read the bgp speaker's answer to %s: %w", m, err)
		}
		return nil
	case <-x.ended:
		return bgp.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over reports whether the child has ended.
func (x *exchange) over() bool {
	select {
	case <-x.ended:
		return true
	default:
		return false
	}
}

// write sends lines until ctx or the child ends.
func (x *exchange) write(ctx context.Context) {
	for {
		select {
		case line := <-x.lines:
			if _, err := x.in.Write(line); err != nil {
				return // the child is ending; read tells the callers
			}
		case <-x.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read hands out answers until the child ends, or says what is none: an error.
func (x *exchange) read(out io.Reader) error {
	defer func() {
		x.mu.Lock()
		x.waiting = nil
		x.mu.Unlock()
		close(x.ended)
	}()
	for d := json.NewDecoder(out); ; {
		var a response
		if err := d.Decode(&a); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		if a.Report != nil {
			x.report(*a.Report)
			continue
		}
		x.mu.Lock()
		answer := x.waiting[a.ID]
		x.mu.Unlock()
		if answer != nil {
			answer <- a
		}
	}
}
