package speaker

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/rs/zerolog"
)

// newLogger is the library's logger: it writes to log, and keeps each failed
// attempt to connect, which the library reports nowhere but in a debug record.
func newLogger(log zerolog.Logger, s *sessions) *slog.Logger {
	return slog.New(&handler{log: log, sessions: s})
}

type handler struct {
	log      zerolog.Logger
	sessions *sessions
	attrs    []slog.Attr
}

// Enabled lets debug records through to Handle whatever the log's level is.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelDebug }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "failed to connect" {
		h.keepFailure(r)
	}
	level := zerologLevel(r.Level)
	if h.log.GetLevel() > level {
		return nil
	}
	e := h.log.WithLevel(level)
	for _, a := range h.attrs {
		e = e.Interface(a.Key, a.Value.Any())
	}
	r.Attrs(func(a slog.Attr) bool {
		e = e.Interface(a.Key, a.Value.Any())
		return true
	})
	e.Msg(r.Message)
	return nil
}

func (h *handler) keepFailure(r slog.Record) {
	var peer netip.Addr
	var problem string
	note := func(a slog.Attr) bool {
		switch a.Key {
		case "Key":
			peer, _ = netip.ParseAddr(a.Value.String())
		case "Error":
			problem = a.Value.String()
		}
		return true
	}
	for _, a := range h.attrs {
		note(a)
	}
	r.Attrs(note)
	h.sessions.failed(peer, problem)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return &with
}

// WithGroup implements slog.Handler; the library uses no groups.
func (h *handler) WithGroup(string) slog.Handler { return h }

func zerologLevel(l slog.Level) zerolog.Level {
	switch {
	case l >= slog.LevelError:
		return zerolog.ErrorLevel
	case l >= slog.LevelWarn:
		return zerolog.WarnLevel
	case l >= slog.LevelInfo:
		return zerolog.InfoLevel
	default:
		return zerolog.DebugLevel
	}
}
