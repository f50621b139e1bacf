package store

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	bolt "go.etcd.io/bbolt"
)

// kinds maps what operators count to the bucket that holds one record of each.
var kinds = [...]struct{ kind, bucket string }{
	{"token", bucketTokens}, {"announcement", bucketAnnouncements}, {"audit", bucketAudit},
	{"revision", bucketRevisions}, {"candidate", bucketCandidates}, {"blob", bucketBlobs},
	{"task", bucketTasks},
}

func newCommitHistogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "ze_store_commit_duration_seconds",
		Help: "Time from the start of a write transaction until it was durable.",
		// A sync takes 1 to 10 ms on a local disk; what is above 1 s is a sick one.
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 2.5, 10},
	})
}

// Collectors returns the store's metrics, to be registered once by the caller.
func (db *DB) Collectors() []prometheus.Collector {
	return []prometheus.Collector{db.commits, &collector{
		db:      db,
		size:    prometheus.NewDesc("ze_store_size_bytes", "Size of the database: pages in use and free ones.", nil, nil),
		free:    prometheus.NewDesc("ze_store_free_bytes", "Size of the free pages in the database; they will be used again.", nil, nil),
		records: prometheus.NewDesc("ze_store_records", "Records kept.", []string{"kind"}, nil),
	}}
}

type collector struct {
	db                  *DB
	size, free, records *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.size
	ch <- c.free
	ch <- c.records
}

// Collect implements prometheus.Collector. A store that cannot be read has no
// values, rather than zeros.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	err := c.db.view(context.Background(), func(tx *bolt.Tx) error {
		gauge(c.size, float64(tx.Size()))
		gauge(c.free, float64(freeBytes(tx)))
		for _, k := range kinds {
			t, err := readTally(tx, k.bucket)
			if err != nil {
				return err
			}
			gauge(c.records, float64(t.count), k.kind)
		}
		return nil
	})
	if err != nil {
		c.db.log.Warn().Err(err).Msg("store metrics are incomplete")
	}
}
