package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ze.internal/ze/appliance/command"
)

// Store looks after the database as a whole.
type Store interface {
	Check(ctx context.Context) (StoreReport, error)
	VerifyAudit(ctx context.Context) (records, head uint64, err error)
	Stats(ctx context.Context) (StoreStats, error)
	Dump(ctx context.Context, kind string, offset, count int) ([]StoreRecord, error)
	Backup(ctx context.Context, file string, force bool) (StoreReport, error)
	// Restore returns where the database before is kept, "" if there was none.
	Restore(ctx context.Context, file string, fallback bool) (r StoreReport, keptAs string, err error)
	Compact(ctx context.Context) (before, after int64, err error)
}

// StoreReport is what a check of a database found.
type StoreReport struct {
	Path      string   `json:"path"`
	Schema    int      `json:"schema"`
	Size      int64    `json:"size-bytes"`
	Records   uint64   `json:"records"`
	AuditHead uint64   `json:"audit-head"`
	Warnings  []string `json:"warning,omitempty"`

	Problems []string `json:"-"` // one for each, with bucket and key
	Omitted  int      `json:"-"` // problems beyond those
	Repair   []string `json:"-"` // what to do about them
}

// StoreStats is what a database holds.
type StoreStats struct {
	Path     string      `json:"path"`
	Schema   int         `json:"schema"`
	Instance string      `json:"instance"`
	Created  time.Time   `json:"created"`
	Size     int64       `json:"size-bytes"`
	Free     int64       `json:"free-bytes"`
	Kinds    []StoreKind `json:"kind"`
}

// StoreKind counts the records of one kind.
type StoreKind struct {
	Name    string `json:"name"`
	Records uint64 `json:"records"`
}

// StoreRecord is one record as it is kept, without anything secret.
type StoreRecord struct {
	Key  string          `json:"key"`
	JSON json.RawMessage `json:"-"`
}

func (d Deps) store(r runs) {
	r["store-check"] = func(ctx context.Context, _ *command.Request) (any, error) {
		report, err := d.Store.Check(ctx)
		if err != nil {
			return nil, err
		}
		if n := len(report.Problems) + report.Omitted; n > 0 {
			return nil, &command.Error{Code: command.Damaged, Message: fmt.Sprintf("%s: %s", report.Path, plural(n, "problem")),
				Actions: append(report.lines(), report.Repair...)}
		}
		return report, nil
	}
	r["store-verify-audit"] = func(ctx context.Context, _ *command.Request) (any, error) {
		records, head, err := d.Store.VerifyAudit(ctx)
		if err != nil {
			return nil, err
		}
		return struct {
			Records uint64 `json:"records"`
			Head    uint64 `json:"audit-head"`
		}{records, head}, nil
	}
	r["store-stats"] = func(ctx context.Context, _ *command.Request) (any, error) { return d.Store.Stats(ctx) }
	r["store-dump"] = d.dump
	r["store-backup"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			File  string `json:"file"`
			Force bool   `json:"force"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		report, err := d.Store.Backup(ctx, in.File, in.Force)
		if err != nil {
			return nil, err
		}
		report.Warnings = report.lines()
		return report, nil
	}
	r["store-restore"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			File     string `json:"file"`
			Fallback bool   `json:"fallback"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		report, keptAs, err := d.Store.Restore(ctx, in.File, in.Fallback)
		if err != nil {
			return nil, err
		}
		report.Warnings = report.lines()
		return struct {
			StoreReport `json:",inline"`
			KeptAs      string `json:"kept-as,omitempty"`
		}{report, keptAs}, nil
	}
	r["store-compact"] = func(ctx context.Context, _ *command.Request) (any, error) {
		before, after, err := d.Store.Compact(ctx)
		if err != nil {
			return nil, err
		}
		return struct {
			Before int64 `json:"before-bytes"`
			After  int64 `json:"after-bytes"`
		}{before, after}, nil
	}
}

func (d Deps) dump(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Kind   string `json:"kind"`
		Offset int    `json:"offset"`
		Count  int    `json:"count"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	// One more, to know whether there are more.
	found, err := d.Store.Dump(ctx, in.Kind, in.Offset, in.Count+1)
	if err != nil {
		return nil, err
	}
	type record struct {
		Key  string `json:"key"`
		JSON string `json:"json"`
	}
	out := struct {
		Records []record `json:"record"`
		Next    int      `json:"next,omitzero"`
	}{Records: []record{}}
	for i, f := range found {
		if i == in.Count {
			out.Next = in.Offset + in.Count
			break
		}
		out.Records = append(out.Records, record{f.Key, string(f.JSON)})
	}
	return out, nil
}

// lines are the problems a report lists, and how many it leaves out.
func (r StoreReport) lines() []string {
	lines := append([]string(nil), r.Problems...)
	if r.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", plural(r.Omitted, "problem")))
	}
	return lines
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
