package mcp

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
)

//go:embed testdata/lamps.yang
var lampsYANG []byte

// lamps is a made-up appliance: what the commands of lamps.yang act on.
type lamps struct {
	waiting   chan struct{} // gets one value when show wait has begun
	cancelled chan error    // gets why it ended
}

func (l *lamps) commands(t testing.TB) []*command.Command {
	set, err := schema.Load([]schema.Source{{Name: "lamps.yang", Text: lampsYANG}})
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]command.Run{
		"show clock": func(context.Context, *command.Request) (any, error) {
			return map[string]any{"time": "2026-11-30T12:00:00Z"}, nil
		},
		"show fault": func(context.Context, *command.Request) (any, error) {
			return nil, errors.New("the fuse named in the log has blown")
		},
		"show wait": func(ctx context.Context, _ *command.Request) (any, error) {
			l.waiting <- struct{}{}
			<-ctx.Done()
			l.cancelled <- context.Cause(ctx)
			return nil, ctx.Err()
		},
		"show drawer": func(context.Context, *command.Request) (any, error) {
			return map[string]any{"content": "a spare bulb"}, nil
		},
		"show lamp": func(context.Context, *command.Request) (any, error) {
			return map[string]any{"lamps": []string{"hall", "küche"}}, nil
		},
		"show lamp history": func(_ context.Context, r *command.Request) (any, error) {
			var args struct{ Lamp string }
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			return map[string]any{"lamp": args.Lamp, "entries": []string{}}, nil
		},
		"show fuse": func(_ context.Context, r *command.Request) (any, error) {
			var args struct{ Number int }
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			if args.Number == 3 {
				return nil, &command.Error{Code: command.Unavailable, Message: "the box is locked"}
			}
			return map[string]any{"number": args.Number}, nil
		},
		"show prompt dim": func(ctx context.Context, r *command.Request) (any, error) {
			var args struct {
				Level      int
				Lamp, Mode string
			}
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			if args.Lamp == "" {
				answers, err := command.Ask(ctx, command.Question{Key: "lamp", Method: "elicitation/create", Params: json.RawMessage(
					`{"message":"Which lamp?","requestedSchema":{"type":"object","properties":{"lamp":{"type":"string"}},"required":["lamp"]}}`)})
				if err != nil {
					return nil, err
				}
				var a struct{ Content struct{ Lamp string } }
				if err := json.Unmarshal(answers["lamp"], &a); err != nil {
					return nil, err
				}
				args.Lamp = a.Content.Lamp
			}
			text := fmt.Sprintf("Dim the lamp %s to %d.", args.Lamp, args.Level)
			return map[string]any{"description": "Dims.", "messages": []any{
				map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": text}},
			}}, nil
		},
		"switch": func(_ context.Context, r *command.Request) (any, error) {
			var args struct {
				Lamp string
				On   bool
			}
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			if args.Lamp == "attic" {
				return nil, &command.Error{Code: command.NotFound, Field: "lamp", Message: `no lamp "attic"`,
					Allowed: "hall, küche", Actions: []string{"show lamp"}}
			}
			return map[string]any{"lamp": args.Lamp, "on": args.On}, nil
		},
		"smash": func(_ context.Context, r *command.Request) (any, error) {
			var args struct{ Lamp string }
			if err := r.Bind(&args); err != nil {
				return nil, err
			}
			return map[string]any{"smashed": args.Lamp}, nil
		},
	}
	var out []*command.Command
	for _, decl := range set.Commands() {
		run := runs[strings.Join(decl.Path, " ")]
		if run == nil {
			t.Fatalf("lamps.yang: nothing implements %v", decl.Path)
		}
		out = append(out, command.New(decl, run))
	}
	return out
}

// ledger is the audit log, which panics as a defect would while broken is set.
type ledger struct {
	*audit.Log
	broken atomic.Bool
}

func (l *ledger) Note(r audit.Record) error {
	if l.broken.Load() {
		panic("the ledger is broken")
	}
	return l.Log.Note(r)
}

// auditStore stands for the database below the audit log. Only the log's one
// goroutine calls it.
type auditStore struct {
	head    audit.Head
	records []audit.Record
}

func (s *auditStore) AppendAudit(_ context.Context, records []audit.Record) error {
	for i := range records {
		audit.Seal(s.head.Hash, s.head.Seq+1, &records[i])
		s.head = audit.Head{Seq: records[i].Seq, Hash: records[i].Hash}
	}
	s.records = append(s.records, records...)
	return nil
}

func (s *auditStore) TrimAudit(context.Context, time.Time, int, int) (int, error) { return 0, nil }
func (s *auditStore) AuditBefore(context.Context, uint64, int) ([]audit.Record, uint64, error) {
	return nil, 0, errors.ErrUnsupported
}

