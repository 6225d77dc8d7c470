package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys"
)

// twinCollector exports how full the in-memory twin is, looked at once a
// scrape.
type twinCollector struct {
	stats                       func() keys.MemoryStats
	entries, overflowed, unkept *prometheus.Desc
}

func newTwinCollector(stats func() keys.MemoryStats) *twinCollector {
	return &twinCollector{
		stats:      stats,
		entries:    prometheus.NewDesc("guardd_twin_entries", "Entries held in this process's memory, by kind.", []string{"kind"}, nil),
		overflowed: prometheus.NewDesc("guardd_twin_overflowed_total", "Writes to buckets that newcomers share, because memory was full of spent ones.", nil, nil),
		unkept:     prometheus.NewDesc("guardd_twin_unkept_total", "Marks (outcomes, proofs, places, requests) not kept because memory was full.", nil, nil),
	}
}

// Describe is Collector's.
func (t *twinCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- t.entries
	ch <- t.overflowed
	ch <- t.unkept
}

// Collect is Collector's.
func (t *twinCollector) Collect(ch chan<- prometheus.Metric) {
	st := t.stats()
	gauge := func(kind string, n int) {
		ch <- prometheus.MustNewConstMetric(t.entries, prometheus.GaugeValue, float64(n), kind)
	}
	gauge("bucket", st.Buckets)
	gauge("shared_bucket", st.Shared)
	gauge("mark", st.Marks)
	gauge("record", st.Records)
	ch <- prometheus.MustNewConstMetric(t.overflowed, prometheus.CounterValue, float64(st.Overflowed))
	ch <- prometheus.MustNewConstMetric(t.unkept, prometheus.CounterValue, float64(st.Unkept))
}
