package store

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/access"
)

var _ access.TokenStore = (*DB)(nil)

// tokenRecord is a token as it is kept; its digest is the key.
type tokenRecord struct {
	Name     string    `json:"name"`
	Accessor string    `json:"accessor"`
	Scope    string    `json:"scope"`
	Allow    []string  `json:"allow,omitempty"`
	Deny     []string  `json:"deny,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
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
		Name: r.Name, Accessor: r.Accessor, Digest: [32]byte(digest), Scope: scope,
		Allow: r.Allow, Deny: r.Deny, Created: r.Created, Expires: r.Expires,
	}, nil
}

// TokenByDigest implements access.TokenStore. Every request calls it, and it
// reads the database each time: a revoked token is refused from the next call on.
func (db *DB) TokenByDigest(ctx context.Context, digest [32]byte) (access.Token, error) {
	var t access.Token
	err := db.view(ctx, func(tx *bolt.Tx) error {
		payload, err := get(tx, bucketTokens, digest[:])
		if err != nil {
			return err
		}
		if payload == nil {
			return access.ErrNoToken
		}
		t, err = decodeToken(digest[:], payload)
		return err
	})
	return t, err
}

// Tokens implements access.TokenStore.
func (db *DB) Tokens(ctx context.Context) ([]access.Token, error) {
	var tokens []access.Token
	err := db.view(ctx, func(tx *bolt.Tx) error {
		return db.each(tx, bucketTokens, func(digest, payload []byte) error {
			t, err := decodeToken(digest, payload)
			if err == nil {
				tokens = append(tokens, t)
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	sortBy(tokens, func(t access.Token) string { return t.Name })
	return tokens, nil
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
		err := putJSON(tx, bucketTokens, t.Digest[:], tokenRecord{
			Name: t.Name, Accessor: t.Accessor, Scope: t.Scope.String(), Allow: t.Allow, Deny: t.Deny,
			Created: t.Created.UTC(), Expires: t.Expires.UTC(),
		})
		if err != nil {
			return err
		}
		return put(tx, bucketTokenNames, []byte(t.Name), t.Digest[:])
	})
}

// DeleteToken implements access.TokenStore. It works on damaged records too: a
// token must always be revocable.
func (db *DB) DeleteToken(ctx context.Context, name string) error {
	return db.update(ctx, func(tx *bolt.Tx) error {
		// Not by way of the name record alone: that may be the damaged one.
		var digests [][]byte
		err := db.each(tx, bucketTokens, func(digest, payload []byte) error {
			t, err := decodeToken(digest, payload)
			if err == nil && t.Name == name {
				digests = append(digests, t.Digest[:])
			}
			return err
		})
		if err != nil {
			return err
		}
		switch digest, err := get(tx, bucketTokenNames, []byte(name)); {
		case db.skipBad(err) != nil:
			return err
		case digest != nil:
			digests = append(digests, append([]byte(nil), digest...))
		}
		found, err := remove(tx, bucketTokenNames, []byte(name))
		if err != nil {
			return err
		}
		for _, d := range digests {
			ok, err := remove(tx, bucketTokens, d)
			if err != nil {
				return err
			}
			found = found || ok
		}
		if !found {
			return fmt.Errorf("delete token %s: %w", name, access.ErrNoToken)
		}
		return nil
	})
}
