package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// The versions that are built: one to upgrade from, and one to upgrade to.
const (
	oldVersion = "0.0.1"
	newVersion = "0.0.2"
)

// rpmArch is what rpm calls the architecture of this machine.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]

// fileName returns what the package of a version is called.
func fileName(format, version string) string {
	if format == "deb" {
		return fmt.Sprintf("ze_%s-1_%s.deb", version, runtime.GOARCH)
	}
	return fmt.Sprintf("ze-%s-1.%s.rpm", version, rpmArch)
}

// copyTree is a script that copies the tree into $DIR, to build there: what is in
// the tree's own folders belongs to others.
const copyTree = `git -C ../.. ls-files -z --cached --others --exclude-standard | tar -C ../.. --null -T - -c --ignore-failed-read | tar -C "$DIR" -x
export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
`

// packagesDir holds what build makes; "" before.
var packagesDir string

// build makes the packages of both versions, once; each has a directory.
var build = sync.OnceValue(func() (err error) {
	if packagesDir, err = os.MkdirTemp("", "ze-packages-"); err != nil {
		return err
	}
	script := copyTree + "cd \"$DIR\"\n"
	for _, version := range []string{oldVersion, newVersion} {
		script += fmt.Sprintf("make packages VERSION=%s ARCHES=%s\nmv dist %[1]s\n", version, runtime.GOARCH)
	}
	cmd := exec.Command("sh", "-ec", script)
	cmd.Env = append(os.Environ(), "DIR="+packagesDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages: %w\n%s", err, out)
	}
	return nil
})

// packages returns the files of a format: of the old version and of the new.
func packages(t *testing.T, format string) []string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, version := range []string{oldVersion, newVersion} {
		files = append(files, filepath.Join(packagesDir, version, fileName(format, version)))
	}
	return files
}

// packagedBinary returns the daemon as the Debian package has it.
func packagedBinary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, "", "dpkg-deb", "--extract", packages(t, "deb")[1], dir)
	return filepath.Join(dir, "usr/bin/ze")
}
