package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestSetAside(t *testing.T) {
	o := options(privateDir(t))
	db := openTest(t, o)
	check(t, db.CreateToken(t.Context(), testToken("a")))
	if _, err := SetAside(o); !errors.Is(err, ErrLocked) {
		t.Errorf("while open: %v", err)
	}
	check(t, db.Close())
	aside, err := SetAside(o)
	check(t, err)
	if filepath.Dir(aside) != o.Dir {
		t.Errorf("set aside as %s", aside)
	}
	check(t, Create(o))
	db = openTest(t, o)
	if tokens, err := db.Tokens(t.Context()); err != nil || len(tokens) != 0 {
		t.Errorf("the new database holds %v, %v", tokens, err)
	}
	check(t, db.Close())
	// The old one is whole.
	check(t, os.Rename(aside, filepath.Join(o.Dir, FileName)))
	if _, err := openTest(t, o).TokenByDigest(t.Context(), testToken("a").Digest); err != nil {
		t.Error(err)
	}
	o = options(filepath.Join(t.TempDir(), "nowhere"))
	if aside, err := SetAside(o); aside != "" || err != nil {
		t.Errorf("of nothing: %q, %v", aside, err)
	}
}
