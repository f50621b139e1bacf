package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ze.internal/ze/appliance/schema"
)

const (
	maxTag      = 64
	maxLifetime = 365 * 24 * time.Hour

	durationForm = "a whole number and a unit s, m, h or d, from 1s to 365d, for example 90s, 15m, 2h or 1d"
)

// AnnounceRequest is one announce call, values as the caller wrote them. Its
// JSON names are the command's parameters.
type AnnounceRequest struct {
	Prefixes            []string `json:"prefixes"`
	NextHop             string   `json:"next-hop"` // address or self; empty: self
	Origin              string   `json:"origin"`   // empty: igp
	MED                 *uint32  `json:"med"`
	LocalPreference     *uint32  `json:"local-preference"`
	ASPath              []uint32 `json:"as-path"`
	Communities         []string `json:"community"`
	LargeCommunities    []string `json:"large-community"`
	ExtendedCommunities []string `json:"extended-community"`
	Peers               []string `json:"peer"` // names; empty: every peer
	TagKey              string   `json:"tag-key"`
	TagValue            string   `json:"tag-value"`
	For                 string   `json:"for"` // lifetime, "90s" or "90"; empty: until withdrawn
	AllowDefault        bool     `json:"allow-default"`

	Principal string `json:"-"` // who announces; set by the caller of Announce, never by the request
}

// AnnounceResult answers an announce call.
type AnnounceResult struct {
	ID        string      `json:"id"`
	Announced int         `json:"announced"`  // prefixes
	Unchanged int         `json:"unchanged"`  // of those, announced before with the same attributes and peers
	TakenOver []TakenOver `json:"taken-over"` // earlier announcements that owned some of them
	Peers     []string    `json:"peers"`      // names of the peers it goes to
	NotSentTo []NotSentTo `json:"not-sent-to"`
	Expires   time.Time   `json:"expires,omitzero"`
	Pending   bool        `json:"pending"` // the speaker is not running now; it is sent when it is back
}

// TakenOver counts the prefixes an earlier announcement owns no longer.
type TakenOver struct {
	ID       string `json:"id"`
	Prefixes int    `json:"prefixes"`
}

// NotSentTo says why a selected peer will not have the routes, or those of one family.
type NotSentTo struct {
	Peer   string `json:"peer"`
	Reason string `json:"reason"`
}

// WithdrawRequest is one withdraw call: exactly one of Prefixes, TagKey, ID and All.
type WithdrawRequest struct {
	Prefixes []string `json:"prefixes"`
	TagKey   string   `json:"tag-key"`
	TagValue string   `json:"tag-value"` // with TagKey; empty: any value
	ID       string   `json:"id"`
	All      bool     `json:"all"`
}

// WithdrawResult answers a withdraw call.
type WithdrawResult struct {
	Withdrawn     int         `json:"withdrawn"` // prefixes
	Announcements []Withdrawn `json:"announcements"`
	Pending       bool        `json:"pending"` // the speaker is not running; it comes back without them
}

// Withdrawn counts what one announcement lost and still owns.
type Withdrawn struct {
	ID        string `json:"id"`
	Withdrawn int    `json:"withdrawn"`
	Left      int    `json:"left"`
}

// check turns a request into the announcement it asks for, without identity and
// times, and its lifetime; or returns a *FieldError.
func (r *AnnounceRequest) check(cfg *Config, limit int) (Announcement, time.Duration, error) {
	var a Announcement
	prefixes, err := parsePrefixes(r.Prefixes, limit)
	if err != nil {
		return a, 0, err
	}
	for i, p := range prefixes {
		if err := checkAnnounceable(fmt.Sprintf("prefixes[%d]", i), p, r.AllowDefault); err != nil {
			return a, 0, err
		}
	}
	attributes, err := r.attributes()
	if err != nil {
		return a, 0, err
	}
	if err := checkPeerNames(r.Peers, cfg); err != nil {
		return a, 0, err
	}
	if err := r.checkReach(&attributes, prefixes, cfg); err != nil {
		return a, 0, err
	}
	if err := checkTag(r.TagKey, r.TagValue); err != nil {
		return a, 0, err
	}
	lifetime, err := parseLifetime(r.For)
	if err != nil {
		return a, 0, err
	}
	a = Announcement{
		Prefixes: prefixes, Attributes: attributes, Peers: slices.Sorted(slices.Values(r.Peers)),
		TagKey: r.TagKey, TagValue: r.TagValue, Principal: r.Principal,
	}
	slices.SortFunc(a.Prefixes, netip.Prefix.Compare)
	return a, lifetime, nil
}

func (r *AnnounceRequest) attributes() (Attributes, error) {
	a := Attributes{
		Origin: r.Origin, MED: r.MED, LocalPreference: r.LocalPreference, ASPath: r.ASPath,
		Communities: r.Communities, LargeCommunities: r.LargeCommunities, ExtendedCommunities: r.ExtendedCommunities,
	}
	if r.NextHop == "" || r.NextHop == "self" {
		a.NextHopSelf = true
	} else {
		hop, err := netip.ParseAddr(r.NextHop)
		if err != nil {
			return a, &FieldError{Field: "next-hop", Problem: fmt.Sprintf("%q is no address", r.NextHop), Allowed: "self or an address, for example 192.0.2.1", Err: ErrInvalid}
		}
		a.NextHop = hop
	}
	if err := a.Validate(); err != nil {
		return a, err
	}
	return a.canonical()
}

