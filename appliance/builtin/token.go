package builtin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/command"
	"ze.internal/ze/appliance/schema"
)

// Tokens keeps bearer tokens; access.TokenStore says what the methods do.
type Tokens interface {
	Tokens(ctx context.Context) ([]access.Token, error)
	CreateToken(ctx context.Context, t access.Token) error
	DeleteToken(ctx context.Context, name string) (owned bool, err error)
	RotateToken(ctx context.Context, name string, next access.Token, until time.Time) (access.Token, error)
	Now() time.Time
	// RemoveFile removes the file that holds the first admin token, if it is there.
	RemoveFile() (path string, removed bool, err error)
	// RemoveStaleFile is RemoveFile unless the token in the file is still the
	// newest of its name.
	RemoveStaleFile(ctx context.Context) (path string, removed bool, err error)
}

// TokenUsage knows uses of tokens that are not kept yet.
type TokenUsage interface {
	Latest(digest [32]byte) time.Time
}

// Callers knows who calls, by whatever means.
type Callers interface {
	// NameTaken says who goes by a name without a token of the store; "": nobody.
	NameTaken(ctx context.Context, name string) (by string)
	// GateWithout takes a configuration through the start gate as it will be
	// when the token called name is gone.
	GateWithout(ctx context.Context, text []byte, name string) error
	// ShutOut says why nobody gets in over MCP as things are; "": somebody does.
	ShutOut(ctx context.Context) (reason string, err error)
}

type tokenEntry struct {
	Name       string    `json:"name"`
	Accessor   string    `json:"accessor"`
	Scope      string    `json:"scope"`
	Allow      []string  `json:"allow,omitempty"`
	Deny       []string  `json:"deny,omitempty"`
	Created    time.Time `json:"created"`
	LastUsed   time.Time `json:"last-used,omitzero"`
	Expires    time.Time `json:"expires,omitzero"`
	OldExpires time.Time `json:"old-secret-expires,omitzero"`
}

type tokenSecret struct {
	tokenEntry `json:",inline"`
	Secret     string   `json:"secret"`
	Warnings   []string `json:"warnings,omitempty"`
}

func tokenView(t access.Token) tokenEntry {
	return tokenEntry{
		Name: t.Name, Accessor: t.Accessor, Scope: t.Scope.String(), Allow: t.Allow, Deny: t.Deny,
		Created: t.Created.UTC(), LastUsed: t.Used.UTC(), Expires: t.Expires.UTC(),
	}
}

func (d Deps) token(r runs) {
	r["token-create"] = d.createToken
	r["token-rotate"] = d.rotateToken
	r["token-list"] = d.listTokens
	r["token-revoke"] = d.revokeToken
	r["token-remove-file"] = d.removeTokenFile
}

func (d Deps) removeTokenFile(context.Context, *command.Request) (any, error) {
	path, removed, err := d.Tokens.RemoveFile()
	if err != nil {
		return nil, err
	}
	return struct {
		File    string `json:"file"`
		Removed bool   `json:"removed"`
	}{path, removed}, nil
}

