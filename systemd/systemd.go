// Package systemd tells the service manager the truth about the daemon and
// writes to its journal. It owns nothing and is the only package that imports
// go-systemd. Without systemd every function is silently without effect.
package systemd

import (
	"io"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/coreos/go-systemd/v22/journal"
	"github.com/rs/zerolog/journald"
)

// Ready reports that the daemon answers; status is shown by systemctl status.
func Ready(status string) { notify(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// Stopping reports that the daemon is shutting down.
func Stopping() { notify(daemon.SdNotifyStopping) }

// notify sends state. That nobody listens, or no longer does, changes nothing
// for the daemon.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// Journal returns a writer of log lines with fields, if the process's standard
// error is connected to the journal.
func Journal() (io.Writer, bool) {
	if ok, err := journal.StderrIsJournalStream(); err != nil || !ok {
		return nil, false
	}
	return journald.NewJournalDWriter(), true
}
