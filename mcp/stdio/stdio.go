// Package stdio lets a host that starts its MCP servers as child processes use
// one that speaks revision 2026-07-28 over HTTP. It reads messages from standard
// input and writes messages, and nothing else, to standard output, one a line.
// Requests of that revision are passed on as they are. For hosts of 2025-11-25,
// 2025-06-18 and 2025-03-26, which begin with a handshake, it translates: what
// the server wants to know becomes a request to the host, and answers lose what
// the host's revision does not have. The package owns framing, the handshake
// and the translation. It must not know any tool, nor how the server is reached.
package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
)

// Revision is the revision that the server speaks, and hosts without a handshake.
const Revision = "2026-07-28"

const (
	maxLine    = 32 << 20 // octets of a message from the host
	maxRunning = 256      // requests of the host that are answered at a time
	drainTime  = time.Second
)

// Upstream is the server.
type Upstream interface {
	// Exchange sends one request of Revision and hands every message of the
	// answer to each, the response last. The text of its error is for the user
	// and says what to do.
	Exchange(ctx context.Context, request []byte, each func(message json.RawMessage) error) error
}

// Options of Serve; all but Logger are required.
type Options struct {
	In            io.Reader
	Out           io.Writer
	Upstream      Upstream
	Name, Version string // what the program calls itself to hosts with a handshake
	Logger        zerolog.Logger
}

// Serve answers the host until its end of the pipe closes or ctx ends. The error
// says that reading or writing failed. A read that blocks outlives ctx.
func Serve(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{
		Options: o, ending: make(chan struct{}), stop: cancel,
		running: map[string]*running{}, asked: map[string]chan response{},
	}
	lines := make(chan line)
	go readLines(ctx, o.In, lines)
	var err error
	for reading := true; reading; {
		select {
		case <-ctx.Done():
			reading = false
		case l := <-lines:
			if reading = l.err == nil; reading {
				s.line(ctx, l)
			} else if !errors.Is(l.err, io.EOF) {
				err = fmt.Errorf("read from the host: %w", l.err)
			}
		}
	}
	return errors.Join(err, s.finish())
}

// server is one run of Serve.
type server struct {
	Options
	ending chan struct{} // closed when the host says no more
	stop   func()        // ends everything
	work   sync.WaitGroup

	writing  sync.Mutex // held while a line is written
	writeErr error

	mu      sync.Mutex // guards what follows
	host    *host      // nil before a handshake
	running map[string]*running
	asked   map[string]chan response // of this program's requests to the host, by id
	lastID  uint64
}

// running is a request of the host that is being answered.
type running struct {
	cancel context.CancelFunc
	method string
}

// finish lets requests in flight be answered for a moment, but not those that
// would last: nobody is there to be asked, and little to be told.
func (s *server) finish() error {
	close(s.ending)
	s.mu.Lock()
	for _, r := range s.running {
		if r.method == "subscriptions/listen" {
			r.cancel()
		}
	}
	if s.host != nil {
		s.host.leave()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.stop()
		select {
		case <-done:
		case <-time.After(drainTime): // a host that does not read holds a writer up
			return errors.New("write to the host: it does not read")
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.writeErr
}

// write sends one message to the host as one line.
func (s *server) write(message jsontext.Value) {
	b := append(compact(message), '\n')
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.writeErr != nil {
		return
	}
	if _, err := s.Out.Write(b); err != nil {
		s.writeErr = fmt.Errorf("write to the host: %w", err)
		s.stop()
	}
}

// compact returns message without any line break. It is valid JSON.
func compact(message jsontext.Value) jsontext.Value {
	out := message.Clone()
	if err := out.Compact(); err != nil {
		panic("stdio: compact a message: " + err.Error())
	}
	return out
}

// notify sends a notification to the host.
func (s *server) notify(method string, params object) {
	m := object{{"jsonrpc", jsontext.Value(`"2.0"`)}, {"method", quote(method)}}
	if params != nil {
		m.set("params", params.encode())
	}
	s.write(m.encode())
}

// nextID returns an id that this program's requests have not had.
func (s *server) nextID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return "ze-" + strconv.FormatUint(s.lastID, 10)
}

// begin counts a request of the host as being answered, with a context that
// cancel ends, unless there is one with this id or too many are there.
func (s *server) begin(ctx context.Context, m message) (context.Context, *running, *failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.running[string(m.id)] != nil:
		return nil, nil, &failure{code: codeInvalidRequest, message: "a request with this id is being answered; every request needs an id of its own"}
	case len(s.running) >= maxRunning:
		return nil, nil, &failure{code: codeInternal, message: fmt.Sprintf("%d requests are being answered; wait for some of them", maxRunning)}
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel, m.method}
	s.running[string(m.id)] = r
	return ctx, r, nil
}

// end reports whether a request is still to be answered.
func (s *server) end(id jsontext.Value, r *running) bool {
	r.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[string(id)] != r {
		return false
	}
	delete(s.running, string(id))
	return true
}

// cancel ends a request of the host, which then gets no answer. Unknown ids are
// those of requests that have been answered.
func (s *server) cancel(id jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.running[string(id)]; r != nil && r.method != "initialize" {
		r.cancel()
		delete(s.running, string(id))
	}
}
