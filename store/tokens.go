package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/access"
)

var _ access.TokenStore = (*DB)(nil)

// tokenRecord is a token as it is kept; its digest is the key.
type tokenRecord struct {
	Name     string    `json:"name"`
	Accessor string    `json:"accessor"`
	Origin   string    `json:"origin,omitempty"`
	Scope    string    `json:"scope"`
	Allow    []string  `json:"allow,omitempty"`
	Deny     []string  `json:"deny,omitempty"`
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Rotated  bool      `json:"rotated,omitempty"` // another secret has taken its place; until it expires this one works too
}

func decodeToken(digest, payload []byte) (access.Token, error) {
	var r tokenRecord
	if err := unmarshal(bucketTokens, digest, payload, &r); err != nil {
		return access.Token{}, err
	}
	scope, ok := access.ParseScope(r.Scope)
	if !ok || len(digest) != 32 {
		return access.Token{}, badRecord(bucketTokens, digest, fmt.Sprintf("scope %q", r.Scope))
	}
	return access.Token{
		Name: r.Name, Accessor: r.Accessor, Origin: r.Origin, Digest: [32]byte(digest), Scope: scope,
		Allow: r.Allow, Deny: r.Deny, Created: r.Created, Used: r.Used, Expires: r.Expires, Rotated: r.Rotated,
	}, nil
}

func putToken(tx *bolt.Tx, t access.Token) error {
	return putJSON(tx, bucketTokens, t.Digest[:], tokenRecord{
		Name: t.Name, Accessor: t.Accessor, Origin: t.Origin, Scope: t.Scope.String(), Allow: t.Allow, Deny: t.Deny,
		Created: t.Created.UTC(), Used: t.Used.UTC(), Expires: t.Expires.UTC(), Rotated: t.Rotated,
	})
}

// TokenByDigest implements access.TokenStore. Every request calls it. What it
// has read counts until the next change of the database, whatever that is: a
// revoked token is refused from the next call on.
func (db *DB) TokenByDigest(ctx context.Context, digest [32]byte) (access.Token, error) {
	at := db.changes.Load() // before the look, so that nothing old counts as new
	if t, ok := db.looked.token(digest, at); ok {
		return t, nil
	}
	return db.lookUp(ctx, digest, at)
}

func (db *DB) lookUp(ctx context.Context, digest [32]byte, at uint64) (access.Token, error) {
	var t access.Token
	err := db.view(ctx, func(tx *bolt.Tx) (err error) {
		t, err = tokenByDigest(tx, digest[:])
		return err
	})
	if err == nil {
		t.Allow, t.Deny = slices.Clip(t.Allow), slices.Clip(t.Deny) // all callers share them
		db.looked.add(digest, at, t)
	}
	return t, err
}

// lookedUp holds tokens that were found in one state of the database.
type lookedUp struct {
	mu     sync.Mutex
	at     uint64 // DB.changes of that state
	tokens map[[32]byte]access.Token
}

func (l *lookedUp) token(digest [32]byte, at uint64) (access.Token, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.tokens[digest]
	return t, ok && l.at == at
}

func (l *lookedUp) add(digest [32]byte, at uint64, t access.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case at < l.at:
		return
	case at > l.at || l.tokens == nil:
		l.at, l.tokens = at, map[[32]byte]access.Token{}
	}
	l.tokens[digest] = t
}

func tokenByDigest(tx *bolt.Tx, digest []byte) (access.Token, error) {
	payload, err := get(tx, bucketTokens, digest)
	if err != nil {
		return access.Token{}, err
	}
	if payload == nil {
		return access.Token{}, access.ErrNoToken
	}
	return decodeToken(digest, payload)
}

