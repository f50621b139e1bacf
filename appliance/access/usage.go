package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const usageEvery = time.Minute

// Usage remembers when tokens were used last. It costs a call no write: the
// times are kept in the store once a minute, and at the end.
type Usage struct {
	store TokenStore
	log   zerolog.Logger
	stop  chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	times map[[32]byte]time.Time // not yet kept
}

// NewUsage returns a Usage that has not been started.
func NewUsage(store TokenStore, log zerolog.Logger) *Usage {
	return &Usage{store: store, log: log, stop: make(chan struct{}), done: make(chan struct{}), times: map[[32]byte]time.Time{}}
}

// Start begins keeping. Call it once, and Stop after it.
func (u *Usage) Start() {
	go func() {
		defer close(u.done)
		tick := time.NewTicker(usageEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := u.flush(context.Background()); err != nil {
					u.log.Error().Err(err).Msg("last use of tokens not kept; trying again in a minute")
				}
			case <-u.stop:
				return
			}
		}
	}()
}

// Stop keeps what is not kept yet.
func (u *Usage) Stop(ctx context.Context) error {
	close(u.stop)
	<-u.done
	return u.flush(ctx)
}

// Latest returns when the token with this digest was used last, as far as it is
// not in the store yet; zero if it was not.
func (u *Usage) Latest(digest [32]byte) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.times[digest]
}

func (u *Usage) used(digest [32]byte, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.times[digest] = at
}

func (u *Usage) flush(ctx context.Context) error {
	u.mu.Lock()
	times := u.times
	u.times = map[[32]byte]time.Time{}
	u.mu.Unlock()
	if len(times) == 0 {
		return nil
	}
	err := u.store.UseTokens(ctx, times)
	if err == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for digest, at := range times {
		if _, newer := u.times[digest]; !newer {
			u.times[digest] = at
		}
	}
	return fmt.Errorf("keep the last use of %d tokens: %w", len(times), err)
}
