package systemd

import (
	"os"
	"path/filepath"
	"strings"
)

// Private reports whether file is, or would be, in a directory that nobody but
// this service sees, and that ends with it: /tmp with PrivateTmp= in
// systemd.exec(5).
func Private(file string) bool {
	dir, err := filepath.EvalSymlinks(filepath.Dir(file))
	if err != nil {
		return false
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && private(string(mounts), dir)
}

// private looks dir up in a mountinfo (proc_pid_mountinfo(5)): the fourth field
// is what of a file system is mounted, the fifth where.
func private(mounts, dir string) (is bool) {
	longest := ""
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		at := f[4]
		// Of mounts at one place the last covers the others.
		if under := dir == at || strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/"); under && len(at) >= len(longest) {
			longest, is = at, strings.Contains(f[3], "/systemd-private-")
		}
	}
	return is
}
