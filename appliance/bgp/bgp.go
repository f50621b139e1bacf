// Package bgp holds peers and announcements in ze's own types. It owns what is
// announced (identity, ownership of prefixes, lifetime), validates every value
// before it crosses to the speaker, and replays announcements when the speaker
// returns. It must not know GoBGP: the Speaker interface is the boundary.
package bgp

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Family is an address family as written in configuration and commands.
type Family string

// Supported families.
const (
	IPv4Unicast Family = "ipv4/unicast"
	IPv6Unicast Family = "ipv6/unicast"
)

// Families returns the supported families.
func Families() []Family { return []Family{IPv4Unicast, IPv6Unicast} }

// Config is the whole BGP configuration, validated (see Config.Validate). The
// JSON names are those of the configuration model.
type Config struct {
	RouterID netip.Addr   `json:"router-id"`
	Local    LocalConfig  `json:"local"`
	Listen   ListenConfig `json:"listen"`
	Peers    []PeerConfig `json:"peer"`
}

// LocalConfig is our side of every session.
type LocalConfig struct {
	AS uint32     `json:"as"`
	IP netip.Addr `json:"ip"` // per peer only: source address; zero: the system chooses
}

// ListenConfig is the one BGP listener; a zero IP means none.
type ListenConfig struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port"` // default 179
}

// PeerConfig describes one neighbour. Name is our key and never crosses to the peer.
type PeerConfig struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Remote      RemoteConfig   `json:"remote"`
	Local       LocalConfig    `json:"local"`
	Password    string         `json:"password"` // TCP MD5 (RFC 2385); never returned by any read
	Passive     bool           `json:"passive"`
	Multihop    uint8          `json:"multihop"` // TTL; 0: directly connected
	Timer       TimerConfig    `json:"timer"`
	Families    []FamilyConfig `json:"family"`
}

// RemoteConfig is the neighbour's side of the session.
type RemoteConfig struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port"` // default 179
	AS   uint32     `json:"as"`
}

// TimerConfig holds session timers in seconds.
type TimerConfig struct {
	Hold         uint16 `json:"hold"`          // 3..65535, default 90 (RFC 4271 section 4.2)
	ConnectRetry uint16 `json:"connect-retry"` // default 5
}

// FamilyConfig enables a family on a session.
type FamilyConfig struct {
	Name        Family `json:"name"`
	PrefixLimit uint32 `json:"prefix-limit"` // 0: none
}

// Attributes are the path attributes an announcement carries (RFC 4271 section 5,
// RFC 1997, RFC 4360, RFC 8092).
type Attributes struct {
	Origin              string     `json:"origin,omitempty"`        // igp, egp or incomplete
	NextHop             netip.Addr `json:"next-hop,omitzero"`       // exactly one of NextHop and NextHopSelf
	NextHopSelf         bool       `json:"next-hop-self,omitempty"` // the session's own address
	MED                 *uint32    `json:"med,omitempty"`
	LocalPreference     *uint32    `json:"local-preference,omitempty"`
	ASPath              []uint32   `json:"as-path,omitempty"`            // our own AS is prepended towards eBGP peers
	Communities         []string   `json:"community,omitempty"`          // "64512:10" or a well-known name
	LargeCommunities    []string   `json:"large-community,omitempty"`    // "4200000001:1:2"
	ExtendedCommunities []string   `json:"extended-community,omitempty"` // "target:64512:300", "origin:64512:300"
}

// Announcement is one announce call as it is kept: one id, the prefixes it
// still owns, and where they go.
type Announcement struct {
	ID         string         `json:"id"`
	Prefixes   []netip.Prefix `json:"prefixes"` // the prefixes it still owns, sorted
	Attributes Attributes     `json:"attributes"`
	Peers      []string       `json:"peers,omitempty"` // names; empty: every peer, those configured later included
	TagKey     string         `json:"tag-key,omitempty"`
	TagValue   string         `json:"tag-value,omitempty"`
	Created    time.Time      `json:"created"`
	Expires    time.Time      `json:"expires,omitzero"`
	Principal  string         `json:"principal,omitempty"` // who announced it
}

// Store is what this package needs kept. ReplaceAnnouncements is one atomic
// step, durable when it returns: every announcement in put is written whole,
// every id in remove is gone.
type Store interface {
	Announcements(ctx context.Context) ([]Announcement, error) // sorted by Created, then ID
	ReplaceAnnouncements(ctx context.Context, put []Announcement, remove []string) error
}

