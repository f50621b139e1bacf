// Package systemd holds the units of the daemon and talks to the service
// manager: it tells it the truth about the daemon, takes over the sockets and
// credentials it hands out, and writes to its journal. It owns no state, and is
// the only package that imports go-systemd; it must not know what the daemon
// does. Without systemd every function is silently without effect.
package systemd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"
	"github.com/rs/zerolog/journald"
)

// Listening reports whether a service manager wants to be told anything
// (sd_notify(3)).
func Listening() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// Ready reports that the daemon answers, at its start or after Reloading.
// status is shown by systemctl status, as that of every function below.
func Ready(status string) { notify(daemon.SdNotifyReady, "STATUS="+line(status)) }

// Reloading reports that the configuration is being applied anew, until Ready.
func Reloading() {
	notify(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()), "STATUS=reloading the configuration")
}

// Alive feeds the watchdog.
func Alive(status string) { notify(daemon.SdNotifyWatchdog, "STATUS="+line(status)) }

// Status changes what systemctl status shows, and nothing else.
func Status(status string) { notify("STATUS=" + line(status)) }

// Stopping reports that the daemon is shutting down.
func Stopping() { notify(daemon.SdNotifyStopping, "STATUS=stopping") }

// Extend asks for d from now on to become ready, however long it took so far.
func Extend(d time.Duration, status string) {
	notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()), "STATUS="+line(status))
}

// notify sends assignments. That nobody listens, or no longer does, changes
// nothing for the daemon.
func notify(assignments ...string) {
	_, _ = daemon.SdNotify(false, strings.Join(assignments, "\n"))
}

// line makes a status of any text: an assignment ends with its line.
func line(text string) string { return strings.Join(strings.FieldsFunc(text, isBreak), "; ") }

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// Watchdog returns how long the service manager waits for Alive before it kills
// the daemon; 0: it does not watch.
func Watchdog() (time.Duration, error) {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0, fmt.Errorf("read the watchdog's interval: %w", err)
	}
	return d, nil
}

// Listeners returns the sockets that the service manager listens on for the
// daemon (sd_listen_fds(3)). They are the caller's to close; the error tells of
// those that cannot be used, and are closed. Call it once: the environment that
// announces them is cleared.
func Listeners() (listeners []net.Listener, err error) {
	for _, f := range activation.Files(true) {
		l, wrong := net.FileListener(f) // a descriptor of its own
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("take over socket %s of the service manager: %w; it must be a stream socket that listens", f.Name(), wrong))
		} else {
			listeners = append(listeners, l)
		}
		err = errors.Join(err, f.Close())
	}
	return listeners, err
}

// Credential returns the file that holds a credential (LoadCredential= in
// systemd.exec(5)); ok is false if there is none. One that was loaded with a
// whole directory is called after that, too: ze.mcp.token may be ze_mcp.token.
func Credential(name string) (path string, ok bool) {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", false
	}
	for _, n := range []string{name, strings.Replace(name, ".", "_", 1)} {
		path = filepath.Join(dir, n)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// Journal returns a writer of log lines with fields, if the process's standard
// error is connected to the journal.
func Journal() (io.Writer, bool) {
	if ok, err := journal.StderrIsJournalStream(); err != nil || !ok {
		return nil, false
	}
	return journald.NewJournalDWriter(), true
}
