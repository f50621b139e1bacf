package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/mcp"
	"ze.internal/ze/store"
)

const raceRounds = 1000

// TestRevocationRace: however calls and a revocation meet, no call that began
// after the revocation was answered is accepted. That the race is watched well
// enough is shown by an authenticator that remembers, which must be caught.
func TestRevocationRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := store.Create(store.Options{Dir: dir, Instance: "test"}); err != nil {
		t.Fatal(err)
	}
	app, err := New(t.Context(), Options{DataDir: dir, File: "race.conf",
		Text:    []byte("environment { metrics { enabled false; } mcp { limit { rate 1000000; burst 1000000; concurrent 1000; } } }"),
		Speaker: []string{os.Args[0]}, Version: builtin.Version{Version: "test"}, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var accepted, met int64
	for round := range raceRounds {
		n, before, late := app.raceRevocation(t, app.mcp, fmt.Sprint("t", round), round)
		accepted, met = accepted+n, met+before
		if late > 0 {
			t.Fatalf("round %d: %d calls were accepted that began after the revocation", round, late)
		}
	}
	if accepted < raceRounds || met < raceRounds/10 {
		t.Errorf("%d calls were accepted and %d refused before the answer in %d rounds: that is no race", accepted, met, raceRounds)
	}
	t.Logf("%d rounds: %d calls accepted, none late; %d refused while the revocation was under way", raceRounds, accepted, met)

	forgetful, err := mcp.New(mcp.Options{Dispatcher: app.dispatcher, Auth: &remembering{Authenticator: app.auth}, Name: "ze", Version: "test", Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	for round := range raceRounds {
		if _, _, late := app.raceRevocation(t, forgetful, fmt.Sprint("f", round), round); late > 0 {
			return
		}
	}
	t.Error("an authenticator that remembers for a moment was not caught: this test proves nothing")
}

// raceRevocation makes a token, has eight callers use it, revokes it meanwhile,
// and returns how many calls were accepted, how many were refused that began
// before it was answered, and how many were accepted that began after.
func (a *App) raceRevocation(t *testing.T, h http.Handler, name string, round int) (accepted, met, late int64) {
	admin := &access.Principal{Name: "admin", Scope: access.Admin}
	run := func(line string) json.RawMessage {
		res, err := a.dispatcher.Do(t.Context(), command.Call{Principal: admin, Surface: "cli", Line: line})
		if err != nil {
			t.Fatal(err)
		}
		return res.JSON
	}
	var made struct{ Secret string }
	if err := json.Unmarshal(run("token create "+name), &made); err != nil {
		t.Fatal(err)
	}
	const callers = 8
	calls := 10 + round%60 // so that it comes early in one round and late in another
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcp.Revision +
		`","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	var revoked atomic.Bool
	answered := make(chan struct{})
	var ok, before, after atomic.Int64
	var working, done sync.WaitGroup
	working.Add(callers)
	for range callers {
		done.Go(func() {
			begun := sync.OnceFunc(working.Done)
			defer begun()
			for n := 0; ; n++ {
				if n == calls { // enough to meet the revocation; the last one comes after it
					<-answered
				}
				began := revoked.Load()
				r := httptest.NewRequest("POST", "http://127.0.0.1/mcp", bytes.NewReader(body))
				r.Header = http.Header{"Authorization": {"Bearer " + made.Secret}, "Content-Type": {"application/json"},
					"Mcp-Protocol-Version": {mcp.Revision}, "Mcp-Method": {"server/discover"}}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				switch w.Code {
				case http.StatusOK:
					ok.Add(1)
					begun()
					if began {
						after.Add(1)
						return
					}
				case http.StatusUnauthorized, http.StatusTooManyRequests: // of failures; callers have no limit here
					if !began {
						before.Add(1)
					}
					return
				default:
					t.Errorf("%d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	working.Wait()
	run("token revoke " + name)
	revoked.Store(true)
	close(answered)
	done.Wait()
	return ok.Load(), before.Load(), after.Load()
}

// remembering accepts for a moment what it has accepted before: the fault that
// the race is to find.
type remembering struct {
	*access.Authenticator
	mu   sync.Mutex
	kept map[string]*access.Principal
	at   time.Time
}

func (r *remembering) Authenticate(ctx context.Context, header string) (*access.Principal, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) > 20*time.Millisecond {
		r.kept, r.at = map[string]*access.Principal{}, time.Now()
	}
	if p := r.kept[header]; p != nil {
		return p, nil
	}
	p, err := r.Authenticator.Authenticate(ctx, header)
	if err == nil {
		r.kept[header] = p
	}
	return p, err
}
