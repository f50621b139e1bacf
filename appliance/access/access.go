// Package access answers two questions about a request: who is calling, and
// what may they do. It owns principals, tokens and scopes. It must not know
// commands, transports or the database: the little it needs kept is declared
// here as TokenStore.
package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	Origin   string   // accessor before the first rotation; "": Accessor, the secret was never replaced
	Scope    Scope    // what it may do everywhere
	Allow    []string // command path prefixes allowed beyond Scope
	Deny     []string // command path prefixes refused; deny beats allow and scope
}

// Owner names the principal as the owner of what is kept for it, whatever
// surface it comes by. Of a token, all secrets that follow each other are one
// owner; one created anew under the same name is another.
func (p *Principal) Owner() string { return owner(p.Name, p.Accessor, p.Origin) }

func owner(name, accessor, origin string) string {
	return name + " (" + cmp.Or(origin, accessor) + ")"
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

// Delegate fits t to what the principal may do itself: nobody hands on more than
// they have. What it is denied the token is denied, too. The error says what
// would be too much.
func (p *Principal) Delegate(t *Token) error {
	if t.Scope > p.Scope {
		return fmt.Errorf("scope %s is more than yours, %s", t.Scope, p.Scope)
	}
	for _, a := range t.Allow {
		if p.Scope < Admin && !slices.ContainsFunc(p.Allow, func(own string) bool { return hasPathPrefix(a, own) }) {
			return fmt.Errorf("%q is not among the commands you are allowed yourself", a)
		}
	}
	for _, d := range p.Deny {
		if !slices.Contains(t.Deny, d) {
			t.Deny = append(t.Deny, d)
		}
	}
	return nil
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
	Origin   string   // accessor before the first rotation; "": never rotated
	Digest   [32]byte // SHA-256 of the secret
	Scope    Scope
	Allow    []string
	Deny     []string
	Created  time.Time
	Used     time.Time // last use, give or take a minute; zero: never
	Expires  time.Time // zero: never
	Rotated  bool      // the secret was replaced; this one works until it expires
}

// Owner is Principal.Owner of who brings the token.
func (t Token) Owner() string { return owner(t.Name, t.Accessor, t.Origin) }

// Errors a TokenStore returns; test with errors.Is.
var (
	ErrNoToken     = errors.New("no such token")
	ErrTokenExists = errors.New("a token with this name exists")
)

// TokenStore is what this package needs kept. Every method is one atomic step
// and durable when it returns.
type TokenStore interface {
	TokenByDigest(ctx context.Context, digest [32]byte) (Token, error) // ErrNoToken
	Tokens(ctx context.Context) ([]Token, error)                       // sorted by name, a rotated one after its successor
	CreateToken(ctx context.Context, t Token) error                    // ErrTokenExists
	// DeleteToken removes every secret of the token called name, and what is kept
	// for its owner; owned reports whether there was any. ErrNoToken.
	DeleteToken(ctx context.Context, name string) (owned bool, err error)
	// RotateToken gives the token called name the digest, accessor and time of
	// creation of next, and returns it; its owner stays the same. Its old secret works until a time; zero:
	// not any more. ErrNoToken.
	RotateToken(ctx context.Context, name string, next Token, until time.Time) (Token, error)
	// UseTokens keeps when tokens, by digest, were used last. One that is gone
	// stays so.
	UseTokens(ctx context.Context, used map[[32]byte]time.Time) error
	// Now returns the time, never an earlier one than before: a clock that is set
	// back brings no expired token to life.
	Now() time.Time
}
