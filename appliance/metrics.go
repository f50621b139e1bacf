package appliance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// wireMetrics registers what the rooms measure and what only the whole knows.
func (a *App) wireMetrics() error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ze_build_info", Help: "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": a.o.Version.Version, "revision": a.o.Version.Revision, "goversion": a.o.Version.GoVersion},
	})
	build.Set(1)
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ze_ready", Help: "Whether the daemon can do its work; /readyz says what it cannot.",
	}, func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), readyTime)
		defer cancel()
		if len(a.unready(ctx)) > 0 {
			return 0
		}
		return 1
	})
	a.metrics = prometheus.NewRegistry()
	all := slices.Concat([]prometheus.Collector{
		build, ready, newConnectionMetrics(a.openedDoors), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}, a.reloadings.collectors(), a.store.Collectors(), a.audit.Collectors(), a.auth.Collectors(), a.dispatcher.Collectors(),
		a.bgp.Collectors(), a.speaker.Collectors(), a.tasks.Collectors(), a.mcp.Collectors())
	for _, c := range all {
		if err := a.metrics.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

// connectionMetrics tells how many connections the listeners of a kind have, and
// how many they take before a new one displaces an old one.
type connectionMetrics struct {
	doors       func() []*door
	open, limit *prometheus.Desc
}

func newConnectionMetrics(doors func() []*door) *connectionMetrics {
	return &connectionMetrics{
		doors,
		prometheus.NewDesc("ze_connections", "Open connections, by listener.", []string{"listener"}, nil),
		prometheus.NewDesc("ze_connections_limit", "Open connections from which on a new one ends the one that has been idle longest.", []string{"listener"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *connectionMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.open
	ch <- c.limit
}

// Collect implements prometheus.Collector.
func (c *connectionMetrics) Collect(ch chan<- prometheus.Metric) {
	open, listeners := map[string]int{}, map[string]int{}
	for _, d := range c.doors() {
		open[d.name] += d.conns.count()
		listeners[d.name]++
	}
	for name, n := range listeners {
		ch <- prometheus.MustNewConstMetric(c.open, prometheus.GaugeValue, float64(open[name]), name)
		ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(n*maxConnections), name)
	}
}

// reloadMetrics counts how often the configuration changed, or failed to.
type reloadMetrics struct {
	clock    func() time.Time
	reloads  *prometheus.CounterVec
	lastGood prometheus.Gauge
	goodTime prometheus.Gauge
}

func newReloadMetrics(clock func() time.Time) *reloadMetrics {
	m := &reloadMetrics{
		clock: clock,
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ze_config_reloads_total", Help: "Configurations that were to replace the running one, by outcome.",
		}, []string{"outcome"}),
		lastGood: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ze_config_last_reload_successful", Help: "Whether the last configuration that was to replace the running one did.",
		}),
		goodTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "ze_config_last_reload_success_timestamp_seconds", Help: "When the running configuration came into force.",
		}),
	}
	m.reloads.WithLabelValues("refused")
	m.reloads.WithLabelValues("applied")
	return m
}

func (m *reloadMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.reloads, m.lastGood, m.goodTime}
}

// inForce notes that a configuration is the running one.
func (m *reloadMetrics) inForce() {
	m.lastGood.Set(1)
	m.goodTime.Set(float64(m.clock().UnixMilli()) / 1e3)
}

// processed counts a reload; err is why it was refused.
func (m *reloadMetrics) processed(err error) {
	if err != nil {
		m.reloads.WithLabelValues("refused").Inc()
		m.lastGood.Set(0)
		return
	}
	m.reloads.WithLabelValues("applied").Inc()
	m.inForce()
}
