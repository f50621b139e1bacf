package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/store"
)

// newConfig wires what owns the configuration in the store. apply makes a
// revision the running configuration; nil while no daemon runs.
func (a *App) newConfig(apply func(ctx context.Context, r config.Revision) error) (*config.Manager, error) {
	set, err := schema.Load([]schema.Source{config.Model()})
	if err != nil {
		return nil, fmt.Errorf("load the configuration model: %w", err)
	}
	return config.NewManager(config.Options{
		Store: a.store, Model: set.Data(), Clock: a.o.Clock, Apply: apply, Logger: a.log, File: a.o.File, Committed: a.committed,
		Check: func(ctx context.Context, text []byte) error {
			_, err := a.gate(ctx, "configuration", text)
			return err
		},
	}), nil
}

// gate takes a text through the start gate.
func (a *App) gate(ctx context.Context, file string, text []byte) (*Configuration, error) {
	return a.gateWithout(ctx, file, text, "")
}

// gateWithout is gate as it will be when the token called gone is; "" for none.
func (a *App) gateWithout(ctx context.Context, file string, text []byte, gone string) (*Configuration, error) {
	tokens, err := a.store.Tokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the tokens: %w", err)
	}
	tokens = slices.DeleteFunc(tokens, func(t access.Token) bool { return t.Name == gone })
	return LoadConfiguration(file, text, a.o.Overrides, len(tokens))
}

// apply makes r the running configuration, fully or not at all.
func (a *App) apply(ctx context.Context, r config.Revision) error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	next, err := a.revision(ctx, r)
	if err == nil {
		err = a.change(ctx, next)
	}
	a.processed(err)
	return err
}

// revision takes a kept configuration through the start gate.
func (a *App) revision(ctx context.Context, r config.Revision) (*state, error) {
	cfg, err := a.gate(ctx, fmt.Sprintf("revision-%d", r.Number), r.Text)
	return &state{cfg: cfg, source: "store", revision: r.Number}, err
}

// unreadable says how to start when there is no configuration to start from.
func (a *App) unreadable(ctx context.Context, err error) error {
	var damaged *config.DamagedError
	if !errors.As(err, &damaged) {
		return fmt.Errorf("read the configuration: %w", err)
	}
	next := "put another revision in front of it with " + store.CommandFor(a.o.DataDir, "config import FILE")
	if sound, serr := a.config.Sound(ctx); serr == nil {
		next += " or " + store.CommandFor(a.o.DataDir, fmt.Sprintf("config rollback %d", sound.Number))
	}
	return fmt.Errorf("read the configuration: %w; nothing was changed; %s, or a backup in the place of the database with %s",
		err, next, store.CommandFor(a.o.DataDir, "store restore BACKUP"))
}

// reloadRevision applies the newest revision anew.
func (a *App) reloadRevision(ctx context.Context) error {
	err := a.config.Reload(ctx)
	var refused *config.ApplyError
	if err != nil && !errors.As(err, &refused) {
		a.processed(err) // it did not come as far as apply, which counts
	}
	return err
}

// Import checks a configuration text as the start gate does and keeps it as the
// newest revision of a store that no daemon uses, tokens as digests.
func Import(ctx context.Context, db *store.DB, text []byte, who, comment string) (config.Revision, error) {
	o := Options{}.withDefaults()
	a := &App{o: o, store: db, events: newEvents(o.Clock)}
	m, err := a.newConfig(nil)
	if err != nil {
		return config.Revision{}, err
	}
	return m.Import(ctx, who, text, comment)
}
