package appliance

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
	"ze.internal/ze/appliance/config"
)

// gate gathers what decides who gets in, for the check before a door opens.
func (c *Configuration) gate(o Overrides, storeTokens int) (access.Settings, error) {
	block := c.Environment.MCP
	identities, err := c.identities()
	if err != nil {
		return access.Settings{}, err
	}
	s := access.Settings{
		Mode: block.AuthMode, HasToken: block.Token != "" || o.MCPToken != "",
		Identities: identities, StoreTokens: storeTokens,
		BindRemote: block.BindRemote, Cert: block.TLS.Cert, Key: block.TLS.Key,
	}
	if s.Mode == "" {
		s.Mode = access.ModeBearer
	}
	if !block.Enabled {
		// Nobody is let in by a door that stays shut; the rest must still make sense.
		s.StoreTokens = -1
	}
	for _, server := range block.Servers {
		s.Listeners = append(s.Listeners, netip.AddrPortFrom(server.IP, server.Port))
	}
	return s, nil
}

// authOptions returns how callers are recognised under c.
func (a *App) authOptions(c *Configuration) (access.AuthOptions, error) {
	static, err := c.authSettings(a.o.Overrides)
	return access.AuthOptions{Mode: c.Environment.MCP.AuthMode, Static: static, Store: a.store, Usage: a.usage}, err
}

// limits returns what each caller may ask for.
func (c *Configuration) limits() access.Limits {
	l := c.Environment.MCP.Limit
	return access.Limits{Rate: float64(l.Rate), Burst: l.Burst, Concurrent: l.Concurrent}
}

// retention returns how much of the audit log is kept.
func (c *Configuration) retention() audit.Retention {
	a := c.Environment.Audit
	return audit.Retention{Age: time.Duration(a.RetentionDays) * 24 * time.Hour, Records: a.MaxRecords}
}

// authSettings returns the credentials of the configuration and the overrides.
func (c *Configuration) authSettings(o Overrides) ([]access.StaticToken, error) {
	var out []access.StaticToken
	for _, t := range []struct{ name, token string }{{access.NameConfigured, c.Environment.MCP.Token}, {access.NameOverride, o.MCPToken}} {
		if t.token == "" {
			continue
		}
		digest, err := tokenDigest(t.token)
		if err != nil {
			return nil, err
		}
		out = append(out, access.StaticToken{Name: t.name, Digest: digest, Scope: access.Admin})
	}
	identities, err := c.identities()
	return append(out, identities...), err
}

func (c *Configuration) identities() ([]access.StaticToken, error) {
	var out []access.StaticToken
	for _, id := range c.Environment.MCP.Identities {
		digest, err := tokenDigest(id.Token)
		if err != nil {
			return nil, err
		}
		scope, ok := access.ParseScope(id.Scope)
		if !ok {
			return nil, fmt.Errorf("identity %s: unknown scope %q", id.Name, id.Scope)
		}
		out = append(out, access.StaticToken{Name: id.Name, Digest: digest, Scope: scope, Allow: id.Allow, Deny: id.Deny})
	}
	return out, nil
}

// tokenDigest returns the digest of a token as configured: in clear, or as
// "sha256:" and the digest in hex.
func tokenDigest(token string) (digest [32]byte, err error) {
	text, isDigest := strings.CutPrefix(token, config.DigestPrefix)
	if !isDigest {
		return access.DigestOf(token), nil
	}
	if n, err := hex.Decode(digest[:], []byte(text)); err != nil || n != len(digest) {
		return digest, fmt.Errorf("a token that begins with %s must go on with 64 hexadecimal digits", config.DigestPrefix)
	}
	return digest, nil
}

// loadTLS returns the key pair of the MCP listeners; nil for plain HTTP.
func (a *App) loadTLS(c *Configuration) (*access.TLS, error) {
	block := c.Environment.MCP.TLS
	if block.Cert == "" {
		return nil, nil
	}
	pair, err := access.NewTLS(block.Cert, block.Key)
	if err != nil {
		return nil, fmt.Errorf("environment/mcp/tls: %w", err)
	}
	pair.OnReload(func(err error) {
		if err != nil {
			a.log.Error().Err(err).Msg("the new TLS key pair cannot be used; the one before stays in use")
			return
		}
		a.log.Info().Str("cert", block.Cert).Msg("TLS key pair replaced")
	})
	return pair, nil
}

// callers tells commands who calls.
type callers struct{ a *App }

// NameTaken implements builtin.Callers: names of the configuration's identities
// are taken, too.
func (c callers) NameTaken(ctx context.Context, name string) (by string) {
	if by := access.NameTaken(name); by != "" {
		return by
	}
	identities := func(id identityBlock) bool { return id.Name == name }
	if cfg := c.configuration(ctx); cfg != nil && slices.ContainsFunc(cfg.Environment.MCP.Identities, identities) {
		return "the identity " + name + " of the configuration"
	}
	return ""
}

// configuration returns what runs, or what would; nil if nothing could.
func (c callers) configuration(ctx context.Context) *Configuration {
	if running := c.a.running.Load(); running != nil {
		return running.cfg
	}
	r, err := c.a.config.Running(ctx)
	if err != nil {
		return nil
	}
	cfg, err := LoadConfiguration("configuration", r.Text, c.a.o.Overrides, -1)
	if err != nil {
		return nil
	}
	return cfg
}

// ShutOut implements builtin.Callers.
func (c callers) ShutOut(ctx context.Context) (reason string, err error) {
	cfg := c.configuration(ctx)
	if cfg == nil {
		return "", nil // and whoever makes one is told
	}
	tokens, err := c.a.store.Tokens(ctx)
	if err != nil {
		return "", err
	}
	gate, err := cfg.gate(c.a.o.Overrides, len(tokens))
	if problems := gate.Check(); len(problems) > 0 {
		reason = problems[0].String()
	}
	return reason, err
}

// GateWithout implements builtin.Callers.
func (c callers) GateWithout(ctx context.Context, text []byte, name string) error {
	_, err := c.a.gateWithout(ctx, "configuration", text, name)
	return err
}
