package command

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts calls. Labels come only from registered commands, surfaces
// and codes, so the number of series is bounded.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	internal prometheus.Counter
	cache    sync.Map // callKey → *callMetrics
}

type callKey struct{ command, surface, outcome string }

type callMetrics struct {
	calls    prometheus.Counter
	duration prometheus.Observer
}

func newMetrics() *metrics {
	return &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ze_command_calls_total",
			Help: "Calls of a command, by surface and outcome (ok or an error code); command is empty for lines that name none.",
		}, []string{"command", "surface", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ze_command_duration_seconds",
			Help:    "Time from a call's arrival at the dispatcher to its answer.",
			Buckets: []float64{.0001, .00025, .001, .005, .025, .1, .5, 2.5, 10},
		}, []string{"command"}),
		// Also in calls, but there the series begins with the first one, and an
		// increase from nothing is none to Prometheus.
		internal: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ze_internal_errors_total",
			Help: "Calls that failed through no fault of the caller, nor of anything a caller can mend; the log has the causes.",
		}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.duration, m.internal}
}

func (m *metrics) observe(command, surface, outcome string, d time.Duration) {
	cm := m.of(command, surface, outcome)
	cm.calls.Inc()
	if outcome == string(Internal) {
		m.internal.Inc()
	}
	cm.duration.Observe(d.Seconds())
}

// count counts a request that never became a call.
func (m *metrics) count(command, surface, outcome string) {
	m.of(command, surface, outcome).calls.Inc()
}

func (m *metrics) of(command, surface, outcome string) *callMetrics {
	key := callKey{command, surface, outcome}
	got, ok := m.cache.Load(key)
	if !ok {
		got, _ = m.cache.LoadOrStore(key, &callMetrics{
			calls:    m.calls.WithLabelValues(command, surface, outcome),
			duration: m.duration.WithLabelValues(command),
		})
	}
	return got.(*callMetrics)
}
