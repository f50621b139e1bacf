package builtin

import (
	"context"
	"time"

	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// Audit finds records of calls.
type Audit interface {
	Search(ctx context.Context, q audit.Query) (audit.Page, error)
}

type auditEntry struct {
	Seq          uint64    `json:"seq"`
	Time         time.Time `json:"time"`
	Phase        string    `json:"phase"`
	Begin        uint64    `json:"begin,omitzero"`
	Principal    string    `json:"principal"`
	Accessor     string    `json:"accessor,omitempty"`
	Surface      string    `json:"surface"`
	Remote       string    `json:"remote,omitempty"`
	Command      string    `json:"command"`
	Args         string    `json:"args,omitempty"`
	Digest       string    `json:"args-digest,omitempty"`
	Outcome      string    `json:"outcome,omitempty"`
	Milliseconds float64   `json:"milliseconds,omitzero"`
	Times        uint64    `json:"times,omitzero"`
}

func auditView(r audit.Record) auditEntry {
	return auditEntry{
		Seq: r.Seq, Time: r.Time.UTC(), Phase: string(r.Phase), Begin: r.Begin, Principal: r.Principal, Accessor: r.Accessor,
		Surface: r.Surface, Remote: r.Remote, Command: r.Command, Args: r.Args, Digest: r.Digest, Outcome: r.Outcome,
		Milliseconds: float64(r.Duration.Microseconds()) / 1000, Times: r.Count,
	}
}

func (d Deps) audit(r runs) {
	r["show-audit"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Since     string `json:"since"`
			Until     string `json:"until"`
			Principal string `json:"principal"`
			Command   string `json:"command"`
			Outcome   string `json:"outcome"`
			Surface   string `json:"surface"`
			Before    uint64 `json:"before"`
			Count     int    `json:"count"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		q := audit.Query{Principal: in.Principal, Command: in.Command, Outcome: in.Outcome, Surface: in.Surface, Before: in.Before, Count: in.Count}
		var err error
		if q.Since, err = d.moment("since", in.Since); err != nil {
			return nil, err
		}
		if q.Until, err = d.moment("until", in.Until); err != nil {
			return nil, err
		}
		page, err := d.Audit.Search(ctx, q)
		if err != nil {
			return nil, err
		}
		out := struct {
			Records []auditEntry `json:"record"`
			Next    uint64       `json:"next,omitzero"`
		}{make([]auditEntry, len(page.Records)), page.Next}
		for i, r := range page.Records {
			out.Records[i] = auditView(r)
		}
		return out, nil
	}
}

// moment reads a point in time, or how long ago it was; zero if none is given.
func (d Deps) moment(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := schema.ParseDuration(text); err == nil {
		return d.Clock().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &command.Error{Code: command.Invalid, Field: field, Message: "is neither a time nor how long ago it was",
			Allowed: "a date and time with zone, as 2026-11-30T12:00:00Z, or how long ago, as 15m, 2h or 7d"}
	}
	return at, nil
}
