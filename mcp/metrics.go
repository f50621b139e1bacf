package mcp

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// unknownLabel stands for every name a caller made up, so that callers cannot
// make series.
const unknownLabel = "unknown"

type metrics struct {
	requests  *prometheus.CounterVec
	toolCalls *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	inFlight  *prometheus.GaugeVec
	streams   prometheus.Gauge

	byRequest kept[[2]string, prometheus.Counter] // by method and code
	byCall    kept[[2]string, callSeries]         // by tool and outcome
	byTool    kept[string, prometheus.Gauge]
}

type callSeries struct {
	calls    prometheus.Counter
	duration prometheus.Observer
}

// kept remembers series by their labels: to find one takes many times as long as
// to count, and every request counts several.
type kept[K comparable, V any] struct{ series sync.Map }

func (k *kept[K, V]) of(labels K, find func(labels K) V) V {
	v, ok := k.series.Load(labels)
	if !ok {
		v, _ = k.series.LoadOrStore(labels, find(labels))
	}
	return v.(V)
}

func (m *metrics) request(method, code string) prometheus.Counter {
	return m.byRequest.of([2]string{method, code}, func(l [2]string) prometheus.Counter { return m.requests.WithLabelValues(l[:]...) })
}

func (m *metrics) call(tool, outcome string) callSeries {
	return m.byCall.of([2]string{tool, outcome}, func(l [2]string) callSeries {
		return callSeries{m.toolCalls.WithLabelValues(l[:]...), m.duration.WithLabelValues(tool)}
	})
}

func (m *metrics) running(tool string) prometheus.Gauge {
	return m.byTool.of(tool, func(tool string) prometheus.Gauge { return m.inFlight.WithLabelValues(tool) })
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ze_mcp_requests_total",
			Help: "MCP requests by method, and by outcome: ok, a JSON-RPC error code, or the HTTP status of a refusal.",
		}, []string{"method", "code"}),
		toolCalls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ze_tool_calls_total",
			Help: "MCP tool calls by tool, and by outcome: ok or the code of the command's error.",
		}, []string{"tool", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "ze_tool_call_duration_seconds",
			Help:    "Time a tool call took to run.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .25, 1, 2.5, 10, 60},
		}, []string{"tool"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ze_tool_calls_in_flight",
			Help: "MCP tool calls running now, by tool.",
		}, []string{"tool"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ze_mcp_streams",
			Help: "Open streams of subscriptions/listen.",
		}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.toolCalls, m.duration, m.inFlight, m.streams}
}

// finishCall counts and logs a finished call of a tool that exists.
func (s *Server) finishCall(r *request, tool, outcome string, took time.Duration) {
	series := s.metrics.call(tool, outcome)
	series.calls.Inc()
	series.duration.Observe(took.Seconds())
	s.log.Debug().Str("tool", tool).Str("principal", r.principal.Name).Str("outcome", outcome).Dur("duration-ms", took).Msg("tool call")
}
