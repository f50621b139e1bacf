package bgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// settle makes the speaker have for each of prefixes what the store says: the
// path of its announcement, or none. Where that is missed the prefixes stay
// marked and the loop tries again. The caller holds the change lock.
func (s *Service) settle(ctx context.Context, prefixes []netip.Prefix) error {
	if len(prefixes) == 0 {
		return nil
	}
	announce, withdraw := s.wanted(prefixes)
	var err error
	if len(withdraw) > 0 {
		err = s.o.Speaker.Withdraw(ctx, withdraw)
	}
	if err == nil && len(announce) > 0 {
		err = s.o.Speaker.Announce(ctx, announce)
	}
	s.mark(prefixes, err)
	return err
}

// wanted sorts prefixes into the paths the speaker is to have and the rest.
func (s *Service) wanted(prefixes []netip.Prefix) (announce []Path, withdraw []netip.Prefix) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	byID := map[string][]netip.Prefix{}
	for _, p := range prefixes {
		if id, owned := s.owner[p]; owned && s.cfg != nil {
			byID[id] = append(byID[id], p)
		} else {
			withdraw = append(withdraw, p)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		paths, none := s.cfg.paths(s.held[id], byID[id])
		announce = append(announce, paths...)
		withdraw = append(withdraw, none...)
	}
	return announce, withdraw
}

// mark remembers whether the speaker has what it should, and logs when that changes.
func (s *Service) mark(prefixes []netip.Prefix, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.unsettled)
	for _, p := range prefixes {
		if missed(err) {
			s.unsettled[p] = true
		} else {
			delete(s.unsettled, p)
		}
	}
	switch after := len(s.unsettled); {
	case before == 0 && after > 0:
		s.wakeUp()
		s.o.Logger.Error().Err(err).Int("prefixes", after).Msg("bgp speaker may differ from the announcements kept; will be tried again")
	case before > 0 && after == 0:
		s.o.Logger.Info().Msg("bgp speaker agrees with the announcements kept again")
	}
}

// wakeUp makes the loop look anew.
func (s *Service) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// watch ends lifetimes and repeats what failed until ctx ends.
func (s *Service) watch(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	var failure error
	var retry time.Time // when to repeat what failed; zero: nothing failed
	for {
		if retry.IsZero() && (failure != nil || s.differs()) {
			retry = s.o.Clock().Add(retryInterval)
		}
		timer := time.NewTimer(s.pause(retry))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-s.wake:
			timer.Stop()
			continue
		case <-timer.C:
		}
		err := s.tend(ctx)
		if err != nil && failure == nil && ctx.Err() == nil {
			s.o.Logger.Error().Err(err).Msg("bgp announcements could not be tended; will be tried again")
		}
		failure, retry = err, time.Time{}
	}
}

// tend does once what watch is for.
func (s *Service) tend(ctx context.Context) error {
	if err := s.lockRunning(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return errors.Join(s.expire(ctx), s.repeat(ctx))
}

// differs reports whether the speaker may differ from what it should be.
func (s *Service) differs() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.unsettled) > 0 || s.unapplied
}

// pause returns how long the loop may sleep: until retry if that is set, else
// until the next end of a lifetime. Never long: lifetimes are wall-clock time,
// and that clock can be set.
func (s *Service) pause(retry time.Time) time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pause, now := time.Minute, s.o.Clock()
	if !retry.IsZero() {
		return min(pause, max(0, retry.Sub(now)))
	}
	for _, a := range s.held {
		if !a.Expires.IsZero() {
			pause = min(pause, max(0, a.Expires.Sub(now)))
		}
	}
	return pause
}

// expire withdraws the announcements whose lifetime has ended: what they still
// own, nothing else. The caller holds the change lock.
func (s *Service) expire(ctx context.Context) error {
	var e edit
	var prefixes []netip.Prefix
	now := s.o.Clock()
	for id, a := range s.held {
		if a.expired(now) {
			e.remove = append(e.remove, id)
			prefixes = append(prefixes, a.Prefixes...)
		}
	}
	if len(e.remove) == 0 {
		return nil
	}
	slices.Sort(e.remove)
	if _, err := s.commit(ctx, e, prefixes); err != nil {
		if errors.Is(err, errNotKept) {
			// A disk that takes nothing must not keep a route on the air: what has
			// expired is left out of every replay, so the speaker may drop it now.
			err = errors.Join(err, available(s.o.Speaker.Withdraw(ctx, prefixes)))
		}
		return fmt.Errorf("withdraw %d expired announcements: %w", len(e.remove), err)
	}
	s.o.Logger.Info().Strs("ids", e.remove).Int("prefixes", len(prefixes)).Msg("announcements expired")
	return nil
}

// repeat tries again what the speaker could not do before. The caller holds the
// change lock.
func (s *Service) repeat(ctx context.Context) error {
	s.mu.RLock()
	prefixes := slices.SortedFunc(maps.Keys(s.unsettled), netip.Prefix.Compare)
	cfg, unapplied := s.cfg, s.unapplied
	s.mu.RUnlock()
	work, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	var err error
	if unapplied && cfg != nil {
		err = available(s.apply(work, cfg))
	}
	return errors.Join(err, available(s.settle(work, prefixes)))
}