// PeerStatus is what the speaker knows of one neighbour.
type PeerStatus struct {
	Name       string         `json:"name"`
	Address    netip.Addr     `json:"address"`
	AS         uint32         `json:"remote-as"`
	State      string         `json:"state"`     // idle connect active open-sent open-confirm established
	Admin      string         `json:"admin"`     // enabled disabled prefix-limit
	Uptime     time.Duration  `json:"uptime-ns"` // since established; 0 otherwise
	RouterID   netip.Addr     `json:"router-id,omitzero"`
	HoldTime   time.Duration  `json:"hold-time-ns"` // negotiated; 0 unless established
	Families   []FamilyStatus `json:"families"`
	Flaps      uint32         `json:"flaps"`
	LastDown   string         `json:"last-down,omitempty"`  // reason of the last session loss
	LastError  string         `json:"last-error,omitempty"` // last failed attempt to connect
	UpdatesIn  uint64         `json:"updates-in"`
	UpdatesOut uint64         `json:"updates-out"`
}

// StateEstablished is the PeerStatus.State of a session that carries routes.
const StateEstablished = "established"

// FamilyStatus counts the routes of one family on one session.
type FamilyStatus struct {
	Family   Family `json:"family"`
	Received uint64 `json:"received"` // routes in Adj-RIB-In
	Sent     uint64 `json:"sent"`     // routes of ours the peer should have; 0 unless established
}

// RIBTable names a routing table (RFC 4271 section 3.2).
type RIBTable string

// The tables a RIBQuery can read.
const (
	TableBest     RIBTable = "best"     // Loc-RIB
	TableReceived RIBTable = "received" // Adj-RIB-In of a peer
	TableSent     RIBTable = "sent"     // Adj-RIB-Out of a peer
)

// RIBQuery selects routes. Results are ordered by address, then prefix length.
type RIBQuery struct {
	Table  RIBTable     `json:"table"`
	Peer   string       `json:"peer"` // required for received and sent
	Family Family       `json:"family"`
	Prefix netip.Prefix `json:"prefix,omitzero"` // exact match; zero: all
	Longer bool         `json:"longer"`          // with Prefix: it and everything inside it
	After  netip.Prefix `json:"after,omitzero"`  // continue after this prefix
	Limit  int          `json:"limit"`           // 1..10000
}

// Route is one path to one prefix.
type Route struct {
	Prefix     netip.Prefix  `json:"prefix"`
	Peer       string        `json:"peer,omitempty"` // learned from; "" if announced here
	Best       bool          `json:"best"`
	Stale      bool          `json:"stale,omitempty"`
	Age        time.Duration `json:"age-ns"`
	Attributes Attributes    `json:"attributes"`
}

// Path is one prefix with its attributes and the peers it may go to, as it
// crosses to the speaker. The speaker holds at most one path per prefix.
type Path struct {
	Prefixes   []netip.Prefix `json:"prefixes"`
	Attributes Attributes     `json:"attributes"`
	Peers      []string       `json:"peers,omitempty"` // empty: every peer
}

// Speaker is the boundary to the BGP engine. Values passed in are valid: the
// caller has checked them. Every method returns ErrUnavailable while the engine
// is starting or restarting.
type Speaker interface {
	// Apply makes the engine run cfg, changing only what differs.
	Apply(ctx context.Context, cfg Config) error
	// Announce installs paths, each replacing the path its prefixes had.
	Announce(ctx context.Context, paths []Path) error
	// Withdraw removes prefixes; unknown ones are ignored.
	Withdraw(ctx context.Context, prefixes []netip.Prefix) error
	Peers(ctx context.Context) ([]PeerStatus, error) // in configuration order
	RIB(ctx context.Context, q RIBQuery) (routes []Route, more bool, err error)
	// Teardown resets the session with Cease/Administrative Reset (RFC 4486);
	// it comes back by itself. reason is sent as shutdown communication (RFC 9003).
	Teardown(ctx context.Context, peer, reason string) error
}

// Errors a Speaker and a Service return; test with errors.Is.
var (
	ErrUnavailable = errors.New("bgp speaker is not running")
	ErrNotFound    = errors.New("not found")
	ErrInvalid     = errors.New("invalid")
	ErrState       = errors.New("not possible in this state")
)

// FieldError says which field of a request or configuration is wrong, and what
// is allowed there. It unwraps to ErrInvalid (or to ErrNotFound where Problem
// is that something named does not exist).
type FieldError struct {
	Field   string // "prefixes[3]", "next-hop", "peer[north]/remote/as"
	Problem string // what is wrong with the value, quoting it
	Allowed string // the allowed form, with an example
	Err     error  // ErrInvalid or ErrNotFound
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem + "; " + e.Allowed }

// Unwrap implements errors.Unwrap.
func (e *FieldError) Unwrap() error { return e.Err }