func (d Deps) revokeToken(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Name string `json:"name"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	out := struct {
		Revoked   string `json:"revoked"`
		Discarded bool   `json:"discarded-candidate"`
		staleFile `json:",inline"`
	}{Revoked: in.Name}
	without := func(ctx context.Context, text []byte) error { return d.Callers.GateWithout(ctx, text, in.Name) }
	err := d.Config.KeepingRevert(ctx, without, func() (err error) {
		out.Discarded, err = d.Tokens.DeleteToken(ctx, in.Name)
		return err
	})
	if err != nil {
		return nil, configError(noToken(in.Name, err), "name")
	}
	out.staleFile = d.staleFile(ctx)
	if reason, err := d.Callers.ShutOut(ctx); err != nil {
		out.Warnings = append(out.Warnings, fmt.Sprintf("whether anybody gets in over MCP now could not be found out: %v", err))
	} else if reason != "" {
		out.Warnings = append(out.Warnings, "nobody gets in over MCP any more, and the next start will be refused: "+reason)
	}
	return out, nil
}

// staleFile is what became of the file with the first admin token.
type staleFile struct {
	File     string   `json:"removed-file,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// staleFile removes the file with the first admin token if its token is not the
// newest of its name any more. What came before that is done and stays done.
func (d Deps) staleFile(ctx context.Context) (out staleFile) {
	path, removed, err := d.Tokens.RemoveStaleFile(ctx)
	if removed {
		out.File = path
	}
	if err != nil {
		out.Warnings = []string{fmt.Sprintf("the file %s may hold a token that no longer works: %v", path, err)}
	}
	return out
}

func (d Deps) createToken(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Name    string   `json:"name"`
		Scope   string   `json:"scope"`
		Allow   []string `json:"allow"`
		Deny    []string `json:"deny"`
		Expires string   `json:"expires"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	scope, given := access.ParseScope(in.Scope)
	if !given && len(in.Allow) == 0 {
		scope = access.Read
	}
	if by := d.Callers.NameTaken(ctx, in.Name); by != "" {
		return nil, &command.Error{Code: command.Invalid, Field: "name", Message: fmt.Sprintf("%q is how %s is called in the audit log and the configuration's history", in.Name, by),
			Allowed: "a name that nobody else has", Actions: []string{"choose another name, as " + in.Name + "-token"}}
	}
	now := d.Tokens.Now().Truncate(time.Second)
	expires, err := lifeEnd("expires", now, in.Expires)
	if err != nil {
		return nil, err
	}
	if in.Expires != "" && expires.IsZero() {
		return nil, &command.Error{Code: command.Invalid, Field: "expires", Message: fmt.Sprintf("%q is no time to live", in.Expires), Allowed: "at least 1s, as 90d"}
	}
	secret, t := access.NewToken(rand.Reader, in.Name, scope, now, expires)
	t.Allow, t.Deny = in.Allow, in.Deny
	if err := r.Principal.Delegate(&t); err != nil {
		return nil, &command.Error{Code: command.Invalid, Message: err.Error(), Actions: []string{"ask for less, or have an administrator create the token"}, Err: err}
	}
	if err := d.Tokens.CreateToken(ctx, t); errors.Is(err, access.ErrTokenExists) {
		return nil, &command.Error{Code: command.Conflict, Field: "name", Message: fmt.Sprintf("a token named %q exists", in.Name),
			Actions: []string{"choose another name", "token rotate " + in.Name, "token revoke " + in.Name}, Err: err}
	} else if err != nil {
		return nil, err
	}
	return tokenSecret{tokenView(t), secret, d.unmatched(r.Principal, map[string][]string{"allow": in.Allow, "deny": in.Deny})}, nil
}

// unmatched warns of the first words in lists, by parameter, with which no
// command begins. They may be those of a command to come, so they stay.
func (d Deps) unmatched(p *access.Principal, lists map[string][]string) (warnings []string) {
	for _, param := range slices.Sorted(maps.Keys(lists)) {
		for _, prefix := range lists[param] {
			nearest, matches := d.Every.Match(p, prefix)
			if matches {
				continue
			}
			w := fmt.Sprintf("%s %q matches no command", param, prefix)
			if nearest != "" {
				w += fmt.Sprintf("; did you mean %q?", nearest)
			}
			warnings = append(warnings, w)
		}
	}
	return warnings
}

func (d Deps) rotateToken(ctx context.Context, r *command.Request) (any, error) {
	var in struct {
		Name    string `json:"name"`
		Overlap string `json:"overlap"`
	}
	if err := r.Bind(&in); err != nil {
		return nil, err
	}
	now := d.Tokens.Now().Truncate(time.Second)
	until, err := lifeEnd("overlap", now, in.Overlap)
	if err != nil {
		return nil, err
	}
	all, err := d.Tokens.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name != in.Name || t.Rotated {
			continue
		}
		// A new secret is a new token: nobody gets more by making it than they have.
		denied := len(t.Deny)
		err := r.Principal.Delegate(&t)
		if err == nil && len(t.Deny) > denied {
			err = fmt.Errorf("it may run %q, which you may not", t.Deny[denied])
		}
		if err != nil {
			return nil, &command.Error{Code: command.Invalid, Field: "name", Message: fmt.Sprintf("token %q: %v", in.Name, err),
				Actions: []string{"have an administrator rotate it"}, Err: err}
		}
		if !t.Expires.IsZero() && !now.Before(t.Expires) {
			return nil, &command.Error{Code: command.Conflict, Field: "name", Message: fmt.Sprintf("token %q has expired, and so would a new secret", in.Name),
				Actions: []string{"token revoke " + in.Name, "token create " + in.Name + " expires 90d"}}
		}
	}
	secret, next := access.NewToken(rand.Reader, in.Name, access.None, now, time.Time{})
	t, err := d.Tokens.RotateToken(ctx, in.Name, next, until)
	if err != nil {
		return nil, noToken(in.Name, err)
	}
	out := struct {
		tokenEntry `json:",inline"`
		Secret     string `json:"secret"`
		staleFile  `json:",inline"`
	}{tokenView(t), secret, d.staleFile(ctx)}
	if out.OldExpires = until.UTC(); !t.Expires.IsZero() && t.Expires.Before(until) {
		out.OldExpires = t.Expires.UTC()
	}
	return out, nil
}

func (d Deps) listTokens(ctx context.Context, _ *command.Request) (any, error) {
	all, err := d.Tokens.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	out := struct {
		Tokens []tokenEntry `json:"token"`
	}{make([]tokenEntry, 0, len(all))}
	now := d.Tokens.Now()
	for _, t := range all {
		if d.Usage != nil {
			if at := d.Usage.Latest(t.Digest); at.After(t.Used) {
				t.Used = at
			}
		}
		if !t.Rotated {
			out.Tokens = append(out.Tokens, tokenView(t))
			continue
		}
		// It follows its successor, which it is a part of as long as it works.
		if n := len(out.Tokens); n > 0 && out.Tokens[n-1].Name == t.Name {
			last := &out.Tokens[n-1]
			if t.Used.After(last.LastUsed) {
				last.LastUsed = t.Used.UTC()
			}
			if now.Before(t.Expires) {
				last.OldExpires = t.Expires.UTC()
			}
		}
	}
	return out, nil
}

// lifeEnd returns when a life beginning now ends; zero if it has no length.
func lifeEnd(field string, now time.Time, life string) (time.Time, error) {
	if life == "" {
		return time.Time{}, nil
	}
	d, err := schema.ParseDuration(life)
	if err != nil {
		return time.Time{}, &command.Error{Code: command.Invalid, Field: field, Message: err.Error()}
	}
	if d == 0 {
		return time.Time{}, nil
	}
	return now.Add(d), nil
}

func noToken(name string, err error) error {
	if !errors.Is(err, access.ErrNoToken) {
		return err
	}
	return &command.Error{Code: command.NotFound, Field: "name", Message: fmt.Sprintf("no token named %q", name),
		Actions: []string{"token list"}, Err: err}
}
