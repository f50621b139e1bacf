package builtin

import (
	"context"
	"time"

	"ze.internal/ze/appliance/command"
)

// System tells about the daemon itself.
type System interface {
	Version() Version
	Started() time.Time
	Status(ctx context.Context) (Status, error)
	ReloadStatus() ReloadStatus
	Reload(ctx context.Context) error
}

// ReloadStatus tells how reloads went.
type ReloadStatus struct {
	Generation  uint64    `json:"generation"`
	LastOutcome string    `json:"last-outcome"`
	LastReload  time.Time `json:"last-reload,omitzero"`
	LastError   string    `json:"last-error,omitempty"`
	Source      string    `json:"source"`
	Revision    uint64    `json:"configuration-revision,omitzero"`
}

// Version says what is running.
type Version struct {
	Version     string `json:"version"`
	Revision    string `json:"revision,omitempty"`
	GoVersion   string `json:"go-version"`
	MCPRevision string `json:"mcp-revision"`
}

// Status is the daemon at a glance.
type Status struct {
	Instance      string              `json:"instance"`
	Version       string              `json:"version"`
	PID           int                 `json:"pid"`
	Configuration ConfigurationStatus `json:"configuration"`
	Listeners     []Listener          `json:"listener"`
	Store         StoreStatus         `json:"store"`
	TokenFile     string              `json:"admin-token-file,omitzero"`
	Speaker       *SpeakerStatus      `json:"speaker,omitzero"`
}

// ConfigurationStatus says which configuration is in use.
type ConfigurationStatus struct {
	Source   string `json:"source"`
	Revision uint64 `json:"revision,omitzero"`
}

// Listener is an address the daemon answers on.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// StoreStatus describes the database file.
type StoreStatus struct {
	Path      string `json:"path"`
	SizeBytes int64  `json:"size-bytes"`
}

// SpeakerStatus describes the BGP speaker process.
type SpeakerStatus struct {
	State    string `json:"state"`
	PID      int    `json:"pid,omitzero"`
	Restarts uint64 `json:"restarts"`
	LastExit string `json:"last-exit,omitempty"`
}

type uptime struct {
	StartTime     time.Time `json:"start-time"`
	UptimeSeconds int64     `json:"uptime-seconds"`
}

func (d Deps) uptime() uptime {
	start := d.System.Started()
	return uptime{StartTime: start.UTC().Truncate(time.Second), UptimeSeconds: seconds(d.Clock().Sub(start))}
}

func (d Deps) system(r runs) {
	r["show-version"] = func(context.Context, *command.Request) (any, error) {
		return d.System.Version(), nil
	}
	r["show-uptime"] = func(context.Context, *command.Request) (any, error) {
		return d.uptime(), nil
	}
	r["show-status"] = func(ctx context.Context, _ *command.Request) (any, error) {
		s, err := d.System.Status(ctx)
		if err != nil {
			return nil, err
		}
		return struct {
			Status `json:",inline"`
			uptime `json:",inline"`
		}{s, d.uptime()}, nil
	}
	r["show-reload-status"] = func(context.Context, *command.Request) (any, error) {
		return d.System.ReloadStatus(), nil
	}
	r["request-reload"] = func(ctx context.Context, _ *command.Request) (any, error) {
		if err := d.System.Reload(ctx); err != nil {
			return nil, err
		}
		return d.System.ReloadStatus(), nil
	}
}
