package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"ze.internal/ze/appliance/access"
)

// TokenFile returns the path of the file beside the database in which the first
// start of a service leaves the first admin token, since nobody is there to be
// shown it, and whether the file is there.
func TokenFile(dataDir string) (path string, there bool) {
	path = filepath.Join(dataDir, "admin.token")
	_, err := os.Lstat(path)
	return path, err == nil
}

// RemoveStaleTokenFile removes that file if a token is in it that is not, or is no
// longer, the newest of its name among those kept.
func RemoveStaleTokenFile(ctx context.Context, dataDir string, kept interface {
	Tokens(context.Context) ([]access.Token, error)
}) (path string, removed bool, err error) {
	path, _ = TokenFile(dataDir)
	text, err := os.ReadFile(path)
	text = bytes.TrimSpace(text)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return path, false, nil // an empty one may be where a shell is about to put a token
	} else if err != nil {
		return path, false, err
	}
	all, err := kept.Tokens(ctx)
	if err != nil {
		return path, false, err
	}
	digest := access.DigestOf(string(text))
	if slices.ContainsFunc(all, func(t access.Token) bool { return t.Digest == digest && !t.Rotated }) {
		return path, false, nil
	}
	return removeTokenFile(path)
}

func removeTokenFile(path string) (_ string, removed bool, err error) {
	switch err := os.Remove(path); {
	case err == nil:
		return path, true, nil
	case errors.Is(err, fs.ErrNotExist):
		return path, false, nil
	default:
		return path, false, fmt.Errorf("remove the file with the first admin token: %w", err)
	}
}

// RemoveFile implements builtin.Tokens.
func (t tokens) RemoveFile() (path string, removed bool, err error) {
	path, _ = TokenFile(t.dir)
	return removeTokenFile(path)
}

// RemoveStaleFile implements builtin.Tokens.
func (t tokens) RemoveStaleFile(ctx context.Context) (path string, removed bool, err error) {
	return RemoveStaleTokenFile(ctx, t.dir, t)
}
