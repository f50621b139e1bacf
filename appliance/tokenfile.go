package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// TokenFile returns the path of the file beside the database in which the first
// start of a service leaves the first admin token, since nobody is there to be
// shown it, and whether the file is there.
func TokenFile(dataDir string) (path string, there bool) {
	path = filepath.Join(dataDir, "admin.token")
	_, err := os.Lstat(path)
	return path, err == nil
}

// RemoveFile implements builtin.Tokens.
func (t tokens) RemoveFile() (path string, removed bool, err error) {
	path, _ = TokenFile(t.dir)
	switch err := os.Remove(path); {
	case err == nil:
		return path, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	default:
		return path, false, fmt.Errorf("remove the file with the first admin token: %w", err)
	}
}
