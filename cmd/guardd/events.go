package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/api"
)

// eventsConfig says where events wait that the bus does not take.
type eventsConfig struct {
	SpoolDir   string `yaml:"spool_dir"`
	SpoolBytes int    `yaml:"spool_bytes"`
	Ring       int    `yaml:"ring"`
}

func defaultEvents() eventsConfig { return eventsConfig{SpoolBytes: 1 << 30, Ring: 16384} }

// check finds faults of c.Events, and says when an outage of Kafka would cost events.
func (c *config) checkEvents(bad *faults) {
	e := &c.Events
	if e.SpoolBytes < 1<<20 {
		bad.add("events.spool_bytes", "must be 1048576 or more, not %d", e.SpoolBytes)
	}
	if e.Ring < 1 || e.Ring > 1<<24 {
		bad.add("events.ring", "must be from 1 to %d, not %d", 1<<24, e.Ring)
	}
	if len(c.Kafka.Brokers) > 0 && e.SpoolDir == "" {
		c.warnings = append(c.warnings, "events.spool_dir is not set: what Kafka does not take within seconds is lost, and counted")
	}
}

// closeEvents is how long events have to be published when the process ends;
// then they stay in the spool.
const closeEvents = 5 * time.Second

// openEvents publishes what is answered, beside counting it.
func (s *server) openEvents() error {
	e := &s.config.Events
	p, err := aggregate.NewPublisher(aggregate.PublisherConfig{Bus: s.bus,
		SpoolDir: e.SpoolDir, SpoolBytes: int64(e.SpoolBytes), Ring: e.Ring, Failed: s.eventsFailed})
	if err != nil {
		return err
	}
	s.undo.push(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeEvents)
		defer cancel()
		return p.Close(ctx)
	})
	s.published = p.Stats
	s.metrics.watchEvents(p.Stats)
	s.observer = api.Observers{s.metrics, p}
	return nil
}

// eventsFailed logs the first of many failures; metrics count them all.
func (s *server) eventsFailed(op string, err error) {
	if !errors.Is(err, context.Canceled) && s.eventsLogged.due() {
		s.log.Warn("events are not published: logins go on, and this is tried again", "operation", op, "error", err)
	}
}

// eventsCollector exports what becomes of events, looked at once a scrape.
type eventsCollector struct {
	stats func() aggregate.Stats

	emitted, published, failures, lost, waiting, spooled, bytes, torn, age *prometheus.Desc
}

func (m *metrics) watchEvents(stats func() aggregate.Stats) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(&eventsCollector{stats: stats,
		emitted:   d("guardd_events_emitted_total", "Events of attempts and outcomes, lost ones included."),
		published: d("guardd_events_published_total", "Events that the bus took, those of an earlier process included."),
		failures:  d("guardd_events_publish_failures_total", "Calls to the bus that failed; what they held is published again."),
		lost:      d("guardd_events_lost_total", "Events that had no room, by where.", "reason"),
		waiting:   d("guardd_events_waiting", "Events in memory that are not published yet."),
		spooled:   d("guardd_events_spooled", "Events on disk that are not published yet."),
		bytes:     d("guardd_events_spooled_bytes", "Size of the events on disk."),
		torn:      d("guardd_events_spool_torn_total", "Files of the spool whose end was torn when it was opened."),
		age:       d("guardd_events_oldest_seconds", "How long the oldest event that is not published yet has waited; 0 when none waits."),
	})
}

// Describe is Collector's.
func (c *eventsCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect is Collector's.
func (c *eventsCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter(c.emitted, st.Emitted)
	counter(c.published, st.Published)
	counter(c.failures, st.Failures)
	for _, reason := range aggregate.Losses {
		counter(c.lost, st.Lost[reason], reason)
	}
	counter(c.torn, st.Torn)
	gauge(c.waiting, float64(st.Memory))
	gauge(c.spooled, float64(st.Spooled))
	gauge(c.bytes, float64(st.SpooledBytes))
	age := 0.0
	if !st.Oldest.IsZero() {
		age = max(time.Since(st.Oldest).Seconds(), 0)
	}
	gauge(c.age, age)
}
