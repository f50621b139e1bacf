package store

import (
	"context"
	"errors"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"ze.internal/ze/appliance/access"
	"ze.internal/ze/appliance/audit"
)

func works(t testing.TB, db *DB, secret string) (access.Token, bool) {
	t.Helper()
	token, err := db.TokenByDigest(t.Context(), access.DigestOf(secret))
	if err != nil && !errors.Is(err, access.ErrNoToken) {
		t.Fatal(err)
	}
	return token, err == nil
}

// revoke deletes a token by whose name nothing else is kept.
func revoke(ctx context.Context, db *DB, name string) error {
	_, err := db.DeleteToken(ctx, name)
	return err
}

func TestRotateToken(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	db := openTest(t, o)
	old := testToken("ci")
	check(t, db.CreateToken(ctx, old))
	check(t, db.CreateToken(ctx, testToken("other")))
	rotate := func(secret string, until time.Time) access.Token {
		t.Helper()
		got, err := db.RotateToken(ctx, "ci", access.Token{Accessor: "acc-" + secret, Digest: access.DigestOf(secret), Created: now.Add(time.Minute)}, until)
		check(t, err)
		return got
	}
	got := rotate("second", now.Add(10*time.Minute))
	if got.Name != "ci" || got.Scope != old.Scope || len(got.Allow) != 1 || len(got.Deny) != 1 || !got.Expires.Equal(old.Expires) || got.Accessor != "acc-second" || got.Rotated {
		t.Errorf("%+v", got)
	}
	if before, ok := works(t, db, "ci"); !ok || !before.Rotated || !before.Expires.Equal(now.Add(10*time.Minute)) || before.Name != "ci" {
		t.Errorf("the old secret: %v %+v", ok, before)
	}
	if after, ok := works(t, db, "second"); !ok || after.Rotated || !after.Expires.Equal(old.Expires) {
		t.Errorf("the new secret: %v %+v", ok, after)
	}
	// An overlap does not lengthen a life, and only one older secret works.
	rotate("third", now.Add(10*time.Hour))
	if before, ok := works(t, db, "second"); !ok || !before.Expires.Equal(old.Expires) {
		t.Errorf("longer than it was to live: %v %+v", ok, before)
	}
	if _, ok := works(t, db, "ci"); ok {
		t.Error("the secret before the last one still works")
	}
	// Both are durable.
	check(t, db.Close())
	db = openTest(t, o)
	for _, secret := range []string{"second", "third", "other"} {
		if _, ok := works(t, db, secret); !ok {
			t.Errorf("%s is gone after a restart", secret)
		}
	}
	all, err := db.Tokens(ctx)
	check(t, err)
	if len(all) != 3 || all[0].Accessor != "acc-third" || !all[1].Rotated || all[2].Name != "other" {
		t.Errorf("%+v", all)
	}
	rotate("fourth", time.Time{})
	for _, secret := range []string{"second", "third"} {
		if _, ok := works(t, db, secret); ok {
			t.Errorf("%s works without an overlap", secret)
		}
	}
	rotate("fifth", now.Add(time.Minute))
	check(t, revoke(ctx, db, "ci"))
	for _, secret := range []string{"fourth", "fifth"} {
		if _, ok := works(t, db, secret); ok {
			t.Errorf("%s works after the revocation", secret)
		}
	}
	if _, err := db.RotateToken(ctx, "ci", access.Token{}, time.Time{}); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("rotate what is gone: %v", err)
	}
	bad, err := db.CheckRecords(ctx)
	if len(bad) > 0 || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
}

func TestUseTokens(t *testing.T) {
	ctx, db := t.Context(), openTest(t, options(privateDir(t)))
	a, b := testToken("a"), testToken("b")
	check(t, db.CreateToken(ctx, a))
	check(t, db.CreateToken(ctx, b))
	check(t, revoke(ctx, db, "b"))
	used := map[[32]byte]time.Time{a.Digest: now.Add(time.Minute), b.Digest: now}
	check(t, db.UseTokens(ctx, used))
	check(t, db.UseTokens(ctx, map[[32]byte]time.Time{a.Digest: now})) // not backwards
	got, ok := works(t, db, "a")
	if !ok || !got.Used.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", got)
	}
	if got.Used = (time.Time{}); got.Name != a.Name || got.Scope != a.Scope || !got.Expires.Equal(a.Expires) || len(got.Deny) != 1 {
		t.Errorf("a use changed %+v", got)
	}
	if _, ok := works(t, db, "b"); ok {
		t.Error("a use brought a revoked token back")
	}
}

// What has expired stays so: the time never goes back, also not over a restart.
func TestClockNeverGoesBack(t *testing.T) {
	ctx, o := t.Context(), options(privateDir(t))
	wall := now
	o.Clock = func() time.Time { return wall }
	db := openTest(t, o)
	if got := db.Now(); !got.Equal(now) {
		t.Errorf("%v", got)
	}
	tick := func() { check(t, db.AppendAudit(ctx, []audit.Record{{Command: "x"}})) }
	tick()
	kept := func() (at time.Time) {
		check(t, db.view(ctx, func(tx *bolt.Tx) error {
			n, err := keptClock(tx)
			at = time.Unix(0, n)
			return err
		}))
		return at
	}
	for range 100 { // five minutes
		wall = wall.Add(3 * time.Second)
		before := kept()
		tick()
		if after := kept(); !after.Equal(before) && after.Sub(before) < time.Minute {
			t.Fatalf("kept twice within %v", after.Sub(before))
		}
		if wall.Sub(kept()) >= time.Minute {
			t.Fatalf("what is kept is %v old", wall.Sub(kept()))
		}
	}
	wall = now.Add(time.Hour)
	tick()
	for _, back := range []time.Duration{-time.Second, -24 * time.Hour, -10 * 365 * 24 * time.Hour} {
		wall = now.Add(back)
		if got := db.Now(); got.Before(now.Add(time.Hour)) {
			t.Errorf("set back by %v: %v", back, got)
		}
	}
	tick() // does not bring it back either
	check(t, db.Close())
	db = openTest(t, o)
	if got := db.Now(); got.Before(now.Add(time.Hour)) {
		t.Errorf("after a restart with the clock set back: %v", got)
	}
	wall = now.Add(2 * time.Hour)
	if got := db.Now(); !got.Equal(wall) {
		t.Errorf("time stands still: %v", got)
	}
}

// TestTokenLookupIsFresh: what was found once counts until the next change, and
// no longer than the database is open.
func TestTokenLookupIsFresh(t *testing.T) {
	db := openTest(t, options(privateDir(t)))
	check(t, db.CreateToken(t.Context(), testToken("ci")))
	digest := testToken("ci").Digest
	for range 2 {
		if _, err := db.TokenByDigest(t.Context(), digest); err != nil {
			t.Fatal(err)
		}
	}
	check(t, revoke(t.Context(), db, "ci"))
	if _, err := db.TokenByDigest(t.Context(), digest); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("a revoked token is looked up: %v", err)
	}
	check(t, db.CreateToken(t.Context(), testToken("ci")))
	if _, err := db.TokenByDigest(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
	check(t, db.Close())
	if _, err := db.TokenByDigest(t.Context(), digest); err == nil {
		t.Error("a closed database knows tokens")
	}
}