// Tokens of the fixture.
const (
	adminToken   = "ze_test-admin-0123456789"
	readToken    = "ze_test-read-0123456789"
	narrowToken  = "ze_test-narrow-0123456789"
	expiredToken = "ze_test-expired-0123456789"
	lostToken    = "ze_test-lost-0123456789" // its record cannot be read
)

// keyring stands for the database below authentication: a few fixed tokens.
type keyring struct {
	mu   sync.Mutex
	kept map[[32]byte]access.Token
}

// change changes the token with this secret, or takes it away.
func (k *keyring) change(secret string, how func(*access.Token)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.kept[access.DigestOf(secret)]
	delete(k.kept, access.DigestOf(secret))
	if how != nil {
		how(&t)
		k.kept[access.DigestOf(secret)] = t
	}
}

func (k *keyring) TokenByDigest(_ context.Context, digest [32]byte) (access.Token, error) {
	if digest == access.DigestOf(lostToken) {
		return access.Token{}, errors.New("the disk is gone")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t, ok := k.kept[digest]; ok {
		return t, nil
	}
	return access.Token{}, access.ErrNoToken
}

func (k *keyring) Now() time.Time { return time.Now() }

func (k *keyring) UseTokens(context.Context, map[[32]byte]time.Time) error {
	return errors.ErrUnsupported
}
func (k *keyring) RotateToken(context.Context, string, access.Token, time.Time) (access.Token, error) {
	return access.Token{}, errors.ErrUnsupported
}
func (k *keyring) Tokens(context.Context) ([]access.Token, error)  { return nil, errors.ErrUnsupported }
func (k *keyring) CreateToken(context.Context, access.Token) error { return errors.ErrUnsupported }
func (k *keyring) DeleteToken(context.Context, string) (bool, error) {
	return false, errors.ErrUnsupported
}

func newKeyring() *keyring {
	keys := &keyring{kept: map[[32]byte]access.Token{}}
	for secret, token := range map[string]access.Token{
		adminToken:   {Name: "admin", Accessor: "a1", Scope: access.Admin},
		readToken:    {Name: "reader", Accessor: "r1", Scope: access.Read},
		narrowToken:  {Name: "narrow", Accessor: "n1", Allow: []string{"show lamp"}},
		expiredToken: {Name: "old", Accessor: "o1", Scope: access.Admin, Expires: time.Unix(1, 0)},
	} {
		keys.kept[access.DigestOf(secret)] = token
	}
	return keys
}

func newAuthenticator(t testing.TB) *access.Authenticator { return newKeyring().authenticator(t) }

func (k *keyring) authenticator(t testing.TB) *access.Authenticator {
	a, err := access.NewAuthenticator(access.AuthOptions{Mode: access.ModeBearer, Store: k})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// fixture is a server on the real dispatcher.
type fixture struct {
	*Server
	lamps      *lamps
	keys       *keyring
	kept       *auditStore // to be looked at once the ledger has stopped
	ledger     *ledger
	registry   *command.Registry
	dispatcher *command.Dispatcher
}

// newFixture returns a server for the lamps; change adapts its options.
func newFixture(t testing.TB, change func(*Options)) *fixture {
	kept := &auditStore{}
	f := &fixture{
		kept:     kept,
		keys:     newKeyring(),
		lamps:    &lamps{waiting: make(chan struct{}, 1), cancelled: make(chan error, 1)},
		ledger:   &ledger{Log: audit.NewLog(audit.Options{Store: kept, Logger: zerolog.Nop()})},
		registry: command.NewRegistry(),
	}
	f.ledger.Start()
	t.Cleanup(func() {
		if err := f.ledger.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := f.registry.Register(append(f.lamps.commands(t), asking()...)...); err != nil {
		t.Fatal(err)
	}
	f.dispatcher = command.NewDispatcher(command.Options{
		Registry: f.registry, Audit: f.ledger, Clock: time.Now, Logger: zerolog.Nop(),
	})
	o := Options{
		Dispatcher: f.dispatcher, Auth: f.keys.authenticator(t), Name: "ze", Version: "0.0.0-test",
		Instructions: "Call ze_reference first.", Events: event.New(event.Options{}),
		Assets: map[string][]byte{
			"ui://lamps/panel.html": []byte("<!doctype html><title>Lamps</title>"),
			"ui://lamps/bulb.png":   {0x89, 'P', 'N', 'G'},
		}, Logger: zerolog.Nop(),
	}
	if change != nil {
		change(&o)
	}
	var err error
	if f.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	return f
}

// guarded returns the server behind the guard, as the wiring serves it.
func (f *fixture) guarded() http.Handler { return (&access.Guard{}).Wrap(f.Server) }
