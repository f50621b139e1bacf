package appliance

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/store"
)

// eventTypes are the types of event that the parts of the daemon publish.
var eventTypes = []event.Type{
	{Name: "config-commit", Subject: []string{"revision"}, Command: "show config history",
		Description: "A configuration was committed, rolled back or imported, and runs."},
	{Name: "config-revert", Subject: []string{"revision"}, Command: "show config history",
		Description: "A commit that nobody confirmed in time was taken back."},
	{Name: "peer-down", Subject: []string{"peer"}, Command: "show bgp peer", Description: "A BGP session has ended; the message says why."},
	{Name: "peer-up", Subject: []string{"peer"}, Command: "show bgp peer", Description: "A BGP session was established."},
	{Name: "reload", Subject: []string{"revision"}, Command: "show reload-status",
		Description: "A configuration was put in force, or refused."},
	{Name: "route-change", Subject: []string{"peer", "family"}, Command: "show bgp rib received",
		Description: "A peer has sent or withdrawn routes; at most one event a second for each family."},
	{Name: "task-change", Subject: []string{"task"}, Command: "show task", Description: "A task of yours was begun, waits for an answer, or has ended."},
	{Name: "token-change", Subject: []string{"token"}, Command: "token list", Description: "A token was created, given a new secret, or revoked."},
}

func newEvents(clock func() time.Time) *event.Bus {
	return event.New(event.Options{Types: eventTypes, Clock: clock})
}

// reported publishes what the BGP speaker tells unasked.
func (a *App) reported(r bgp.Report) {
	e := event.Event{Subject: map[string]string{"peer": r.Peer}}
	switch r.Kind {
	case bgp.PeerUp:
		e.Type, e.Message = "peer-up", fmt.Sprintf("the session with %s is established", r.Peer)
	case bgp.PeerDown:
		e.Type, e.Message = "peer-down", fmt.Sprintf("the session with %s has ended: %s", r.Peer, r.Reason)
	case bgp.RoutesChanged:
		e.Type, e.Subject["family"] = "route-change", string(r.Family)
		e.Message = fmt.Sprintf("%s: %d %s routes announced, %d withdrawn", r.Peer, r.Announced, r.Family, r.Withdrawn)
	default:
		a.log.Error().Str("kind", string(r.Kind)).Msg("the BGP speaker tells something unknown")
		return
	}
	a.events.Publish(e)
}

// committed publishes that r is the newest revision.
func (a *App) committed(r config.Revision, reverted bool) {
	number := strconv.FormatUint(r.Number, 10)
	e := event.Event{Type: "config-commit", Subject: map[string]string{"revision": number},
		Message: fmt.Sprintf("revision %s by %s: %s", number, r.Who, r.How)}
	if reverted {
		e.Type, e.Message = "config-revert", fmt.Sprintf("revision %s: %s, %s", number, r.How, r.Comment)
	}
	a.events.Publish(e)
}

// reloaded publishes the outcome of a reload; err is why it was refused.
func (a *App) reloaded(err error) {
	r := a.running.Load()
	e := event.Event{Type: "reload", Message: "the configuration from " + r.source + " is in force"}
	if r.revision > 0 {
		e.Subject = map[string]string{"revision": strconv.FormatUint(r.revision, 10)}
		e.Message = fmt.Sprintf("configuration revision %d is in force", r.revision)
	}
	if err != nil {
		e.Message = "a configuration was refused: " + err.Error()
	}
	a.events.Publish(e)
}

// tokens keeps bearer tokens and publishes their changes.
type tokens struct {
	*store.DB
	events *event.Bus
	dir    string // of the database
}

var _ builtin.Tokens = tokens{}

// CreateToken implements builtin.Tokens.
func (t tokens) CreateToken(ctx context.Context, token access.Token) error {
	return t.changed(token.Name, "was created", t.DB.CreateToken(ctx, token))
}

// DeleteToken implements builtin.Tokens.
func (t tokens) DeleteToken(ctx context.Context, name string) (owned bool, err error) {
	owned, err = t.DB.DeleteToken(ctx, name)
	return owned, t.changed(name, "was revoked", err)
}

// RotateToken implements builtin.Tokens.
func (t tokens) RotateToken(ctx context.Context, name string, next access.Token, until time.Time) (access.Token, error) {
	rotated, err := t.DB.RotateToken(ctx, name, next, until)
	return rotated, t.changed(name, "has a new secret", err)
}

func (t tokens) changed(name, how string, err error) error {
	if err == nil {
		t.events.Publish(event.Event{Type: "token-change", Subject: map[string]string{"token": name}, Message: "token " + name + " " + how})
	}
	return err
}
