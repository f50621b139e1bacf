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
	if path, there := TokenFile(a.o.DataDir); there {
		st.TokenFile = path
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
		e := &command.Error{Code: command.InvalidConfiguration, Message: "refused, the configuration before stays in force: " + problems[0].Error(), Err: err}
		for _, p := range problems[1:] {
			e.Actions = append(e.Actions, "also "+p.Error())
		}
		return e
	}
	return err
}
