// Package access answers two questions about a request: who is calling, and
// what may they do. It owns principals, tokens and scopes. It must not know
// commands, transports or the database: the little it needs kept is declared
// here as TokenStore.
package access

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Scope is how much a principal may do. Each scope includes the ones below it.
type Scope uint8

// Scopes, from nothing to everything.
const (
	None  Scope = iota
	Read        // look at state
	Write       // change configuration, state and routes
	Admin       // destroy, and manage identities and the store
)

var scopeNames = [...]string{"none", "read", "write", "admin"}

// String returns the name that configuration and token commands use.
func (s Scope) String() string { return scopeNames[s] }

// ParseScope is the inverse of String.
func ParseScope(name string) (Scope, bool) {
	for i, n := range scopeNames {
		if n == name {
			return Scope(i), true
		}
	}
	return None, false
}

// Principal is an authenticated caller. The zero value may do nothing.
type Principal struct {
	Name     string   // token name, identity name, or the local user's name
	Accessor string   // public handle of the credential, for logs and listings; never the secret
	Scope    Scope    // what it may do everywhere
	Allow    []string // command path prefixes allowed beyond Scope
	Deny     []string // command path prefixes refused; deny beats allow and scope
}

// May reports whether the principal may run the command at path (words joined
// by single spaces) that needs scope need.
func (p *Principal) May(path string, need Scope) bool {
	for _, d := range p.Deny {
		if hasPathPrefix(path, d) {
			return false
		}
	}
	if p.Scope >= need {
		return true
	}
	for _, a := range p.Allow {
		if hasPathPrefix(path, a) {
			return true
		}
	}
	return false
}

// View identifies what the principal can see: two principals with equal views
// see the same commands, so answers that list commands are cached by it.
func (p *Principal) View() string {
	if len(p.Allow) == 0 && len(p.Deny) == 0 {
		return scopeNames[p.Scope]
	}
	return scopeNames[p.Scope] + "\x00" + strings.Join(p.Allow, "\x01") + "\x00" + strings.Join(p.Deny, "\x01")
}

func hasPathPrefix(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == ' ' || prefix == "")
}

// Token is a bearer credential as it is kept: everything but the secret.
type Token struct {
	Name     string
	Accessor string   // public handle, shown in lists and the audit log
	Digest   [32]byte // SHA-256 of the secret
	Scope    Scope
	Allow    []string
	Deny     []string
	Created  time.Time
	Expires  time.Time // zero: never
}

// Errors a TokenStore returns; test with errors.Is.
var (
	ErrNoToken     = errors.New("no such token")
	ErrTokenExists = errors.New("a token with this name exists")
)

// TokenStore is what this package needs kept. Every method is one atomic step
// and durable when it returns.
type TokenStore interface {
	TokenByDigest(ctx context.Context, digest [32]byte) (Token, error) // ErrNoToken
	Tokens(ctx context.Context) ([]Token, error)                       // sorted by name
	CreateToken(ctx context.Context, t Token) error                    // ErrTokenExists
	DeleteToken(ctx context.Context, name string) error                // ErrNoToken
}
