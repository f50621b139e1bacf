package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/config"
	"ze.internal/ze/store"
)

// system tells commands about the daemon.
type system struct{ a *App }

func (s system) Version() builtin.Version { return s.a.o.Version }
func (s system) Started() time.Time       { return s.a.started }

func (s system) Status(ctx context.Context) (builtin.Status, error) {
	a := s.a
	name, err := a.instance(ctx)
	if err != nil {
		return builtin.Status{}, err
	}
	path := filepath.Join(a.o.DataDir, store.FileName)
	info, err := os.Stat(path)
	if err != nil {
		return builtin.Status{}, fmt.Errorf("look at the database: %w", err)
	}
	running := a.running.Load()
	st := builtin.Status{
		Instance: name, Version: a.o.Version.Version, PID: os.Getpid(),
		Configuration: builtin.ConfigurationStatus{Source: running.source, Revision: running.revision},
		Listeners:     a.Addresses(),
		Store:         builtin.StoreStatus{Path: path, SizeBytes: info.Size()},
	}
	if running.cfg.BGP != nil {
		p := a.speaker.Status().Process
		st.Speaker = &builtin.SpeakerStatus{State: string(p.State), PID: p.PID, Restarts: p.Restarts, LastExit: p.LastExit}
	}
	return st, nil
}

func (s system) ReloadStatus() builtin.ReloadStatus { return s.a.ReloadStatus() }

func (s system) Reload(ctx context.Context) error {
	err := s.a.Reload(ctx)
	var problems config.Problems
	if errors.As(err, &problems) {
		e := &command.Error{Code: command.Invalid, Message: "refused, the configuration before stays in force: " + problems[0].Error(), Err: err}
		for _, p := range problems[1:] {
			e.Actions = append(e.Actions, "also "+p.Error())
		}
		return e
	}
	return err
}

// revisions keeps configurations for the commands.
type revisions struct{ a *App }

func (r revisions) Import(ctx context.Context, text, who, comment string) (builtin.Revision, error) {
	if r.a.o.File != "" {
		return builtin.Revision{}, &command.Error{Code: command.Conflict,
			Message: "the daemon runs from the file " + r.a.o.File + ", so the store's configuration is not in use",
			Actions: []string{"change the file and start the daemon again", "or start with: ze start"}}
	}
	tokens, err := r.a.store.Tokens(ctx)
	if err != nil {
		return builtin.Revision{}, err
	}
	rev, err := Import(ctx, r.a.store, []byte(text), len(tokens), store.Revision{Who: who, How: "config import", Comment: comment})
	var problems config.Problems
	if errors.As(err, &problems) {
		e := &command.Error{Code: command.Invalid, Field: "text", Message: problems[0].Error(), Err: err}
		for _, p := range problems[1:] {
			e.Actions = append(e.Actions, "also "+p.Error())
		}
		return builtin.Revision{}, e
	}
	return rev, err
}

func (r revisions) Revisions(ctx context.Context) ([]builtin.Revision, error) {
	kept, err := r.a.store.Revisions(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]builtin.Revision, len(kept))
	for i, k := range kept {
		out[len(kept)-1-i] = revisionView(k)
	}
	return out, nil
}

func revisionView(r store.Revision) builtin.Revision {
	return builtin.Revision{Number: r.Number, Time: r.Time.UTC(), Who: r.Who, How: r.How, Comment: r.Comment, Digest: r.Digest}
}

// Import checks a configuration text as the start gate does and keeps it as
// the newest revision, tokens as digests. rev says who, how and why.
func Import(ctx context.Context, db *store.DB, text []byte, storeTokens int, rev store.Revision) (builtin.Revision, error) {
	const name = "configuration"
	if _, err := LoadConfiguration(name, text, Overrides{}, storeTokens); err != nil {
		return builtin.Revision{}, err
	}
	tree, err := config.Parse(name, text)
	if err != nil {
		return builtin.Revision{}, err
	}
	rev.Text = HideTokens(tree)
	n, err := db.AddRevision(ctx, rev)
	if err != nil {
		return builtin.Revision{}, fmt.Errorf("keep the configuration: %w", err)
	}
	kept, err := db.Revision(ctx, n)
	if err != nil {
		return builtin.Revision{}, fmt.Errorf("read the configuration back: %w", err)
	}
	return revisionView(kept), nil
}
