package appliance

import (
	"context"
	"fmt"
	"time"

	"ze.internal/ze/appliance/bgp/speaker"
)

// readyTime is how long it may take to find out whether the daemon is ready.
const readyTime = 2 * time.Second

// unready returns why the daemon cannot do its work now, a line for each reason.
func (a *App) unready(ctx context.Context) []string {
	var reasons []string
	if _, err := a.store.Meta(ctx); err != nil {
		reasons = append(reasons, "the store does not answer: "+err.Error())
	} else if err := a.store.Health(ctx); err != nil {
		reasons = append(reasons, "the store takes no changes: "+err.Error())
	}
	if a.running.Load().cfg.BGP != nil {
		if s := a.speaker.Status(); s.Phase != speaker.Ready {
			reason := fmt.Sprintf("the BGP speaker is not running: %s", s.Process.State)
			if s.Process.LastExit != "" {
				reason += ", " + s.Process.LastExit
			}
			reasons = append(reasons, reason)
		}
	}
	return reasons
}
