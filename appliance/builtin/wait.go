package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
)

const (
	maxWait    = time.Hour
	lookAnyway = time.Second // sessions are looked at so often, whatever was heard of them
)

type waitedPeer struct {
	Name          string `json:"name"`
	UptimeSeconds int64  `json:"uptime-seconds"`
}

// waitEstablished returns when the sessions asked for carry routes.
func (d Deps) waitEstablished(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Peers   []string `json:"peers"`
		Timeout string   `json:"timeout"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	limit, err := waitTime("timeout", in.Timeout, maxWait)
	if err != nil {
		return nil, err
	}
	// From before the first look, so that no change after it is missed.
	sub := d.Events.Subscribe(event.Filter{Types: []string{"peer-up", "peer-down"}}, 1)
	defer sub.Close()
	began := time.Now()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(lookAnyway)
	defer tick.Stop()
	for {
		up, missing, err := d.sessions(ctx, in.Peers)
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			return struct {
				Waited int64        `json:"waited-seconds"`
				Peers  []waitedPeer `json:"peer"`
			}{seconds(time.Since(began)), up}, nil
		}
		command.Report(ctx, command.Progress{Done: time.Since(began).Seconds(), Total: limit.Seconds(),
			Message: fmt.Sprintf("%d of %d established; waiting for %s", len(up), len(up)+len(missing), strings.Join(missing, ", "))})
		select {
		case <-sub.C:
		case <-tick.C:
		case <-end.C:
			return nil, notEstablished(missing, fmt.Sprintf("within %s", in.Timeout))
		case <-command.Ending(ctx):
			return nil, notEstablished(missing, "before the daemon began to end")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// sessions sorts the named peers, or all, into those with a session and the
// others, with what is known of why.
func (d Deps) sessions(ctx context.Context, names []string) (up []waitedPeer, missing []string, err error) {
	peers, err := d.BGP.Peers(ctx)
	if err != nil {
		return nil, nil, bgpError(err)
	}
	for i, name := range names {
		if slices.ContainsFunc(peers, func(p bgp.PeerStatus) bool { return p.Name == name }) {
			continue
		}
		if _, err := d.BGP.Peer(ctx, name); err != nil { // which has the words for it
			e := command.AsError(bgpError(err))
			e.Field = fmt.Sprintf("peers[%d]", i)
			return nil, nil, e
		}
		missing = append(missing, name+" (idle)") // configured this moment
	}
	if len(peers) == 0 {
		return nil, nil, &command.Error{Code: command.Conflict, Message: "no peer is configured, so there is none to wait for",
			Actions: []string{"set bgp peer NAME remote ip ADDRESS"}}
	}
	for _, p := range peers {
		switch {
		case len(names) > 0 && !slices.Contains(names, p.Name):
		case p.State == bgp.StateEstablished:
			up = append(up, waitedPeer{p.Name, seconds(p.Uptime)})
		default:
			missing = append(missing, p.Name+" ("+whyDown(p)+")")
		}
	}
	return up, missing, nil
}

// whyDown says what is known of why a peer has no session.
func whyDown(p bgp.PeerStatus) string {
	why := p.State
	if p.Admin != "enabled" {
		why += ", " + p.Admin
	}
	if p.LastError != "" {
		why += ", " + p.LastError
	}
	if p.LastDown != "" {
		why += ", last session ended: " + p.LastDown
	}
	return why
}

func notEstablished(missing []string, when string) error {
	e := &command.Error{Code: command.Unavailable, Message: "not established " + when + ": " + strings.Join(missing, "; ")}
	for _, m := range missing {
		name, _, _ := strings.Cut(m, " ")
		e.Actions = append(e.Actions, "show bgp peer "+name)
	}
	return e
}
