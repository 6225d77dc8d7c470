package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/redisstore"
)

// openFleet makes the store of an instance among others: Redis behind breakers
// with the twin beside it, and a heart that tells the others that it lives.
func (s *server) openFleet(shared *redisstore.Store, twin *keys.Memory) (*keys.Fallback, error) {
	if _, err := rand.Read(s.instance[:]); err != nil {
		return nil, fmt.Errorf("naming the instance: %w", err)
	}
	breakers := keys.NewBreakers(keys.BreakersConfig{Store: shared, Flipped: s.breakerFlipped})
	s.live = keys.NewLive(keys.LiveConfig{
		Store: shared, Instance: s.instance, Fixed: s.config.Instances, Breakers: breakers})
	store := keys.NewFallback(keys.FallbackConfig{
		Primary: shared, Local: twin, Live: s.live.Count, Breakers: breakers, Heart: true,
		Deadline: time.Duration(s.config.RedisDeadline), OnError: s.storeFailed})
	s.outage, s.fallback = breakers.Open, store
	s.metrics.watchFleet(s.live, store)

	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if err := s.live.Beat(ctx); err != nil {
		s.metrics.storeFailed("beat", err)
		if s.config.Instances == 0 {
			s.log.Warn("nobody knows how many instances there are: alone, this one grants 3 of everything; set instances to know without redis")
		}
	}
	s.background(func(ctx context.Context) { s.live.Run(ctx, func(err error) { s.storeFailed("beat", err) }) })
	s.background(store.Run)
	return store, nil
}

// background runs f until the server ends, and has that wait for it.
func (s *server) background(f func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	s.undo.push(func() error {
		stop()
		<-done
		return nil
	})
}

// breakerFlipped says so once, whatever the rate of requests; of a Cluster, which
// node it is.
func (s *server) breakerFlipped(node string, open bool) {
	log := s.log
	if node != "" {
		log = log.With("node", node)
	}
	if open {
		log.Warn("redis has failed again and again: asking it only now and then until it works")
		return
	}
	log.Info("redis works again: counting there")
}

// fleetCollector exports what stands between this instance and the others,
// looked at once a scrape.
type fleetCollector struct {
	live  *keys.Live
	store *keys.Fallback

	degraded, open, opened, probes, skipped, next, instances, owed, returned, lost *prometheus.Desc
}

// watchFleet exports breakers and heartbeats; nil ones are those of an instance
// that has no shared store.
func (m *metrics) watchFleet(l *keys.Live, f *keys.Fallback) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(&fleetCollector{live: l, store: f,
		degraded:  d("guardd_degraded", "1 while the shared store, or a node of it, does not answer and this instance decides alone what is counted there, else 0."),
		open:      d("guardd_breaker_open", "1 while the shared store (node: which of a Cluster's, as soon as it was asked) is asked only now and then, because it has failed again and again, else 0.", "node"),
		opened:    d("guardd_breaker_opened_total", "Times that a breaker before the shared store has opened."),
		probes:    d("guardd_breaker_probes_total", "Calls let through an open breaker, by result.", "result"),
		skipped:   d("guardd_breaker_skipped_total", "Calls to the shared store not made, because the breaker was open."),
		next:      d("guardd_breaker_next_probe_seconds", "Time until the shared store (node: as above) is asked again, 0 while the breaker is closed.", "node"),
		instances: d("guardd_instances", "Instances among which limits are shared while the shared store is gone; 0: not known, the share is the least there is."),
		owed:      d("guardd_debts", "Buckets whose guesses this instance let through alone, and that the shared store has not counted yet."),
		returned:  d("guardd_debts_returned_total", "Charges for what was let through alone that the shared store has counted."),
		lost:      d("guardd_debts_lost_total", "Debts to the shared store forgotten, for want of room or of an answer."),
	})
}

// Describe is Collector's.
func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect is Collector's.
func (c *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	var all keys.BreakerStats
	var debts keys.DebtStats
	nodes, instances, degraded := []keys.PartStats{{}}, 1.0, 0.0 // one of its own, that never fails
	if c.store != nil {
		all, nodes = c.store.Breakers()
		debts, instances = c.store.Debts(), float64(c.live.Count())
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, n := range nodes {
		open := 0.0
		if n.Open {
			open = 1
		}
		if n.Open || n.Failing {
			degraded = 1
		}
		gauge(c.open, open, n.Part)
		gauge(c.next, float64(n.Next)/float64(keys.Second), n.Part)
	}
	gauge(c.degraded, degraded)
	gauge(c.instances, instances)
	gauge(c.owed, float64(debts.Owed))
	counter(c.returned, debts.Returned)
	counter(c.lost, debts.Lost)
	counter(c.opened, all.Opened)
	counter(c.skipped, all.Skipped)
	counter(c.probes, all.Probes-all.ProbesFailed, "worked")
	counter(c.probes, all.ProbesFailed, "failed")
}
