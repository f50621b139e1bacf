package appliance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/builtin"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/store"
)

// closedStorage works on the file of a database that nobody has open, and that
// perhaps nobody can.
type closedStorage struct {
	builtin.Store // of the commands that need an open one there are none here
	o             store.Options
}

// Check implements builtin.Store.
func (s closedStorage) Check(context.Context) (builtin.StoreReport, error) {
	r, err := store.CheckFile(s.o)
	return reportView(r), storeError(err, "")
}

// Restore implements builtin.Store.
func (s closedStorage) Restore(_ context.Context, file string, fallback bool) (builtin.StoreReport, string, error) {
	r, err := store.Restore(s.o, file, fallback)
	return reportView(r.Report), r.Aside, storeError(err, "file")
}

// isRepair reports whether a command line begins with a command that also runs
// on a database that cannot be opened.
func isRepair(line string) bool {
	set, err := schema.Load(builtin.Models())
	if err != nil {
		return false // whoever loads them to run the command says why
	}
	words := strings.Fields(line)
	return slices.ContainsFunc(set.Commands(), func(c *schema.Command) bool {
		return c.Repair && len(words) >= len(c.Path) && slices.Equal(words[:len(c.Path)], c.Path)
	})
}

// repair runs one command that is declared ze:repair on the database's file.
func (a *App) repair(ctx context.Context, o store.Options, call command.Call) (*command.Result, error) {
	if err := a.wireCommands(closedStorage{o: o}, func(c *schema.Command) bool { return c.Repair }); err != nil {
		return nil, err
	}
	log := &afterwards{o: o}
	a.dispatcher = command.NewDispatcher(command.Options{Registry: a.dispatcher.Registry(), Audit: log, Clock: a.o.Clock, Logger: a.log})
	res, err := a.dispatcher.Do(ctx, call)
	return res, errors.Join(err, log.write(ctx))
}

// afterwards keeps the audit records of a call until the database may be open
// again. One that cannot be opened takes none: the call is how to get to one
// that can, and is in the log of the process all the same.
type afterwards struct {
	o       store.Options
	records []audit.Record
}

// Begin implements command.Auditor.
func (l *afterwards) Begin(_ context.Context, r audit.Record) (uint64, error) { return 1, nil }

// End implements command.Auditor. The database in which the call began is not
// the one in which it ended: one record for both.
func (l *afterwards) End(_ context.Context, _ uint64, r audit.Record) error { return l.Note(r) }

// Note implements command.Auditor.
func (l *afterwards) Note(r audit.Record) error {
	r.Phase, r.Begin = audit.Call, 0
	l.records = append(l.records, r)
	return nil
}

// Pending implements command.Auditor.
func (l *afterwards) Pending(records ...audit.Record) *audit.Pending {
	return audit.NewPending(records...)
}

// Refused implements command.Auditor.
func (l *afterwards) Refused(r audit.Record) { l.records = append(l.records, r) }

func (l *afterwards) write(ctx context.Context) error {
	if len(l.records) == 0 {
		return nil
	}
	db, err := store.Open(l.o)
	if err != nil {
		l.o.Logger.Warn().Str("command", l.records[0].Command).Str("outcome", l.records[0].Outcome).
			Msg("not in the audit log: the database cannot be opened")
		return nil
	}
	err = db.AppendAudit(context.WithoutCancel(ctx), l.records)
	if errors.Is(err, store.ErrDamaged) {
		return db.Close() // opening it has said so
	}
	if err != nil {
		return errors.Join(fmt.Errorf("done, but the audit log does not take the record of it: %w", err), db.Close())
	}
	return db.Close()
}
