package builtin

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/bgp"
	"ze.internal/ze/appliance/command"
)

// shownPrefixes is how many prefixes of each announcement a list of several shows.
const shownPrefixes = 10

type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type announceAnswer struct {
	ID        string      `json:"id"`
	Announced int         `json:"announced"`
	Unchanged int         `json:"unchanged"`
	TakenOver []takenOver `json:"taken-over"`
	Peers     []string    `json:"peer"`
	NotSentTo []notSentTo `json:"not-sent-to,omitempty"`
	Expires   time.Time   `json:"expires,omitzero"`
	Pending   bool        `json:"pending"`
}

type takenOver struct {
	ID       string `json:"id"`
	Prefixes int    `json:"prefixes"`
}

type notSentTo struct {
	Peer   string `json:"peer"`
	Reason string `json:"reason"`
}

type announcementEntry struct {
	ID                  string         `json:"id"`
	PrefixCount         int            `json:"prefix-count"`
	Prefixes            []netip.Prefix `json:"prefixes"`
	Peers               []string       `json:"peer,omitempty"`
	NextHop             string         `json:"next-hop"`
	Origin              string         `json:"origin,omitempty"`
	MED                 *uint32        `json:"med,omitempty"`
	LocalPreference     *uint32        `json:"local-preference,omitempty"`
	ASPath              []uint32       `json:"as-path,omitempty"`
	Communities         []string       `json:"community,omitempty"`
	LargeCommunities    []string       `json:"large-community,omitempty"`
	ExtendedCommunities []string       `json:"extended-community,omitempty"`
	Tag                 *tag           `json:"tag,omitzero"`
	Created             time.Time      `json:"created"`
	Expires             time.Time      `json:"expires,omitzero"`
	MissingPeers        []string       `json:"missing-peer,omitempty"`
	Principal           string         `json:"principal,omitempty"`
}

func (d Deps) route(r runs) {
	r["announce"] = d.announce
	r["withdraw"] = d.withdraw
	r["show-bgp-announcement"] = d.showAnnouncements
}

func (d Deps) announce(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		bgp.AnnounceRequest
		Tag tag `json:"tag"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	req := in.AnnounceRequest
	req.TagKey, req.TagValue, req.Principal = in.Tag.Key, in.Tag.Value, r.Principal.Name
	res, err := d.BGP.Announce(ctx, req)
	if err != nil {
		return nil, bgpError(err)
	}
	out := announceAnswer{ID: res.ID, Announced: res.Announced, Unchanged: res.Unchanged, Peers: res.Peers,
		Expires: res.Expires.UTC(), Pending: res.Pending}
	for _, t := range res.TakenOver {
		out.TakenOver = append(out.TakenOver, takenOver(t))
	}
	for _, n := range res.NotSentTo {
		out.NotSentTo = append(out.NotSentTo, notSentTo(n))
	}
	return out, nil
}

func (d Deps) withdraw(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		bgp.WithdrawRequest
		Tag tag `json:"tag"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	req := in.WithdrawRequest
	req.TagKey, req.TagValue = in.Tag.Key, in.Tag.Value
	res, err := d.BGP.Withdraw(ctx, req)
	if err != nil {
		return nil, bgpError(err)
	}
	type loss struct {
		ID        string `json:"id"`
		Withdrawn int    `json:"withdrawn"`
		Left      int    `json:"left"`
	}
	out := struct {
		Withdrawn     int    `json:"withdrawn"`
		Announcements []loss `json:"announcement"`
		Pending       bool   `json:"pending"`
	}{Withdrawn: res.Withdrawn, Pending: res.Pending}
	for _, a := range res.Announcements {
		out.Announcements = append(out.Announcements, loss(a))
	}
	return out, nil
}

func (d Deps) showAnnouncements(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		ID string `json:"id"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	all, err := d.BGP.Announcements(ctx, bgp.AnnouncementFilter{ID: in.ID})
	if err != nil {
		return nil, err
	}
	var out struct {
		Count         int                 `json:"count"`
		Announcements []announcementEntry `json:"announcement"`
	}
	for _, a := range all {
		most := shownPrefixes
		if in.ID != "" {
			most = len(a.Prefixes)
		}
		out.Announcements = append(out.Announcements, announcementView(a, most, d.BGP.Config()))
	}
	if in.ID != "" && len(out.Announcements) == 0 {
		return nil, &command.Error{Code: command.NotFound, Field: "id", Message: "no announcement " + in.ID,
			Actions: []string{"show bgp announcement"}}
	}
	out.Count = len(out.Announcements)
	return out, nil
}

func announcementView(a bgp.Announcement, most int, cfg *bgp.Config) announcementEntry {
	at := a.Attributes
	e := announcementEntry{ID: a.ID, PrefixCount: len(a.Prefixes), Prefixes: a.Prefixes[:min(most, len(a.Prefixes))], Peers: a.Peers,
		NextHop: "self", Origin: at.Origin, MED: at.MED, LocalPreference: at.LocalPreference, ASPath: at.ASPath,
		Communities: at.Communities, LargeCommunities: at.LargeCommunities, ExtendedCommunities: at.ExtendedCommunities,
		Created: a.Created.UTC(), Expires: a.Expires.UTC(), Principal: a.Principal}
	if at.NextHop.IsValid() {
		e.NextHop = at.NextHop.String()
	}
	for _, name := range a.Peers {
		if cfg == nil || !slices.ContainsFunc(cfg.Peers, func(p bgp.PeerConfig) bool { return p.Name == name }) {
			e.MissingPeers = append(e.MissingPeers, name)
		}
	}
	if a.TagKey != "" {
		e.Tag = &tag{a.TagKey, a.TagValue}
	}
	return e
}

// bgpError gives an error of the BGP room its code, the field as the command's
// caller wrote it, and what to do next.
func bgpError(err error) error {
	e := &command.Error{Code: command.Internal, Message: err.Error(), Err: err}
	var field *bgp.FieldError
	if errors.As(err, &field) {
		e.Field, e.Message, e.Allowed = callerField(field.Field), field.Problem, field.Allowed
	}
	switch {
	case errors.Is(err, bgp.ErrNotFound):
		e.Code = command.NotFound
		e.Actions = []string{"show bgp", "show bgp announcement"}
	case errors.Is(err, bgp.ErrInvalid):
		e.Code = command.Invalid
	case errors.Is(err, bgp.ErrState):
		e.Code = command.Conflict
		e.Actions = []string{"show bgp"}
	case errors.Is(err, bgp.ErrUnavailable):
		e.Code = command.Unavailable
		e.Actions = []string{"try again in a few seconds", "show status"}
	case field == nil:
		return err
	}
	return e
}

// callerField turns the BGP room's flat tag fields into the command's container.
func callerField(f string) string {
	if sub, ok := strings.CutPrefix(f, "tag-"); ok {
		return "tag." + sub
	}
	return f
}
