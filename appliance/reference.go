package appliance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// surroundings returns what a reference tells p beside the commands. Where the
// daemon answers is part of its status, for those who may ask for that.
func (a *App) surroundings(p *access.Principal) command.Surroundings {
	around := families()
	if a.dispatcher.Registry().Find(p, []string{"show", "status"}) != nil {
		around.Services = a.services()
	}
	return around
}

func families() (around command.Surroundings) {
	for _, f := range bgp.Families() {
		around.Families = append(around.Families, string(f))
	}
	return around
}

// services returns where the daemon answers, sorted by name and address.
func (a *App) services() []command.ServiceReference {
	var out []command.ServiceReference
	for _, d := range a.openedDoors() {
		s := command.ServiceReference{Name: d.name, Address: d.l.Addr().String(), Protocol: "http"}
		switch {
		case d.l.Addr().Network() == "unix":
			s.Protocol = "http+unix"
		case d.tls != "":
			s.Protocol = "https"
		}
		out = append(out, s)
	}
	if b := a.running.Load(); b != nil && b.cfg.BGP != nil && b.cfg.BGP.Listen.IP.IsValid() {
		l := b.cfg.BGP.Listen
		out = append(out, command.ServiceReference{Name: "bgp", Address: net.JoinHostPort(l.IP.String(), strconv.Itoa(int(l.Port))), Protocol: "bgp"})
	}
	slices.SortFunc(out, func(x, y command.ServiceReference) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Address, y.Address))
	})
	return out
}

// Reference returns the reference of this program's commands without a daemon,
// for somebody who may do everything.
func Reference() (json.RawMessage, error) {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		return nil, fmt.Errorf("load the commands: %w", err)
	}
	registry := command.NewRegistry()
	commands, err := builtin.Commands(set, builtin.Deps{Registry: registry, Every: registry, Clock: time.Now})
	if err != nil {
		return nil, err
	}
	if err := registry.Register(commands...); err != nil {
		return nil, err
	}
	registry.Surround(func(*access.Principal) command.Surroundings { return families() })
	return registry.Reference(&access.Principal{Scope: access.Admin}), nil
}

// instructions tell a model how to begin. What it reads before everything else
// must be short.
const instructions = `ze controls a BGP speaker and the appliance it runs on. ` +
	`Call ze_reference once to learn every command you may use, with its parameters and examples; with a section it returns only that part. ` +
	`What is named here and not listed for you is not yours to use. ` +
	`Prefer the typed tools; ze_execute runs any command line, for example "show bgp". ` +
	`Look before you change: ze_show_bgp shows peers and their state, ze_show_bgp_rib what is received and sent. ` +
	`After ze_announce verify with ze_show_bgp_rib (action sent); ze_withdraw takes it back by prefixes, id or tag. ` +
	`Do not poll in a loop: ze_request_bgp (action wait-established) waits for sessions, ze_monitor waits for events, ` +
	`and ze_show_event (action recent) tells what happened. ` +
	`What lasts longer than a second may come back as a task: its answer comes later. ` +
	`Most missing arguments, and whether to carry out what destroys, may be asked of the person: let them decide. ` +
	`Resources such as ze://config/running and ze://peer/{peer} are state to read; ` +
	`prompts such as announce-and-verify, drain-peer and explain-down-session are usual jobs, step by step. ` +
	`A failed call says which field is wrong, what is allowed and what to do next.`
