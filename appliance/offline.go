package appliance

import (
	"context"
	"errors"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
	"ze.internal/ze/store"
)

// Offline runs one command on the database in o.DataDir while no daemon does.
// Only commands declared ze:offline or ze:repair exist here; every other is
// unknown. The call is audited as any other.
func Offline(ctx context.Context, o Options, call command.Call) (res *command.Result, err error) {
	o = o.withDefaults()
	a := &App{o: o, log: o.Logger, events: newEvents(o.Clock)}
	defer func() { err = errors.Join(err, a.rollback(context.WithoutCancel(ctx))) }()
	so := store.Options{Dir: o.DataDir, Clock: o.Clock, Logger: a.log}
	if isRepair(call.Line) {
		return a.repair(ctx, so, call)
	}
	if a.store, err = store.Open(so); err != nil {
		return nil, err
	}
	a.onStop("store", func(context.Context) error { return a.store.Close() })
	a.audit = audit.NewLog(audit.Options{Store: a.store, Clock: o.Clock, Logger: a.log})
	a.usage = access.NewUsage(a.store, a.log) // nobody calls: nothing is used
	if a.config, err = a.newConfig(nil); err != nil {
		return nil, err
	}
	if err := a.wireCommands(storage{a.store, a.o.DataDir, a.o.Private}, func(c *schema.Command) bool { return c.Offline }); err != nil {
		return nil, err
	}
	a.audit.Start()
	a.onStop("audit log", a.audit.Stop)
	return a.dispatcher.Do(ctx, call)
}
