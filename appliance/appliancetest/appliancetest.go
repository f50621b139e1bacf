// Package appliancetest makes what the tests of several rooms need of a daemon.
// It is for tests alone.
package appliancetest

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"ze.internal/ze/appliance"
	"ze.internal/ze/appliance/access"
	"ze.internal/ze/store"
)

// CreateStore makes a database in dir with an admin token and a configuration, as
// ze init does, and returns the token.
func CreateStore(t *testing.T, dir, config string) (token string) {
	t.Helper()
	o := store.Options{Dir: dir, Instance: "test"}
	if err := store.Create(o); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	token, kept := access.NewToken(rand.Reader, "admin", access.Admin, time.Now(), time.Time{})
	err = db.CreateToken(t.Context(), kept)
	if err == nil {
		_, err = appliance.Import(t.Context(), db, []byte(config), "test", "")
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return token
}
