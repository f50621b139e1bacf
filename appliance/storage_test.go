package appliance

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ze.internal/ze/appliance/command"
	"ze.internal/ze/store"
)

// TestBackupOutOfReach: a backup that the daemon cannot write, or that nobody
// would find, is refused with the place where it can be.
func TestBackupOutOfReach(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	o := store.Options{Dir: dir, Instance: "test"}
	if err := store.Create(o); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	unseen := t.TempDir()
	s := storage{db, dir, func(file string) bool { return filepath.Dir(file) == unseen }}
	for file, says := range map[string]string{
		"/sys/copy.db":                                   "permission denied",
		filepath.Join(unseen, "copy.db"):                 "nobody but the daemon's service would see",
		filepath.Join(t.TempDir(), "nowhere", "copy.db"): "there is no such directory",
		filepath.Join(dir, "ze.db"):                      "a file of the store itself",
	} {
		_, err := s.Backup(t.Context(), file, true)
		var refused *command.Error
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, says) {
			t.Errorf("%s: %v", file, err)
			continue
		}
		named := slices.ContainsFunc(refused.Actions, func(a string) bool { return strings.Contains(a, filepath.Join(dir, "backup.db")) })
		if want := filepath.Dir(file) != dir; named != want {
			t.Errorf("%s: names a place: %v, want %v: %q", file, named, want, refused.Actions)
		}
		if _, err := os.Stat(file); err == nil && filepath.Dir(file) != dir {
			t.Errorf("%s is there", file)
		}
	}
	if _, err := s.Backup(t.Context(), filepath.Join(t.TempDir(), "copy.db"), false); err != nil {
		t.Error(err)
	}
}
