package task

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	durations *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ze_task_duration_seconds", Help: "How long the runs of tasks took, by how they ended.",
		Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600},
	}, []string{"state"})}
	for _, s := range []Status{Completed, Failed, Cancelled} {
		m.durations.WithLabelValues(string(s))
	}
	return m
}

// Collectors returns the manager's metrics, to be registered once by the caller.
func (m *Manager) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.metrics.durations, &collector{m,
		prometheus.NewDesc("ze_tasks", "Tasks kept.", []string{"state"}, nil),
		prometheus.NewDesc("ze_task_candidates", "Runs whose callers wait for them, and which become tasks if they take longer.", nil, nil),
	}}
}

type collector struct {
	m              *Manager
	tasks, waiting *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.tasks
	ch <- c.waiting
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	states := map[Status]int{Working: 0, InputRequired: 0, Completed: 0, Failed: 0, Cancelled: 0}
	c.m.mu.Lock()
	for _, j := range c.m.jobs {
		states[j.task.Status]++
	}
	waiting := len(c.m.loose)
	c.m.mu.Unlock()
	for s, n := range states {
		ch <- prometheus.MustNewConstMetric(c.tasks, prometheus.GaugeValue, float64(n), string(s))
	}
	ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(waiting))
}
