package bgp

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// edit is one step of the store: announcements written and ids removed.
type edit struct {
	put    []*Announcement
	remove []string
}

// expired reports whether the lifetime of a has ended. Lifetimes are wall-clock
// time: they go on while the daemon is stopped.
func (a *Announcement) expired(now time.Time) bool {
	return !a.Expires.IsZero() && !now.Before(a.Expires)
}

// Announce checks the request, keeps it under a new identity and sends it. All
// of it happens or nothing. Prefixes announced before now belong to the new
// announcement; the old one keeps the rest, and is gone when nothing is left.
func (s *Service) Announce(ctx context.Context, r AnnounceRequest) (AnnounceResult, error) {
	if err := s.lockRunning(ctx); err != nil {
		return AnnounceResult{}, err
	}
	defer s.unlock()
	cfg, err := s.config()
	if err != nil {
		return AnnounceResult{}, err
	}
	a, lifetime, err := r.check(cfg, s.o.MaxPrefixes)
	if err != nil {
		return AnnounceResult{}, err
	}
	if a.ID, err = s.newID(); err != nil {
		return AnnounceResult{}, err
	}
	a.Created = s.o.Clock().UTC().Round(0)
	if lifetime > 0 {
		a.Expires = a.Created.Add(lifetime)
	}
	res := AnnounceResult{ID: a.ID, Announced: len(a.Prefixes), Expires: a.Expires}
	res.Peers, res.NotSentTo = cfg.audience(&a)
	e, err := s.takeOver(&a, &res)
	if err != nil {
		return AnnounceResult{}, err
	}
	if res.Pending, err = s.commit(ctx, e, a.Prefixes); err != nil {
		return AnnounceResult{}, fmt.Errorf("announce %d prefixes: %w", len(a.Prefixes), err)
	}
	if lifetime > 0 {
		s.wakeUp()
	}
	return res, nil
}

// audience lists the selected peers that get a, and says of the others why not.
func (c *Config) audience(a *Announcement) ([]string, []NotSentTo) {
	sent, not := []string{}, []NotSentTo{}
	families := familiesOf(a.Prefixes)
	for _, p := range c.selected(a.Peers) {
		some := false
		for _, f := range families {
			if why := p.skips(f, &a.Attributes); why != "" {
				not = append(not, NotSentTo{Peer: p.Name, Reason: why})
			} else {
				some = true
			}
		}
		if some {
			sent = append(sent, p.Name)
		}
	}
	return sent, not
}

// takeOver works out the edit that adds a and takes its prefixes from their owners.
func (s *Service) takeOver(a *Announcement, res *AnnounceResult) (edit, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	taken := map[string][]netip.Prefix{}
	for _, p := range a.Prefixes {
		if id, owned := s.owner[p]; owned {
			taken[id] = append(taken[id], p)
		}
	}
	e := edit{put: []*Announcement{a}}
	res.TakenOver = []TakenOver{}
	total := len(s.owner) + len(a.Prefixes)
	for _, id := range slices.Sorted(maps.Keys(taken)) {
		from, n := s.held[id], len(taken[id])
		total -= n
		res.TakenOver = append(res.TakenOver, TakenOver{ID: id, Prefixes: n})
		if from.Attributes.equal(&a.Attributes) && slices.Equal(from.Peers, a.Peers) {
			res.Unchanged += n
		}
		e.lose(from, taken[id])
	}
	if total > s.o.MaxPrefixes {
		return e, &FieldError{
			Field: "prefixes", Problem: fmt.Sprintf("%d prefixes would be announced together", total),
			Allowed: fmt.Sprintf("at most %d; withdraw some first", s.o.MaxPrefixes), Err: ErrInvalid,
		}
	}
	return e, nil
}

// lose records that a no longer owns the given prefixes, and returns how many
// are left. Both lists are in order.
func (e *edit) lose(a *Announcement, prefixes []netip.Prefix) (left int) {
	rest := make([]netip.Prefix, 0, len(a.Prefixes)-len(prefixes))
	for _, p := range a.Prefixes {
		if len(prefixes) > 0 && p == prefixes[0] {
			prefixes = prefixes[1:]
			continue
		}
		rest = append(rest, p)
	}
	if len(rest) == 0 {
		e.remove = append(e.remove, a.ID)
		return 0
	}
	trimmed := *a
	trimmed.Prefixes = rest
	e.put = append(e.put, &trimmed)
	return len(rest)
}

// Withdraw takes back prefixes: given ones, those an announcement still owns,
// those under a tag, or all. All of it happens or nothing; what is not
// announced is a *FieldError wrapping ErrNotFound.
func (s *Service) Withdraw(ctx context.Context, r WithdrawRequest) (WithdrawResult, error) {
	if err := r.check(); err != nil {
		return WithdrawResult{}, err
	}
	if err := s.lockRunning(ctx); err != nil {
		return WithdrawResult{}, err
	}
	defer s.unlock()
	lost, err := s.selection(&r)
	if err != nil {
		return WithdrawResult{}, err
	}
	var e edit
	var prefixes []netip.Prefix
	res := WithdrawResult{Announcements: []Withdrawn{}}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		left := e.lose(s.held[id], lost[id])
		prefixes = append(prefixes, lost[id]...)
		res.Announcements = append(res.Announcements, Withdrawn{ID: id, Withdrawn: len(lost[id]), Left: left})
	}
	res.Withdrawn = len(prefixes)
	if len(prefixes) == 0 {
		return res, nil
	}
	if res.Pending, err = s.commit(ctx, e, prefixes); err != nil {
		return WithdrawResult{}, fmt.Errorf("withdraw %d prefixes: %w", len(prefixes), err)
	}
	return res, nil
}

