package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// postureReader says what posture is in force.
type postureReader func(ctx context.Context, realm string) (escalation.PostureNow, error)

// detectionCollector exports what detection sees of the realms that this instance
// reads, and the posture that is in force, whoever has set it.
type detectionCollector struct {
	stats   func() aggregate.AggregatorStats
	realms  func() []string
	posture postureReader
	told    func(realm, what string) uint64

	level, learning, excess, expected, suspects, campaigns, findings, changes, inForce, pinned *prometheus.Desc
}

// watchDetection exports detection; nil stats: there is none here. nil posture: nobody
// knows. told says how many findings of a moment this instance has published beside.
func (m *metrics) watchDetection(stats func() aggregate.AggregatorStats, realms func() []string, posture postureReader, told func(realm, what string) uint64) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("guardd_"+name, help, append(labels, "realm"), nil)
	}
	if stats == nil {
		stats = func() aggregate.AggregatorStats { return aggregate.AggregatorStats{} }
	}
	m.registry.MustRegister(&detectionCollector{stats: stats, realms: realms, posture: posture, told: told,
		level:     d("detection_level", "Posture that detection asks for, where this instance reads the realm: 0 normal, 1 elevated, 2 high, 3 critical."),
		learning:  d("detection_learning", "1 while detection knows too little of the realm to do anything, and where another instance reads it, else 0."),
		excess:    d("detection_excess_per_minute", "Cold failures a minute beyond those that are expected, over the last two minutes."),
		expected:  d("detection_expected_per_minute", "Cold failures a minute that are expected, by the hour of the week and the sign-ins."),
		suspects:  d("detection_suspects", "Networks and passwords that are tightened by themselves.", "kind"),
		campaigns: d("detection_campaigns", "Attacks that go on, by what they are.", "what"),
		findings:  d("findings_total", "Findings made, by what they are of, and whether they open, update or close it; `once` is of a moment.", "what", "state"),
		changes:   d("detection_changes_total", "Times that detection has gone to a posture.", "posture"),
		inForce:   d("posture", "Posture in force: 0 normal, 1 elevated, 2 high, 3 critical. Missing while the store does not say."),
		pinned:    d("posture_pinned", "1 while an operator has pinned the posture, else 0."),
	})
}

// Describe is Collector's.
func (c *detectionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.level, c.learning, c.excess, c.expected, c.suspects, c.campaigns, c.findings, c.changes, c.inForce, c.pinned} {
		ch <- d
	}
}

// postureWait bounds what a scrape waits for the store, all realms together.
const postureWait = 500 * time.Millisecond

// Collect is Collector's.
func (c *detectionCollector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st := c.stats()
	ctx, cancel := context.WithTimeout(context.Background(), postureWait)
	defer cancel()
	for _, realm := range c.realms() {
		w, read := st.Realms[realm]
		gauge(c.level, float64(w.Watch.Level), realm)
		gauge(c.learning, one(!read || w.Watch.Learning), realm)
		gauge(c.excess, w.Watch.Excess, realm)
		gauge(c.expected, w.Watch.Expected, realm)
		gauge(c.suspects, float64(w.Watch.Networks), "network", realm)
		gauge(c.suspects, float64(w.Watch.Tags), "password", realm)
		for _, what := range detect.Kinds() {
			gauge(c.campaigns, float64(w.Watch.Open[what]), what, realm)
			for _, state := range aggregate.FindingStates {
				counter(c.findings, w.Watch.Found[aggregate.FindingCount{What: what, State: state}], what, state, realm)
			}
		}
		for _, what := range aggregate.Moments {
			n := w.Watch.Found[aggregate.FindingCount{What: what, State: aggregate.FindingOnce}]
			counter(c.findings, n+c.told(realm, what), what, aggregate.FindingOnce, realm)
		}
		for l, n := range w.Watch.Changes {
			counter(c.changes, n, detect.Level(l).String(), realm)
		}
		if c.posture == nil {
			continue
		}
		if p, err := c.posture(ctx, realm); err == nil {
			level, _ := keys.ParsePosture(p.Posture)
			gauge(c.inForce, float64(level), realm)
			gauge(c.pinned, one(p.Pin != ""), realm)
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
