package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

const (
	maxRIBLimit     = 10_000
	defaultRIBLimit = 1000

	maxReason = 255 // octets of a shutdown communication (RFC 9003)
)

// AnnouncementFilter selects announcements; fields left empty select all.
type AnnouncementFilter struct {
	ID       string       `json:"id"`
	TagKey   string       `json:"tag-key"`
	TagValue string       `json:"tag-value"` // with TagKey; empty: any value
	Peer     string       `json:"peer"`      // those that select this peer, by name or as one of all
	Prefix   netip.Prefix `json:"prefix"`    // the one that owns it
}

// Announcements returns what is announced, oldest first. The slices inside are
// shared and must not be modified.
func (s *Service) Announcements(_ context.Context, f AnnouncementFilter) ([]Announcement, error) {
	if f.Peer != "" {
		if _, err := s.knownPeer(f.Peer); err != nil {
			return nil, err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := []Announcement{}
	for id, a := range s.held {
		if (f.ID == "" || f.ID == id) &&
			(f.TagKey == "" || a.tagged(f.TagKey, f.TagValue)) &&
			(f.Peer == "" || len(a.Peers) == 0 || slices.Contains(a.Peers, f.Peer)) &&
			(!f.Prefix.IsValid() || s.owner[f.Prefix] == id) {
			list = append(list, *a)
		}
	}
	slices.SortFunc(list, func(a, b Announcement) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// knownPeer returns the configured peer called name, or a *FieldError wrapping ErrNotFound.
func (s *Service) knownPeer(name string) (*PeerConfig, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	if p := cfg.peer(name); p != nil {
		return p, nil
	}
	return nil, unknownPeer("peer", name, cfg)
}

// Peers returns every configured peer, in configuration order. While the
// speaker does not answer, each is idle with a LastError that says so.
func (s *Service) Peers(ctx context.Context) ([]PeerStatus, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	list, err := s.ask(ctx, cfg, readTimeout)
	if err == nil || errors.Is(err, ErrUnavailable) {
		return list, nil
	}
	return nil, err
}

// errSilent is the kind of ErrUnavailable that says nothing of the sessions: the
// speaker runs, and has not answered in time.
var errSilent = fmt.Errorf("%w, or does not answer in time", ErrUnavailable)

// ask returns the peers of cfg as the speaker sees them. A speaker that does
// not answer in time counts as not running; the list is complete all the same.
func (s *Service) ask(ctx context.Context, cfg *Config, limit time.Duration) ([]PeerStatus, error) {
	work, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	peers, err := s.o.Speaker.Peers(work)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	down := ""
	if errors.Is(err, ErrUnavailable) {
		down = "restarted by itself: " + err.Error()
	} else if err != nil {
		if work.Err() != nil {
			err = errSilent
		}
		down = "the bgp speaker does not answer"
		err = fmt.Errorf("ask the bgp speaker for its peers: %w", err)
	}
	live := make(map[string]PeerStatus, len(peers))
	for _, p := range peers {
		live[p.Name] = p
	}
	list := make([]PeerStatus, len(cfg.Peers))
	for i := range cfg.Peers {
		p, known := live[cfg.Peers[i].Name]
		if !known {
			p = cfg.Peers[i].idle(down)
		}
		list[i] = p
	}
	return list, err
}

// idle is the status of a peer nothing is known of.
func (p *PeerConfig) idle(lastError string) PeerStatus {
	status := PeerStatus{
		Name: p.Name, Address: p.Remote.IP, AS: p.Remote.AS,
		State: "idle", Admin: "enabled", LastError: lastError,
		Families: make([]FamilyStatus, len(p.Families)),
	}
	for i, f := range p.Families {
		status.Families[i].Family = f.Name
	}
	return status
}

// Peer returns one peer by name.
func (s *Service) Peer(ctx context.Context, name string) (PeerStatus, error) {
	if _, err := s.knownPeer(name); err != nil {
		return PeerStatus{}, err
	}
	peers, err := s.Peers(ctx)
	if err != nil {
		return PeerStatus{}, err
	}
	i := slices.IndexFunc(peers, func(p PeerStatus) bool { return p.Name == name })
	if i < 0 { // configured away meanwhile
		_, err := s.knownPeer(name)
		return PeerStatus{}, cmp.Or(err, ErrNotFound)
	}
	return peers[i], nil
}

// RIB reads one table. A family left out is that of the prefix, or the first
// one of the peer, or ipv4/unicast; a limit left out is 1000. more says that the
// answer continues after its last prefix (see RIBQuery.After).
func (s *Service) RIB(ctx context.Context, q RIBQuery) (routes []Route, more bool, err error) {
	cfg, err := s.config()
	if err != nil {
		return nil, false, err
	}
	if err := q.complete(cfg); err != nil {
		return nil, false, err
	}
	ask, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	routes, more, err = s.o.Speaker.RIB(ask, q)
	if err != nil {
		return nil, false, fmt.Errorf("read the %s table: %w", q.Table, err)
	}
	if routes == nil {
		routes = []Route{}
	}
	return routes, more, nil
}

// complete fills in what the caller left out and checks the rest.
func (q *RIBQuery) complete(cfg *Config) error {
	var peer *PeerConfig
	switch q.Table {
	case TableBest:
		if q.Peer != "" {
			return &FieldError{Field: "peer", Problem: fmt.Sprintf("%q: the best table is not that of one peer", q.Peer), Allowed: "no peer, or the table received or sent", Err: ErrInvalid}
		}
	case TableReceived, TableSent:
		if q.Peer == "" {
			return &FieldError{Field: "peer", Problem: fmt.Sprintf("the %s table is that of one peer, and none is given", q.Table), Allowed: knownNames("", cfg.peerNames()), Err: ErrInvalid}
		}
		if peer = cfg.peer(q.Peer); peer == nil {
			return unknownPeer("peer", q.Peer, cfg)
		}
	default:
		return &FieldError{Field: "table", Problem: fmt.Sprintf("%q is no table", q.Table), Allowed: "best, received or sent", Err: ErrInvalid}
	}
	if q.Family == "" {
		switch {
		case q.Prefix.IsValid():
			q.Family = FamilyOf(q.Prefix.Addr())
		case peer != nil:
			q.Family = peer.Families[0].Name
		default:
			q.Family = IPv4Unicast
		}
	}
	if !q.Family.known() {
		return &FieldError{Field: "family", Problem: fmt.Sprintf("%q is no family", q.Family), Allowed: "ipv4/unicast or ipv6/unicast", Err: ErrInvalid}
	}
	if peer != nil && !peer.carries(q.Family) {
		return &FieldError{Field: "family", Problem: fmt.Sprintf("%s is not configured on the session with %q", q.Family, q.Peer), Allowed: fmt.Sprintf("a family of that session: %s", peer.Families[0].Name), Err: ErrInvalid}
	}
	for _, p := range [...]struct {
		field  string
		prefix netip.Prefix
	}{{"prefix", q.Prefix}, {"after", q.After}} {
		if !p.prefix.IsValid() {
			continue
		}
		if _, err := parsePrefix(p.field, p.prefix.String()); err != nil {
			return err
		}
		if FamilyOf(p.prefix.Addr()) != q.Family {
			return &FieldError{Field: p.field, Problem: fmt.Sprintf("%q is not of family %s", p.prefix, q.Family), Allowed: "a prefix of that family", Err: ErrInvalid}
		}
	}
	if q.Longer && !q.Prefix.IsValid() {
		return &FieldError{Field: "longer", Problem: "true without a prefix", Allowed: "a prefix as well, for example 192.0.2.0/24", Err: ErrInvalid}
	}
	if q.Limit == 0 {
		q.Limit = defaultRIBLimit
	}
	if q.Limit < 1 || q.Limit > maxRIBLimit {
		return &FieldError{Field: "limit", Problem: fmt.Sprintf("%d routes", q.Limit), Allowed: fmt.Sprintf("1 to %d, default %d", maxRIBLimit, defaultRIBLimit), Err: ErrInvalid}
	}
	return nil
}

// Teardown resets the session with a peer; it comes back by itself. The peer is
// told the reason (RFC 9003).
func (s *Service) Teardown(ctx context.Context, peer, reason string) error {
	if _, err := s.knownPeer(peer); err != nil {
		return err
	}
	if len(reason) > maxReason || !printable(reason) {
		return &FieldError{Field: "reason", Problem: fmt.Sprintf("%.80q with %d octets is no reason", reason, len(reason)), Allowed: fmt.Sprintf("at most %d octets of printable text, for example maintenance", maxReason), Err: ErrInvalid}
	}
	ask, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.o.Speaker.Teardown(ask, peer, reason); err != nil {
		return fmt.Errorf("tear down the session with %s: %w", peer, err)
	}
	return nil
}