// Tokens implements access.TokenStore.
func (db *DB) Tokens(ctx context.Context) ([]access.Token, error) {
	var tokens []access.Token
	err := db.view(ctx, func(tx *bolt.Tx) error {
		tokens = nil
		return db.eachToken(tx, func(t access.Token) error {
			tokens = append(tokens, t)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tokens, func(a, b access.Token) int {
		switch {
		case a.Name != b.Name:
			return cmp.Compare(a.Name, b.Name)
		case a.Rotated == b.Rotated:
			return 0
		case b.Rotated:
			return -1
		}
		return 1
	})
	return tokens, nil
}

func (db *DB) eachToken(tx *bolt.Tx, fn func(access.Token) error) error {
	return db.each(tx, bucketTokens, func(digest, payload []byte) error {
		t, err := decodeToken(digest, payload)
		if err != nil {
			return err
		}
		return fn(t)
	})
}

// CreateToken implements access.TokenStore.
func (db *DB) CreateToken(ctx context.Context, t access.Token) error {
	if err := checkName("token name", t.Name); err != nil {
		return err
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		for bucket, key := range map[string][]byte{bucketTokenNames: []byte(t.Name), bucketTokens: t.Digest[:]} {
			old, err := get(tx, bucket, key)
			if err != nil {
				return err
			}
			if old != nil {
				return fmt.Errorf("create token %s: %w", t.Name, access.ErrTokenExists)
			}
		}
		if err := putToken(tx, t); err != nil {
			return err
		}
		return put(tx, bucketTokenNames, []byte(t.Name), t.Digest[:])
	})
}

// RotateToken implements access.TokenStore.
func (db *DB) RotateToken(ctx context.Context, name string, next access.Token, until time.Time) (access.Token, error) {
	var rotated access.Token
	err := db.update(ctx, func(tx *bolt.Tx) error {
		digest, err := get(tx, bucketTokenNames, []byte(name))
		if err != nil {
			return err
		}
		if digest == nil {
			return fmt.Errorf("rotate token %s: %w", name, access.ErrNoToken)
		}
		old, err := tokenByDigest(tx, digest)
		if err != nil {
			return fmt.Errorf("rotate token %s: %w", name, err)
		}
		// Only the secret before this one goes on working, not those before it.
		if _, _, err := db.removeToken(tx, name); err != nil {
			return err
		}
		rotated = old
		rotated.Origin = cmp.Or(old.Origin, old.Accessor)
		rotated.Digest, rotated.Accessor, rotated.Created, rotated.Used = next.Digest, next.Accessor, next.Created, time.Time{}
		if err := putToken(tx, rotated); err != nil {
			return err
		}
		if err := put(tx, bucketTokenNames, []byte(name), rotated.Digest[:]); err != nil || until.IsZero() {
			return err
		}
		if old.Rotated = true; old.Expires.IsZero() || until.Before(old.Expires) {
			old.Expires = until
		}
		return putToken(tx, old)
	})
	return rotated, err
}

// UseTokens implements access.TokenStore.
func (db *DB) UseTokens(ctx context.Context, used map[[32]byte]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return db.update(ctx, func(tx *bolt.Tx) error {
		for digest, at := range used {
			t, err := tokenByDigest(tx, digest[:])
			if errors.Is(err, access.ErrNoToken) || errors.Is(err, ErrBadRecord) {
				continue // revoked in the meantime, and it stays so
			}
			if err != nil {
				return err
			}
			if !at.After(t.Used) {
				continue
			}
			t.Used = at
			if err := putToken(tx, t); err != nil {
				return err
			}
		}
		return db.keepClock(tx)
	})
}

// DeleteToken implements access.TokenStore. It works on damaged records too: a
// token must always be revocable.
func (db *DB) DeleteToken(ctx context.Context, name string) (owned bool, err error) {
	err = db.update(ctx, func(tx *bolt.Tx) error {
		owned = false
		owners, found, err := db.removeToken(tx, name)
		if err == nil && !found {
			err = fmt.Errorf("delete token %s: %w", name, access.ErrNoToken)
		}
		for _, owner := range owners {
			if err != nil {
				break
			}
			var had bool
			had, err = removeCandidate(tx, owner)
			owned = owned || had
		}
		return err
	})
	return owned, err
}

// removeToken removes every secret of a token, reports whether there was one,
// and returns the owners they stood for.
func (db *DB) removeToken(tx *bolt.Tx, name string) (owners []string, found bool, err error) {
	// Not by way of the name record alone: that may be the damaged one.
	var digests [][]byte
	if err := db.eachToken(tx, func(t access.Token) error {
		if t.Name == name {
			digests = append(digests, t.Digest[:])
			owners = append(owners, t.Owner())
		}
		return nil
	}); err != nil {
		return nil, false, err
	}
	switch digest, err := get(tx, bucketTokenNames, []byte(name)); {
	case db.skipBad(err) != nil:
		return nil, false, err
	case digest != nil:
		digests = append(digests, append([]byte(nil), digest...))
	}
	if found, err = remove(tx, bucketTokenNames, []byte(name)); err != nil {
		return nil, false, err
	}
	for _, d := range digests {
		ok, err := remove(tx, bucketTokens, d)
		if err != nil {
			return nil, false, err
		}
		found = found || ok
	}
	return owners, found, nil
}
