package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// recentsConfig says how many decisions of late are kept for operators.
type recentsConfig struct {
	Keep int      `yaml:"keep"` // of a realm; 0: as many as recentsShared or recentsAlone
	For  duration `yaml:"for"`
}

func defaultRecents() recentsConfig { return recentsConfig{For: duration(7 * 24 * time.Hour)} }

// How many events of a realm are kept, of some 700 bytes each: in Redis, or in this
// process's memory.
const (
	recentsShared = 100_000
	recentsAlone  = 20_000
)

func (r *recentsConfig) check(bad *faults) {
	if r.Keep < 0 || r.Keep > 100_000_000 {
		bad.add("recents.keep", "must be from 0 to 100000000, not %d", r.Keep)
	}
	if r.For < duration(time.Minute) || r.For > duration(366*24*time.Hour) {
		bad.add("recents.for", "must be from 1m to 8784h, not %s", r.For)
	}
}

// keeper keeps what is learned of many attempts, beside what operators change.
type keeper interface {
	aggregate.AggregatorStore
	keys.Streams
}

// openRecents finds the decisions of late, whoever has read them.
func (s *server) openRecents() *aggregate.Recents {
	c := aggregate.RecentsConfig{Streams: s.keeper, Keep: s.config.Recents.Keep, For: time.Duration(s.config.Recents.For), Now: s.guard.Now}
	if c.Keep == 0 {
		c.Keep = recentsShared
		if s.fallback == nil {
			c.Keep = recentsAlone
		}
	}
	return aggregate.NewRecents(c)
}

// openAggregator reads the events of all logins, here or wherever Kafka has this
// instance read them.
func (s *server) openAggregator() error {
	providers, err := s.openProviders()
	if err != nil {
		return err
	}
	if !s.config.Aggregate {
		s.metrics.watchAggregator(nil, s.realms)
		s.metrics.watchDetection(nil, s.realms, s.desk.InForce, s.toldMoments)
		return nil
	}
	a := aggregate.NewAggregator(aggregate.AggregatorConfig{Bus: s.bus, Group: s.config.Kafka.Group, Store: s.keeper, Shards: s.shards,
		Recents: s.recents, Watch: s.detection(), Provider: providers, Now: s.guard.Now, Failed: s.aggregatorFailed})
	s.aggregator = a
	s.metrics.watchAggregator(a.Stats, s.realms)
	s.metrics.watchDetection(a.Stats, s.realms, s.desk.InForce, s.toldMoments)
	s.background(func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := a.Run(ctx); err != nil {
				s.kafkaFailed("aggregate", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	})
	return nil
}

// realms are those there are.
func (s *server) realms() []string { return slices.Sorted(maps.Keys(s.guard.Policy().Realms)) }

// shards is how many shards a realm has, false for one that there is not.
func (s *server) shards(realm string) (int, bool) {
	r := s.guard.Policy().Realms[realm]
	if r == nil {
		return 0, false
	}
	return max(r.Shards, 1), true
}

// aggregatorFailed counts (the aggregator does) and logs the first of many failures.
func (s *server) aggregatorFailed(op string, err error) {
	if s.aggregatorLogged.due() {
		s.log.Warn("what many attempts mean cannot be kept: logins go on, and this is tried again", "operation", op, "error", err)
	}
}

// aggregateCollector exports what the aggregator reads and learns, looked at once a
// scrape.
type aggregateCollector struct {
	stats  func() aggregate.AggregatorStats
	realms func() []string

	partitions, lag, delay, failures, events, duplicates, missing, late, ahead, logins, bins, cut, unkept, stale, followed, sampled, shared *prometheus.Desc
}

// watchAggregator exports an aggregator and the realms there are; nil stats: there
// is none here.
func (m *metrics) watchAggregator(stats func() aggregate.AggregatorStats, realms func() []string) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("guardd_aggregate_"+name, help, labels, nil)
	}
	if stats == nil {
		stats = func() aggregate.AggregatorStats { return aggregate.AggregatorStats{} }
	}
	m.registry.MustRegister(&aggregateCollector{stats: stats, realms: realms,
		partitions: d("partitions", "Partitions of the events that this instance reads."),
		lag:        d("lag", "Events that were due after those that were read last; the most of a partition."),
		delay:      d("delay_seconds", "Time from when the last event happened to when it was read; the longest of a partition."),
		failures:   d("failures_total", "Failures of the store or the bus, each of which is tried again.", "operation"),
		events:     d("events_total", "Events that were read, each once.", "realm"),
		duplicates: d("duplicates_total", "Events that were read before.", "realm"),
		missing:    d("missing", "Events that an instance has made and that have not come: lost, or still on their way.", "realm"),
		late:       d("late_total", "Events too late to be counted in their ten seconds.", "realm"),
		ahead:      d("ahead_total", "Events with a time that is yet to come, which are not counted.", "realm"),
		logins:     d("logins_total", "Logins by what they count as.", "class", "realm"),
		bins:       d("bins_total", "Ten seconds that were counted.", "realm"),
		cut:        d("cut_short_total", "Times that what is remembered of logins was cut short, for want of room.", "realm"),
		unkept:     d("unkept_total", "Decisions that are not kept, because the store did not take them in time.", "realm"),
		stale:      d("stale_total", "Postures that were not set, because another instance had read further.", "realm"),
		followed:   d("followed_accounts", "Accounts that are followed to learn how many share an address.", "realm"),
		sampled:    d("sampled_accounts", "Of how many accounts one is followed.", "realm"),
		shared:     d("shared_addresses", "Addresses and networks that count as more than one person.", "realm"),
	})
}

// Describe is Collector's.
func (c *aggregateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.partitions, c.lag, c.delay, c.failures, c.events, c.duplicates, c.missing, c.late, c.ahead, c.logins,
		c.bins, c.cut, c.unkept, c.stale, c.followed, c.sampled, c.shared} {
		ch <- d
	}
}

// Collect is Collector's.
func (c *aggregateCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, op := range aggregate.Failures {
		counter(c.failures, st.Failures[op], op)
	}
	var lag, delay float64
	for _, r := range st.Readers {
		lag, delay = max(lag, float64(r.Lag)), max(delay, r.Delay.Seconds())
	}
	gauge(c.partitions, float64(len(st.Readers)))
	gauge(c.lag, lag)
	gauge(c.delay, delay)
	for _, name := range c.realms() {
		r := st.Realms[name]
		counter(c.events, r.Events, name)
		counter(c.duplicates, r.Duplicates, name)
		gauge(c.missing, float64(r.Missing), name)
		counter(c.late, r.Late, name)
		counter(c.ahead, r.Ahead, name)
		for class, n := range r.Classes {
			counter(c.logins, n, detect.Class(class).String(), name)
		}
		counter(c.bins, r.Bins, name)
		counter(c.cut, r.Overfull, name)
		counter(c.unkept, r.Unkept, name)
		counter(c.stale, r.Stale, name)
		gauge(c.followed, float64(r.Accounts), name)
		gauge(c.sampled, float64(r.Sampled), name)
		gauge(c.shared, float64(r.Shared), name)
	}
}
