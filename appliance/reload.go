package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
)

// state is the configuration in force and where it came from.
type state struct {
	cfg      *Configuration
	source   string // "store" or a file's name
	revision uint64 // in the store; 0 when it came from a file
}

// Reload makes the newest configuration the running one: the newest revision of
// the store, or the file read anew. It applies fully or changes nothing; either
// way the generation of ReloadStatus moves.
func (a *App) Reload(ctx context.Context) error {
	if a.stopping.Load() {
		return errStopping() // and the service manager has been told so
	}
	ctx = context.WithoutCancel(ctx) // a caller that goes away is no reason to refuse a configuration
	done := a.o.Reloading()
	defer func() { done(a.summary(ctx)) }()
	if a.o.File == "" {
		return a.reloadRevision(ctx)
	}
	a.reloading.Lock()
	defer a.reloading.Unlock()
	err := a.reload(ctx)
	a.processed(err)
	return err
}

func (a *App) reload(ctx context.Context) error {
	next, err := a.load(ctx)
	if err != nil {
		return err
	}
	return a.change(ctx, next)
}

// load reads the configuration and takes it through the start gate: the one to
// start from, or the file read anew.
func (a *App) load(ctx context.Context) (*state, error) {
	if a.o.File == "" {
		rev, err := a.config.Resume(ctx)
		if errors.Is(err, config.ErrNoRevision) {
			return nil, fmt.Errorf("%s holds no configuration (%w); finish its creation with: ze init", a.o.DataDir, err)
		}
		if err != nil {
			return nil, a.unreadable(ctx, err)
		}
		return a.revision(ctx, rev)
	}
	text := a.o.Text
	if a.o.Reread != nil && a.running.Load() != nil {
		var err error
		if text, err = a.o.Reread(); err != nil {
			return nil, err
		}
	}
	cfg, err := a.gate(ctx, a.o.File, text)
	return &state{cfg: cfg, source: a.o.File}, err
}

// change makes next the running configuration. Everything that can fail comes
// first: what is open and running stays until all of the new is ready.
func (a *App) change(ctx context.Context, next *state) error {
	if a.stopping.Load() {
		return errStopping()
	}
	options, err := a.authOptions(next.cfg)
	if err != nil {
		return err
	}
	credentials, err := options.Prepare()
	if err != nil {
		return err
	}
	level, err := a.logLevel(next.cfg)
	if err != nil {
		return err
	}
	wanted, err := a.wantedDoors(next.cfg)
	if err != nil {
		return err
	}
	var fresh, gone []*door
	open := a.openedDoors()
	for _, w := range wanted {
		if !slices.ContainsFunc(open, w.same) {
			fresh = append(fresh, w)
		}
	}
	for _, o := range open {
		if o.name != "control" && !slices.ContainsFunc(wanted, o.same) {
			gone = append(gone, o)
		}
	}
	if err := a.openDoors(ctx, fresh, gone); err != nil {
		return err
	}
	old := a.running.Load()
	if err := a.changeBGP(ctx, old.cfg, next.cfg); err != nil {
		return errors.Join(err, closeListeners(fresh))
	}

	// From here on nothing fails.
	a.auth.Apply(credentials)
	a.limiter.SetLimits(next.cfg.limits())
	a.audit.SetRetention(next.cfg.retention())
	a.tasks.SetLimits(next.cfg.Environment.Task.limits())
	a.level.Store(int32(level))
	a.running.Store(next)
	for _, d := range fresh {
		a.serve(d)
	}
	for _, d := range gone {
		a.draining.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
			defer cancel()
			if err := a.closeDoor(ctx, d); err != nil {
				a.log.Warn().Err(err).Msg("a listener that the configuration no longer has was cut off")
			}
			if address := d.l.Addr(); d.handed && a.handed.has(address.Network(), address.String()) {
				a.warnUnused(address.String())
			}
		})
	}
	for _, w := range next.cfg.Warnings {
		a.log.Warn().Msg(w)
	}
	return nil
}

func errStopping() error {
	return &command.Error{Code: command.Unavailable, Message: "the daemon is stopping; the configuration stays as it is", Actions: []string{"try again when it has started"}}
}

// changeBGP configures the BGP room and starts or stops the speaker as the
// block appears or goes. On an error all is as before.
func (a *App) changeBGP(ctx context.Context, old, next *Configuration) error {
	if err := a.bgp.Configure(ctx, next.BGP); err != nil {
		return err
	}
	switch {
	case old.BGP == nil && next.BGP != nil:
		if err := a.speaker.Start(context.WithoutCancel(ctx)); err != nil {
			return errors.Join(err, a.bgp.Configure(ctx, nil))
		}
	case old.BGP != nil && next.BGP == nil:
		if err := a.speaker.Stop(ctx); err != nil {
			// It is being killed, and nothing will start it again.
			a.log.Warn().Err(err).Msg("the BGP speaker did not stop in time")
		}
	}
	return nil
}

// levelFilter lets through what the running configuration's log level asks for.
type levelFilter struct{ level *atomic.Int32 }

// Sample implements zerolog.Sampler.
func (f levelFilter) Sample(l zerolog.Level) bool { return int32(l) >= f.level.Load() }

func (a *App) logLevel(c *Configuration) (zerolog.Level, error) {
	name := a.o.LogLevel
	if name == "" {
		name = c.Environment.Log.Level
	}
	if name == "" {
		return zerolog.InfoLevel, nil
	}
	l, err := zerolog.ParseLevel(name)
	if err != nil {
		return l, fmt.Errorf("log level %q: allowed are trace, debug, info, warn and error", name)
	}
	return l, nil
}

// processed counts a reload and keeps its outcome.
func (a *App) processed(err error) {
	a.reloadings.processed(err)
	s := builtin.ReloadStatus{LastOutcome: "applied", LastReload: a.o.Clock().UTC().Truncate(time.Millisecond)}
	if err != nil {
		s.LastOutcome, s.LastError = "refused", err.Error()
		a.log.Error().Err(err).Msg("reload refused; the configuration before stays in force")
	} else {
		r := a.running.Load()
		a.log.Info().Str("source", r.source).Uint64("revision", r.revision).Msg("configuration applied")
	}
	a.mu.Lock()
	s.Generation = a.reloads.Generation + 1
	a.reloads = s
	a.mu.Unlock()
	a.reloaded(err)
}

// ReloadStatus tells how often the configuration was reloaded, and how the last
// reload went. The generation moves on every processed reload, refused ones
// included, so that a caller can wait for its own.
func (a *App) ReloadStatus() builtin.ReloadStatus {
	a.mu.Lock()
	s := a.reloads
	a.mu.Unlock()
	if s.LastOutcome == "" {
		s.LastOutcome = "none"
	}
	r := a.running.Load()
	s.Source, s.Revision = r.source, r.revision
	return s
}
