package builtin

import (
	"context"
	"time"

	"ze.internal/ze/appliance/command"
)

// Config keeps configuration revisions.
type Config interface {
	// Import checks text as the start gate does and keeps it as the newest
	// revision.
	Import(ctx context.Context, text, who, comment string) (Revision, error)
	Revisions(ctx context.Context) ([]Revision, error) // newest first
}

// Revision describes one kept configuration.
type Revision struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Who     string    `json:"who"`
	How     string    `json:"how"`
	Comment string    `json:"comment,omitempty"`
	Digest  string    `json:"digest"`
}

func (d Deps) config(r runs) {
	r["config-import"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Text    string `json:"text"`
			Comment string `json:"comment"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		rev, err := d.Config.Import(ctx, in.Text, r.Principal.Name, in.Comment)
		if err != nil {
			return nil, err
		}
		return struct {
			Number uint64 `json:"number"`
			Digest string `json:"digest"`
			Note   string `json:"note"`
		}{rev.Number, rev.Digest, "a running daemon uses it after: request reload"}, nil
	}
	r["config-history"] = func(ctx context.Context, _ *command.Request) (any, error) {
		revs, err := d.Config.Revisions(ctx)
		if err != nil {
			return nil, err
		}
		return struct {
			Revisions []Revision `json:"revision"`
		}{revs}, nil
	}
}
