package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys/plans"
)

// leaseCollector exports what became of leases of plan limits, looked at once a
// scrape.
type leaseCollector struct {
	stats func() plans.LeaseStats

	calls, tokens, takes, keys *prometheus.Desc
}

// watchLeases exports what a Taker leases.
func (m *metrics) watchLeases(stats func() plans.LeaseStats) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(&leaseCollector{stats,
		d("guardd_limit_lease_calls_total", "Calls of the store for tokens of busy keys in advance, by result.", "result"),
		d("guardd_limit_lease_tokens_total", "Tokens of plan limits leased, and what became of them.", "what"),
		d("guardd_limit_lease_takes_total", "Takes of plan limits decided by what was leased, without a call of the store, by result.", "result"),
		d("guardd_limit_lease_keys", "Keys that this instance holds tokens of.")})
}

// Describe is Collector's.
func (c *leaseCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.calls, c.tokens, c.takes, c.keys} {
		ch <- d
	}
}

// Collect is Collector's.
func (c *leaseCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	count := func(d *prometheus.Desc, n uint64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), label)
	}
	count(c.calls, st.Calls, "answered")
	count(c.calls, st.Failed, "failed")
	count(c.tokens, st.Leased, "leased")
	count(c.tokens, st.Spent, "spent")
	count(c.tokens, st.Returned, "returned")
	count(c.tokens, st.Lost, "lost")
	count(c.takes, st.Allowed, "allowed")
	count(c.takes, st.Refused, "refused")
	ch <- prometheus.MustNewConstMetric(c.keys, prometheus.GaugeValue, float64(st.Keys))
}
