package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Authentication modes, as configured.
const (
	ModeNone       = "none"        // everybody is the same administrator; loopback only
	ModeBearer     = "bearer"      // the configured token, and those in the store
	ModeBearerList = "bearer-list" // configured identities, the configured token, and those in the store
)

var modes = []string{ModeNone, ModeBearer, ModeBearerList}

// AuthError says why a request is not authenticated. It never carries what was
// presented, so it can be logged and counted.
type AuthError struct {
	Reason  string // label of ze_auth_failures_total
	Message string // for the caller: what to do
	Err     error  // cause, for the log; only with ErrAuthUnavailable
}

// Error implements error.
func (e *AuthError) Error() string { return e.Message }

// Unwrap implements errors.Unwrap.
func (e *AuthError) Unwrap() error { return e.Err }

// Is makes errors.Is match by reason.
func (e *AuthError) Is(target error) bool {
	t, ok := target.(*AuthError)
	return ok && t.Reason == e.Reason
}

// Why a request is not authenticated; test with errors.Is.
var (
	ErrAuthMissing     = &AuthError{Reason: "missing", Message: "a bearer token is needed: send the header Authorization: Bearer TOKEN; `ze token create` makes one"}
	ErrAuthMalformed   = &AuthError{Reason: "malformed", Message: "the Authorization header cannot be read; it must be: Authorization: Bearer TOKEN"}
	ErrAuthUnknown     = &AuthError{Reason: "unknown", Message: "the bearer token is not known here; it may have been revoked: `ze token create` makes another"}
	ErrAuthExpired     = &AuthError{Reason: "expired", Message: "the bearer token has expired; `ze token create` makes another"}
	ErrAuthUnavailable = &AuthError{Reason: "unavailable", Message: "tokens cannot be looked up now; try again"}
)

// StaticToken is a credential from outside the store: the one token given by
// flag, environment or configuration, or an identity of mode bearer-list.
type StaticToken struct {
	Name   string
	Digest [32]byte // DigestOf the secret
	Scope  Scope
	Allow  []string
	Deny   []string
}

// AuthOptions are what an Authenticator is made of.
type AuthOptions struct {
	Mode   string
	Static []StaticToken
	Store  TokenStore // may be nil: then only Static counts
	Usage  *Usage     // told of every use of a token of Store; may be nil
}

// Authenticator turns an Authorization header into a Principal. It keeps no
// answer of the store: a revoked token is refused on the next request.
type Authenticator struct {
	credentials atomic.Pointer[Credentials]
	failures    *prometheus.CounterVec
}

// Credentials are checked AuthOptions, ready to be applied.
type Credentials struct {
	open   *Principal // mode none: everybody
	static []staticPrincipal
	store  TokenStore
	usage  *Usage
}

type staticPrincipal struct {
	digest    [32]byte
	principal Principal
}

// Prepare checks o; an unknown mode is an error. Whether the settings make sense
// together is for Settings.Check to say.
func (o AuthOptions) Prepare() (*Credentials, error) {
	c := &Credentials{store: o.Store, usage: o.Usage}
	switch o.Mode {
	case ModeNone:
		c.open = &Principal{Name: NameAnonymous, Accessor: "none", Scope: Admin}
		return c, nil
	case ModeBearer, ModeBearerList:
	default:
		return nil, fmt.Errorf("authentication mode %q: allowed are %s", o.Mode, strings.Join(modes, ", "))
	}
	for _, t := range o.Static {
		c.static = append(c.static, staticPrincipal{t.Digest, Principal{
			Name: t.Name, Accessor: "static:" + t.Name, Scope: t.Scope, Allow: t.Allow, Deny: t.Deny,
		}})
	}
	return c, nil
}

// NewAuthenticator returns an Authenticator that applies o.
func NewAuthenticator(o AuthOptions) (*Authenticator, error) {
	c, err := o.Prepare()
	if err != nil {
		return nil, err
	}
	a := &Authenticator{failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ze_auth_failures_total", Help: "Requests that were not authenticated; ze_mcp_requests_total has all of them.",
	}, []string{"reason"})}
	for _, e := range []*AuthError{ErrAuthMissing, ErrAuthMalformed, ErrAuthUnknown, ErrAuthExpired, ErrAuthUnavailable} {
		a.failures.WithLabelValues(e.Reason)
	}
	a.Apply(c)
	return a, nil
}

