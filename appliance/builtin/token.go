package builtin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// Tokens keeps bearer tokens.
type Tokens interface {
	Tokens(ctx context.Context) ([]access.Token, error)
	CreateToken(ctx context.Context, t access.Token) error
	DeleteToken(ctx context.Context, name string) error
}

type tokenEntry struct {
	Name     string    `json:"name"`
	Accessor string    `json:"accessor"`
	Scope    string    `json:"scope"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
}

func tokenView(t access.Token) tokenEntry {
	return tokenEntry{t.Name, t.Accessor, t.Scope.String(), t.Created.UTC(), t.Expires.UTC()}
}

func (d Deps) token(r runs) {
	r["token-create"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Name    string `json:"name"`
			Scope   string `json:"scope"`
			Expires string `json:"expires"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		scope, _ := access.ParseScope(in.Scope) // an enumeration of the schema
		now := d.Clock().Truncate(time.Second)
		var expires time.Time
		if in.Expires != "" {
			life, err := schema.ParseDuration(in.Expires)
			if err != nil || life <= 0 {
				return nil, &command.Error{Code: command.Invalid, Field: "expires", Message: fmt.Sprintf("%q is no time to live", in.Expires), Allowed: "at least 1s, as 90d"}
			}
			expires = now.Add(life)
		}
		secret, t := access.NewToken(rand.Reader, in.Name, scope, now, expires)
		if err := d.Tokens.CreateToken(ctx, t); errors.Is(err, access.ErrTokenExists) {
			return nil, &command.Error{Code: command.Conflict, Field: "name", Message: fmt.Sprintf("a token named %q exists", in.Name),
				Actions: []string{"choose another name", "token revoke " + in.Name}, Err: err}
		} else if err != nil {
			return nil, err
		}
		return struct {
			tokenEntry `json:",inline"`
			Secret     string `json:"secret"`
		}{tokenView(t), secret}, nil
	}
	r["token-list"] = func(ctx context.Context, _ *command.Request) (any, error) {
		tokens, err := d.Tokens.Tokens(ctx)
		if err != nil {
			return nil, err
		}
		out := struct {
			Tokens []tokenEntry `json:"token"`
		}{make([]tokenEntry, len(tokens))}
		for i, t := range tokens {
			out.Tokens[i] = tokenView(t)
		}
		return out, nil
	}
	r["token-revoke"] = func(ctx context.Context, r *command.Request) (any, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := r.Bind(&in); err != nil {
			return nil, err
		}
		if err := d.Tokens.DeleteToken(ctx, in.Name); errors.Is(err, access.ErrNoToken) {
			return nil, &command.Error{Code: command.NotFound, Field: "name", Message: fmt.Sprintf("no token named %q", in.Name),
				Actions: []string{"token list"}, Err: err}
		} else if err != nil {
			return nil, err
		}
		return struct {
			Revoked string `json:"revoked"`
		}{in.Name}, nil
	}
}