func checkPeerNames(names []string, cfg *Config) error {
	seen := make(map[string]int, len(names))
	for i, name := range names {
		field := fmt.Sprintf("peer[%d]", i)
		if cfg.peer(name) == nil {
			return unknownPeer(field, name, cfg)
		}
		if j, twice := seen[name]; twice {
			return &FieldError{Field: field, Problem: fmt.Sprintf("%q is the same as peer[%d]", name, j), Allowed: "each peer once", Err: ErrInvalid}
		}
		seen[name] = i
	}
	return nil
}

func unknownPeer(field, name string, cfg *Config) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf("no peer is called %q", name), Allowed: knownNames(name, cfg.peerNames()), Err: ErrNotFound}
}

// checkReach refuses a next hop that does not suit the prefixes, or a peer they
// would be sent to, and named peers that can have none of them.
func (r *AnnounceRequest) checkReach(a *Attributes, prefixes []netip.Prefix, cfg *Config) error {
	if a.NextHop.IsValid() {
		for i, p := range prefixes {
			if p.Addr().Is4() != a.NextHop.Is4() {
				return &FieldError{
					Field: "next-hop", Problem: fmt.Sprintf("%q is not of the family of prefixes[%d] %s", a.NextHop, i, p),
					Allowed: "a next hop of the prefixes' family; announce IPv4 and IPv6 prefixes in calls of their own", Err: ErrInvalid,
				}
			}
		}
	}
	families := familiesOf(prefixes)
	for i, name := range r.Peers {
		if p := cfg.peer(name); !slices.ContainsFunc(families, p.carries) {
			return &FieldError{
				Field: fmt.Sprintf("peer[%d]", i), Problem: fmt.Sprintf("%s is not configured on the session with %q", families[0], name),
				Allowed: fmt.Sprintf("a peer that carries %s", families[0]), Err: ErrInvalid,
			}
		}
	}
	for _, p := range cfg.selected(r.Peers) {
		for _, f := range families {
			if why := p.refuses(f, a); why != "" && p.carries(f) {
				if r.NextHop == "" {
					why = "none given, and " + why
				}
				return &FieldError{Field: "next-hop", Problem: why, Allowed: nextHopForm(f) + ", or name other peers", Err: ErrInvalid}
			}
		}
	}
	return nil
}

func nextHopForm(f Family) string {
	if f == IPv4Unicast {
		return "an IPv4 address that routers can forward to, for example 192.0.2.1"
	}
	return "an IPv6 address that routers can forward to, for example 2001:db8::1"
}

// familiesOf returns the families prefixes belong to, IPv4 first.
func familiesOf(prefixes []netip.Prefix) []Family {
	var families []Family
	for _, f := range [...]Family{IPv4Unicast, IPv6Unicast} {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return FamilyOf(p.Addr()) == f }) {
			families = append(families, f)
		}
	}
	return families
}

func checkTag(key, value string) error {
	if key == "" && value != "" {
		return &FieldError{Field: "tag-key", Problem: "is missing while tag-value is given", Allowed: "a key, for example ticket", Err: ErrInvalid}
	}
	for _, t := range [...]struct{ field, text string }{{"tag-key", key}, {"tag-value", value}} {
		if n := utf8.RuneCountInString(t.text); n > maxTag || !printable(t.text) {
			return &FieldError{Field: t.field, Problem: fmt.Sprintf("%.80q with %d characters is no tag", t.text, n), Allowed: fmt.Sprintf("at most %d printable characters, for example ticket", maxTag), Err: ErrInvalid}
		}
	}
	return nil
}

// printable reports whether text can be shown as it is.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
}

// parseLifetime reads the for parameter; 0 stands for no end.
func parseLifetime(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := schema.ParseDuration(text)
	if err != nil || d < time.Second || d > maxLifetime {
		return 0, &FieldError{Field: "for", Problem: fmt.Sprintf("%q is no lifetime", text), Allowed: durationForm, Err: ErrInvalid}
	}
	return d, nil
}

// check refuses a request that does not use exactly one selector.
func (r *WithdrawRequest) check() error {
	selectors := 0
	for _, used := range [...]bool{len(r.Prefixes) > 0, r.TagKey != "", r.ID != "", r.All} {
		if used {
			selectors++
		}
	}
	if r.TagValue != "" && r.TagKey == "" {
		return &FieldError{Field: "tag-key", Problem: "is missing while tag-value is given", Allowed: "a key, for example ticket", Err: ErrInvalid}
	}
	if selectors != 1 {
		return &FieldError{
			Field: "prefixes", Problem: fmt.Sprintf("%d of prefixes, tag, id and all are given", selectors),
			Allowed: "exactly one of them, for example prefixes [ 192.0.2.0/24 ]", Err: ErrInvalid,
		}
	}
	return nil
}
