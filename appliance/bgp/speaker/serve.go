package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/bgp"
)

// Serve is the child: it answers requests read from in on out, and writes
// nothing else there, until in ends, ctx ends or either fails. Then it stops the
// BGP engine and returns; the end of in is no error. ctx does not interrupt a
// read from in: the caller closes in for that.
func Serve(ctx context.Context, in io.Reader, out io.Writer, log zerolog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &server{engine: newEngine(log), out: out, cancel: cancel}
	changes := make(chan request)
	var changer sync.WaitGroup
	changer.Go(func() {
		for {
			select {
			case r, more := <-changes:
				if !more {
					return
				}
				s.answer(ctx, r)
			case <-s.engine.sessions.lost:
				s.engine.renewLost(ctx)
			case <-s.engine.sessions.up:
				s.engine.resync(ctx)
			}
		}
	})
	var reporter sync.WaitGroup
	reporter.Go(func() { s.report(ctx) })

	err := s.read(ctx, in, changes)
	close(changes)
	cancel()
	changer.Wait()
	reporter.Wait()
	s.reads.Wait()
	s.engine.stop()
	return errors.Join(err, s.writeErr)
}

type server struct {
	engine *engine
	cancel context.CancelFunc
	reads  sync.WaitGroup

	mu       sync.Mutex
	out      io.Writer
	writeErr error
}

// read hands requests on until in ends.
func (s *server) read(ctx context.Context, in io.Reader, changes chan<- request) error {
	// The queue of changes has no bound, so that a slow one never delays a ping.
	queue := make(chan request)
	var pump sync.WaitGroup
	pump.Go(func() { forward(ctx, queue, changes) })
	defer pump.Wait()
	defer close(queue)

	for d := json.NewDecoder(in); ; {
		var r request
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		switch r.Method {
		case methodPeers, methodRIB, methodPing, methodAlive:
			s.reads.Go(func() { s.answer(ctx, r) })
		default:
			queue <- r
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// forward passes requests on in order without ever blocking their sender. When
// the requests or ctx end, what was not passed on is dropped.
func forward(ctx context.Context, from <-chan request, to chan<- request) {
	var waiting []request
	for {
		var out chan<- request
		var next request
		if len(waiting) > 0 {
			out, next = to, waiting[0]
		}
		select {
		case r, ok := <-from:
			if !ok {
				return
			}
			waiting = append(waiting, r)
		case out <- next:
			waiting = waiting[1:]
		case <-ctx.Done():
			for range from {
			}
			return
		}
	}
}

func (s *server) answer(ctx context.Context, r request) {
	a := response{ID: r.ID}
	result, err := s.do(ctx, r)
	if err == nil && result != nil {
		a.Result, err = json.Marshal(result)
	}
	if err != nil {
		a.Error = toFailure(err)
	}
	s.send(a)
}

// send writes one line; a failure ends the child.
func (s *server) send(a response) {
	line, err := json.Marshal(a)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		_, err = s.out.Write(append(line, '\n'))
	}
	if err != nil && s.writeErr == nil {
		s.writeErr = fmt.Errorf("write to the parent: %w", err)
		s.cancel()
	}
}

func (s *server) do(ctx context.Context, r request) (any, error) {
	switch r.Method {
	case methodStart:
		p, err := params[startParams](r)
		if err != nil {
			return nil, err
		}
		return nil, s.engine.start(ctx, p.Config, p.Paths)
	case methodApply:
		cfg, err := params[bgp.Config](r)
		if err != nil {
			return nil, err
		}
		return nil, s.engine.apply(ctx, cfg)
	case methodAnnounce:
		paths, err := params[[]bgp.Path](r)
		if err != nil {
			return nil, err
		}
		return nil, s.engine.announce(ctx, paths)
	case methodWithdraw:
		prefixes, err := params[[]netip.Prefix](r)
		if err != nil {
			return nil, err
		}
		return nil, s.engine.withdraw(ctx, prefixes)
	case methodTeardown:
		p, err := params[teardownParams](r)
		if err != nil {
			return nil, err
		}
		return nil, s.engine.teardown(ctx, p.Peer, p.Reason)
	case methodPeers:
		return s.engine.peerStatus(ctx)
	case methodRIB:
		q, err := params[bgp.RIBQuery](r)
		if err != nil {
			return nil, err
		}
		routes, more, err := s.engine.rib(q)
		return ribResult{routes, more}, err
	case methodPing:
		return nil, s.engine.ping(ctx)
	case methodAlive:
		return nil, nil
	default:
		return nil, fmt.Errorf("unknown method %q", r.Method)
	}
}

func params[T any](r request) (T, error) {
	var v T
	if err := json.Unmarshal(r.Params, &v); err != nil {
		return v, fmt.Errorf("read the parameters of %s: %w", r.Method, err)
	}
	return v, nil
}
