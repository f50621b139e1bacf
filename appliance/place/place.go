// Package place says where things of ze are on this machine unless somebody says
// otherwise. The daemon and every program that looks for it must agree on that.
// It must not know flags, settings, or what is kept there.
package place

import (
	"os"
	"path/filepath"
)

const (
	systemData   = "/var/lib/ze"
	systemSocket = "/run/ze/ze.sock"
	socketName   = "ze.sock"
)

// DataDir returns the directory of the database.
func DataDir() string {
	if os.Geteuid() == 0 {
		return systemData
	}
	if info, err := os.Stat(systemData); err == nil && info.IsDir() {
		return systemData
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "ze")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "ze-data"
	}
	return filepath.Join(home, ".local", "state", "ze")
}

// Socket returns where the daemon of a data directory is reached. A directory
// that was named holds its own socket, so that several daemons on one machine
// do not meet; "" stands for the one that DataDir returns.
func Socket(named string) string {
	if named != "" {
		return filepath.Join(named, socketName)
	}
	dir := DataDir()
	switch runtime := os.Getenv("XDG_RUNTIME_DIR"); {
	case dir == systemData:
		return systemSocket
	case runtime != "":
		return filepath.Join(runtime, "ze", socketName)
	}
	return filepath.Join(dir, socketName)
}
