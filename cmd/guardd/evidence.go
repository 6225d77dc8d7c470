package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys/plans"
)

// mostEvidence is more than a Redis should give to what nobody may ever ask, in
// MiB.
const mostEvidence = 1 << 16

func (c *config) evidenceRoom() int64 { return int64(c.LimitsEvidence) << 20 }

// openEvidence remembers what plan limits decided; nil: nobody does. It needs
// s.trail.
func (s *server) openEvidence() *plans.Evidence {
	if s.config.LimitsEvidence == 0 {
		s.metrics.watchEvidence(nil)
		return nil
	}
	e := plans.NewEvidence(plans.EvidenceConfig{Trail: s.trail, Instance: s.instance,
		OnError: func(err error) { s.storeFailed("evidence", err) }})
	s.metrics.watchEvidence(e)
	s.background(e.Run)
	return e
}

// versionOf names a definition by what it says.
func versionOf(d *plans.Definition) string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // words, numbers and digests
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

type evidenceCollector struct {
	stats        func() plans.EvidenceStats
	unsent, lost *prometheus.Desc
}

// watchEvidence exports how e is doing, looked at once a scrape.
func (m *metrics) watchEvidence(e *plans.Evidence) {
	stats := func() plans.EvidenceStats { return plans.EvidenceStats{} }
	if e != nil {
		stats = e.Stats
	}
	m.registry.MustRegister(&evidenceCollector{stats,
		prometheus.NewDesc("guardd_limit_evidence_unsent", "Rows of evidence about plan limits that this instance keeps because the store did not take them.", nil, nil),
		prometheus.NewDesc("guardd_limit_evidence_lost_total", "Rows of evidence about plan limits dropped because the store did not take them for long.", nil, nil)})
}

// Describe is Collector's.
func (c *evidenceCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.unsent
	ch <- c.lost
}

// Collect is Collector's.
func (c *evidenceCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	ch <- prometheus.MustNewConstMetric(c.unsent, prometheus.GaugeValue, float64(st.Unsent))
	ch <- prometheus.MustNewConstMetric(c.lost, prometheus.CounterValue, float64(st.Lost))
}
