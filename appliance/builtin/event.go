package builtin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/event"
	"ze.internal/ze/appliance/schema"
)

const (
	maxMonitor = time.Hour
	maxEvents  = 1000 // in one answer
)

type eventType struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Subject     []string `json:"subject,omitempty"`
}

func (d Deps) event(r runs) {
	r["show-event-types"] = func(_ context.Context, r *command.Request) (any, error) {
		out := struct {
			Types []eventType `json:"type"`
		}{[]eventType{}}
		for _, t := range d.eventTypes(r.Principal) {
			out.Types = append(out.Types, eventType{t.Name, t.Description, t.Subject})
		}
		return out, nil
	}
	r["show-event-recent"] = func(_ context.Context, r *command.Request) (any, error) {
		var in struct {
			Count int `json:"count"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		filter, err := d.eventFilter(r)
		if err != nil {
			return nil, err
		}
		return struct {
			Events []event.Event `json:"event"`
		}{d.Events.Recent(filter, in.Count)}, nil
	}
	r["monitor-event"] = d.monitorEvent
}

// eventTypes returns the types of event that p may learn of.
func (d Deps) eventTypes(p *access.Principal) []event.Type {
	return slices.DeleteFunc(slices.Clone(d.Events.Types()), func(t event.Type) bool {
		return d.Registry.Find(p, strings.Fields(t.Command)) == nil
	})
}

// eventFilter returns what picks the events a caller asks for and may learn of.
func (d Deps) eventFilter(r *command.Request) (event.Filter, error) {
	var in struct {
		Types []string `json:"types"`
		Peer  string   `json:"peer"`
	}
	f := event.Filter{Types: []string{}, Owner: r.Principal.Owner()}
	if err := r.Bind(&in); err != nil {
		return f, err
	}
	for _, t := range d.eventTypes(r.Principal) {
		f.Types = append(f.Types, t.Name)
	}
	for i, name := range in.Types {
		if !slices.Contains(f.Types, name) {
			return f, &command.Error{Code: command.Invalid, Field: fmt.Sprintf("types[%d]", i), Message: fmt.Sprintf("there is no type of event %q", name),
				Allowed: strings.Join(f.Types, ", "), Actions: []string{"show event types"}}
		}
	}
	if in.Types != nil {
		f.Types = in.Types
	}
	if in.Peer != "" {
		f.Subject = map[string]string{"peer": in.Peer}
	}
	return f, nil
}

func (d Deps) monitorEvent(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		For string `json:"for"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	length, err := waitTime("for", in.For, maxMonitor)
	if err != nil {
		return nil, err
	}
	filter, err := d.eventFilter(r)
	if err != nil {
		return nil, err
	}
	out := struct {
		Seconds int64         `json:"seconds"`
		Lost    uint64        `json:"lost"`
		Events  []event.Event `json:"event"`
	}{Events: []event.Event{}}
	sub := d.Events.Subscribe(filter, maxEvents)
	defer sub.Close()
	began := time.Now()
	end := time.NewTimer(length)
	defer end.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-command.Ending(ctx):
			over = true
		case <-end.C:
			over = true
		case <-tick.C:
			command.Report(ctx, command.Progress{Done: time.Since(began).Seconds(), Total: length.Seconds(), Message: counted(len(out.Events), "event")})
		case e := <-sub.C:
			if len(out.Events) == maxEvents {
				out.Lost++
				continue
			}
			out.Events = append(out.Events, e)
		}
	}
	out.Lost += sub.Lost()
	out.Seconds = seconds(time.Since(began))
	return out, nil
}

// waitTime reads how long to wait.
func waitTime(field, text string, most time.Duration) (time.Duration, error) {
	d, err := schema.ParseDuration(text)
	if err == nil && (d < time.Second || d > most) {
		err = fmt.Errorf("%q is too short or too long", text)
	}
	if err != nil {
		return 0, &command.Error{Code: command.Invalid, Field: field, Message: err.Error(),
			Allowed: fmt.Sprintf("1s to %dm, as 30s or 5m", most/time.Minute)}
	}
	return d, nil
}

// counted words a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