// selection returns the prefixes a request selects, in order, by the id of
// their announcement.
func (s *Service) selection(r *WithdrawRequest) (map[string][]netip.Prefix, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	lost := map[string][]netip.Prefix{}
	if len(r.Prefixes) > 0 {
		prefixes, err := parsePrefixes(r.Prefixes, s.o.MaxPrefixes)
		if err != nil {
			return nil, err
		}
		for i, p := range prefixes {
			id, owned := s.owner[p]
			if !owned {
				return nil, &FieldError{
					Field: fmt.Sprintf("prefixes[%d]", i), Problem: fmt.Sprintf("%q is not announced; nothing was withdrawn", p),
					Allowed: "prefixes that show bgp announcement lists", Err: ErrNotFound,
				}
			}
			lost[id] = append(lost[id], p)
		}
		for _, list := range lost {
			slices.SortFunc(list, netip.Prefix.Compare)
		}
		return lost, nil
	}
	for id, a := range s.held {
		if r.All || id == r.ID || r.TagKey != "" && a.tagged(r.TagKey, r.TagValue) {
			lost[id] = a.Prefixes
		}
	}
	if len(lost) == 0 && r.ID != "" {
		return nil, &FieldError{Field: "id", Problem: fmt.Sprintf("no announcement has the id %q", r.ID), Allowed: s.knownIDs(), Err: ErrNotFound}
	}
	if len(lost) == 0 && r.TagKey != "" {
		return nil, &FieldError{Field: "tag-key", Problem: fmt.Sprintf("no announcement is tagged %q", strings.TrimSpace(r.TagKey+" "+r.TagValue)), Allowed: s.knownTags(), Err: ErrNotFound}
	}
	return lost, nil
}

func (a *Announcement) tagged(key, value string) bool {
	return a.TagKey == key && (value == "" || a.TagValue == value)
}

func (s *Service) knownIDs() string {
	return known("nothing is announced", slices.Sorted(maps.Keys(s.held)))
}

func (s *Service) knownTags() string {
	tags := map[string]bool{}
	for _, a := range s.held {
		if a.TagKey != "" {
			tags[strings.TrimSpace(a.TagKey+" "+a.TagValue)] = true
		}
	}
	return known("no announcement has a tag", slices.Sorted(maps.Keys(tags)))
}

// newID draws an identity: short enough to type, too many to meet by chance.
func (s *Service) newID() (string, error) {
	var b [10]byte
	for {
		if _, err := io.ReadFull(s.o.Rand, b[:]); err != nil {
			return "", fmt.Errorf("draw an announcement id: %w", err)
		}
		id := "a" + strings.ToLower(base32.StdEncoding.EncodeToString(b[:])[:10])
		if s.held[id] == nil {
			return id, nil
		}
	}
}

// commit carries out an edit: durable first, then at the speaker. prefixes are
// those whose path it changes. What the speaker refuses is undone; a speaker
// that does not run is no failure, it takes everything when it starts.
func (s *Service) commit(ctx context.Context, e edit, prefixes []netip.Prefix) (pending bool, err error) {
	undo := s.inverse(e)
	if err := s.keep(ctx, e); err != nil {
		return false, err
	}
	// From here on the change is carried through, whatever becomes of the caller.
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancel()
	err = s.settle(work, prefixes)
	if err == nil || errors.Is(err, ErrUnavailable) {
		return err != nil, nil
	}
	back, cancelBack := context.WithTimeout(context.WithoutCancel(ctx), workTimeout)
	defer cancelBack()
	if kerr := s.keep(back, undo); kerr != nil {
		return false, fmt.Errorf("%w; and it could not be undone: %w", err, kerr)
	}
	return false, errors.Join(err, available(s.settle(back, prefixes)))
}

var errNotKept = errors.New("keep announcements")

// keep makes an edit durable, then known here.
func (s *Service) keep(ctx context.Context, e edit) error {
	put := make([]Announcement, len(e.put))
	for i, a := range e.put {
		put[i] = *a
	}
	if err := s.o.Store.ReplaceAnnouncements(ctx, put, e.remove); err != nil {
		return fmt.Errorf("%w: %w", errNotKept, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range e.remove {
		s.release(id)
	}
	for _, a := range e.put {
		s.release(a.ID)
	}
	for _, a := range e.put {
		s.hold(a)
	}
	return nil
}

// hold and release keep held and owner in step.
func (s *Service) hold(a *Announcement) {
	s.held[a.ID] = a
	for _, p := range a.Prefixes {
		s.owner[p] = a.ID
	}
}

func (s *Service) release(id string) {
	a := s.held[id]
	if a == nil {
		return
	}
	delete(s.held, id)
	for _, p := range a.Prefixes {
		delete(s.owner, p)
	}
}

// inverse returns the edit that undoes e.
func (s *Service) inverse(e edit) edit {
	var undo edit
	restore := func(id string) {
		if a := s.held[id]; a != nil {
			undo.put = append(undo.put, a)
		} else {
			undo.remove = append(undo.remove, id)
		}
	}
	for _, a := range e.put {
		restore(a.ID)
	}
	for _, id := range e.remove {
		restore(id)
	}
	return undo
}
