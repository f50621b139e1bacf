package appliance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/command"
)

// Pulse proves that the daemon is alive: that a command goes through the
// dispatcher and that the store can be read. It returns how the daemon is doing,
// in one line for systemctl status. Where something hangs so does Pulse, whatever
// ctx says: that is what a watchdog waits for.
func (a *App) Pulse(ctx context.Context) (string, error) {
	err := a.dispatcher.Probe(ctx, command.Call{
		Principal: &access.Principal{Name: access.NameSelf, Scope: access.Read}, Surface: "watchdog", Path: []string{"show", "status"},
	})
	if err != nil {
		return "", fmt.Errorf("no command gets through: %w", err)
	}
	if _, err := a.store.Meta(ctx); err != nil {
		return "", fmt.Errorf("the store does not answer: %w", err)
	}
	return a.summary(ctx), nil
}

// summary says in one line how the daemon is doing, what is wrong first.
func (a *App) summary(ctx context.Context) string {
	var parts []string
	if reasons := a.unready(ctx); len(reasons) > 0 {
		parts = append(parts, "not ready: "+strings.Join(reasons, ", "))
	} else {
		parts = append(parts, "ready")
	}
	if s := a.ReloadStatus(); s.LastError != "" {
		parts = append(parts, "last reload refused: "+s.LastError)
	}
	parts = append(parts, "configuration: "+a.Source())
	connections := 0
	for _, d := range a.openedDoors() {
		connections += d.conns.count()
	}
	parts = append(parts, fmt.Sprintf("%d connections", connections))
	if a.running.Load().cfg.BGP != nil {
		parts = append(parts, a.sessions(ctx))
	}
	return strings.Join(parts, "; ")
}

// sessions says how many BGP sessions are up.
func (a *App) sessions(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	peers, err := a.bgp.Peers(ctx)
	if err != nil {
		return "BGP does not answer"
	}
	up := 0
	for _, p := range peers {
		if p.State == bgp.StateEstablished {
			up++
		}
	}
	return fmt.Sprintf("%d of %d BGP sessions established", up, len(peers))
}
