package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys/plandb"
)

// limitsCollector exports how the database of plan limits is followed, looked at
// once a scrape.
type limitsCollector struct {
	stats func() plandb.Stats

	version, bad, confirmed, errors *prometheus.Desc
}

// watchLimits exports a follower; nil: there is no database.
func (m *metrics) watchLimits(stats func() plandb.Stats) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	if stats == nil {
		stats = func() plandb.Stats { return plandb.Stats{} }
	}
	m.registry.MustRegister(&limitsCollector{stats: stats,
		version:   d("guardd_limits_db_version", "Version of the plan limits in force, as their database counts; 0: none was read."),
		bad:       d("guardd_limits_db_bad_rows", "What is wrong with rows of that version; what was in force in their place stays."),
		confirmed: d("guardd_limits_db_confirmed_timestamp_seconds", "When the database last said that this is its newest version; 0: never."),
		errors:    d("guardd_limits_db_errors_total", "Failures of the database of plan limits, each of which is tried again.", "operation"),
	})
}

// Describe is Collector's.
func (c *limitsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.version, c.bad, c.confirmed, c.errors} {
		ch <- d
	}
}

// Collect is Collector's.
func (c *limitsCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	gauge(c.version, float64(st.Version))
	gauge(c.bad, float64(st.Bad))
	confirmed := 0.0
	if !st.Confirmed.IsZero() {
		confirmed = float64(st.Confirmed.UnixMilli()) / 1000
	}
	gauge(c.confirmed, confirmed)
	for _, op := range plandb.Operations {
		ch <- prometheus.MustNewConstMetric(c.errors, prometheus.CounterValue, float64(st.Failures[op]), op)
	}
}