// Apply makes c count from the next request on.
func (a *Authenticator) Apply(c *Credentials) { a.credentials.Store(c) }

// Collectors returns the authenticator's metrics, to be registered once by the
// caller.
func (a *Authenticator) Collectors() []prometheus.Collector {
	return []prometheus.Collector{a.failures}
}

// Authenticate returns who sends a request with this Authorization header; ""
// means that there is none. The error is an *AuthError.
func (a *Authenticator) Authenticate(ctx context.Context, authorization string) (*Principal, error) {
	c := a.credentials.Load()
	if c.open != nil {
		return c.open, nil
	}
	p, err := c.bearer(ctx, authorization)
	if err != nil {
		a.failures.WithLabelValues(err.Reason).Inc()
		return nil, err
	}
	return p, nil
}

func (c *Credentials) bearer(ctx context.Context, authorization string) (*Principal, *AuthError) {
	if authorization == "" {
		return nil, ErrAuthMissing
	}
	secret, ok := bearerToken(authorization)
	if !ok {
		return nil, ErrAuthMalformed
	}
	digest := DigestOf(secret)
	// Digests are compared, all of them and each in constant time, so that time
	// tells nothing about a secret.
	found := -1
	for i := range c.static {
		if subtle.ConstantTimeCompare(c.static[i].digest[:], digest[:]) == 1 {
			found = i
		}
	}
	if found >= 0 {
		return &c.static[found].principal, nil
	}
	if c.store == nil {
		return nil, ErrAuthUnknown
	}
	t, err := c.store.TokenByDigest(ctx, digest)
	switch {
	case errors.Is(err, ErrNoToken):
		return nil, ErrAuthUnknown
	case err != nil:
		return nil, &AuthError{Reason: ErrAuthUnavailable.Reason, Message: ErrAuthUnavailable.Message, Err: err}
	}
	now := c.store.Now()
	if !t.Expires.IsZero() && !now.Before(t.Expires) {
		return nil, ErrAuthExpired
	}
	if c.usage != nil {
		c.usage.used(digest, now)
	}
	return t.principal(), nil
}

func (t *Token) principal() *Principal {
	return &Principal{Name: t.Name, Accessor: t.Accessor, Origin: t.Origin, Scope: t.Scope, Allow: t.Allow, Deny: t.Deny}
}

// Owner returns the principal called owner (see Principal.Owner) with the rights
// it has now; nil if it has no valid credential any more. Local users have none
// that could end.
func (a *Authenticator) Owner(ctx context.Context, owner string) (*Principal, error) {
	if p := peerOwner(owner); p != nil {
		return p, nil
	}
	c := a.credentials.Load()
	if c.open != nil && c.open.Owner() == owner {
		return c.open, nil
	}
	for i := range c.static {
		if p := &c.static[i].principal; p.Owner() == owner {
			return p, nil
		}
	}
	if c.open != nil || c.store == nil {
		return nil, nil
	}
	all, err := c.store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	now := c.store.Now()
	for _, t := range all {
		if p := t.principal(); p.Owner() == owner && (t.Expires.IsZero() || now.Before(t.Expires)) {
			return p, nil
		}
	}
	return nil, nil
}

// maxSecret bounds the work an unauthenticated caller can ask for.
const maxSecret = 512

// bearerToken returns the token of "Bearer TOKEN" (RFC 6750 section 2.1; the
// scheme in any case, RFC 9110 section 11.1).
func bearerToken(authorization string) (string, bool) {
	const scheme = "bearer "
	if len(authorization) <= len(scheme) || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return "", false
	}
	token := strings.TrimLeft(authorization[len(scheme):], " ")
	if token == "" || len(token) > maxSecret {
		return "", false
	}
	for i := range len(token) {
		if !isToken68(token[i]) {
			return "", false
		}
	}
	return token, true
}

// isToken68 reports whether c may stand in a bearer token (b64token of RFC 6750).
func isToken68(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~+/=", c) >= 0
}
