package appliance

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"ze.internal/ze/appliance/access"
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
	return access.AuthOptions{Mode: c.Environment.MCP.AuthMode, Static: static, Store: a.store, Clock: a.o.Clock}, err
}

// authSettings returns the credentials of the configuration and the overrides.
func (c *Configuration) authSettings(o Overrides) ([]access.StaticToken, error) {
	var out []access.StaticToken
	for _, t := range []struct{ name, token string }{{"configured", c.Environment.MCP.Token}, {"override", o.MCPToken}} {
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

// digestPrefix marks a token in the configuration that is kept as a digest.
const digestPrefix = "sha256:"

// tokenDigest returns the digest of a token as configured: in clear, or as
// "sha256:" and the digest in hex.
func tokenDigest(token string) (digest [32]byte, err error) {
	text, isDigest := strings.CutPrefix(token, digestPrefix)
	if !isDigest {
		return access.DigestOf(token), nil
	}
	if n, err := hex.Decode(digest[:], []byte(text)); err != nil || n != len(digest) {
		return digest, fmt.Errorf("a token that begins with %s must go on with 64 hexadecimal digits", digestPrefix)
	}
	return digest, nil
}
