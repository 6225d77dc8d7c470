package main

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/aggregate/soc/sink"
)

// openSOC tells those who watch what is found: each sink reads the bus as a group of
// its own, of which all instances are members, so that a fleet tells each record once
// and a crash loses none.
func (s *server) openSOC() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	by := soc.Producer{Version: buildInfo().version, Host: host}
	outlets := map[string]*soc.Outlet{}
	dead := s.openDeadLetters(by)
	for i, one := range s.config.SOC.Sinks {
		c := s.config.sinks[i]
		c.Producer, c.Bus = by, s.bus
		var bad faults
		to := sink.New(c, func(field, format string, args ...any) { bad.add(field, format, args...) })
		if to == nil {
			return bad.err() // it was judged when it was loaded
		}
		o := soc.NewOutlet(soc.OutletConfig{Sink: to, Filter: one.filter(), PerMinute: one.perMinute(), Queue: one.Queue,
			Durable: len(s.config.Kafka.Brokers) > 0,
			Name:    s.guard.AccountName,
			Failed:  func(err error) { s.socFailed(one.Name, err) },
			Dead: func(r *soc.Record, why string) {
				s.socDead(one.Name, why)
				dead.put(r)
			}})
		outlets[one.Name] = o
		group := s.config.Kafka.Group + ".soc." + one.Name
		s.background(func(ctx context.Context) {
			if err := o.Run(ctx); err != nil {
				s.log.Warn("a SOC sink could not be closed", "sink", one.Name, "error", err)
			}
		})
		s.consume(aggregate.TopicFindings, group+".findings", o.Findings)
		if one.Decisions != "" && one.Decisions != soc.NoDecisions {
			s.consume(aggregate.TopicEvents, group+".events", o.Events)
		}
	}
	s.metrics.watchSOC(func() map[string]soc.OutletStats {
		all := map[string]soc.OutletStats{}
		for name, o := range outlets {
			all[name] = o.Stats()
		}
		return all
	})
	return nil
}

// consume reads a topic as long as the process runs.
func (s *server) consume(topic aggregate.Topic, group string, open func(int) aggregate.Handler) {
	s.background(func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := s.bus.Consume(ctx, topic, group, open); err != nil {
				s.kafkaFailed("consume", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	})
}

// socFailed logs the first of many failures; metrics count them all.
func (s *server) socFailed(name string, err error) {
	if s.socLogged.due() {
		s.log.Warn("a SOC sink does not take what it is told: this is tried again", "sink", name, "error", err)
	}
}

func (s *server) socDead(name, why string) {
	if s.socDeadLogged.due() {
		s.log.Error("a SOC sink was not told something, and will not be", "sink", name, "why", why)
	}
}

// deadLetters keeps on disk what a sink will not be told. Whoever puts one never waits:
// where the disk is slower than the deaths, they are only counted.
type deadLetters struct {
	in chan *soc.Record // nil: they are only counted
}

const (
	deadWaiting = 4096
	deadBytes   = 64 << 20
	deadKept    = 3
)

func (s *server) openDeadLetters(by soc.Producer) *deadLetters {
	d := &deadLetters{}
	if s.config.SOC.DeadLetters == "" {
		return d
	}
	d.in = make(chan *soc.Record, deadWaiting)
	file := sink.New(sink.Config{To: "file:" + s.config.SOC.DeadLetters, Format: soc.Own, Producer: by, RotateBytes: deadBytes, Keep: deadKept},
		func(string, string, ...any) {})
	s.background(func(ctx context.Context) {
		defer file.Close()
		for {
			var batch []*soc.Record
			select {
			case r := <-d.in:
				batch = append(batch, r)
			case <-ctx.Done():
			}
			for more := true; more && len(batch) < deadWaiting; {
				select {
				case r := <-d.in:
					batch = append(batch, r)
				default:
					more = false
				}
			}
			if len(batch) > 0 {
				if _, err := file.Deliver(ctx, batch); err != nil {
					s.socFailed("dead_letters", err)
				}
			} else if ctx.Err() != nil {
				return
			}
		}
	})
	return d
}

func (d *deadLetters) put(r *soc.Record) {
	select {
	case d.in <- r:
	default:
	}
}

// socCollector exports what the SOC is told, looked at once a scrape.
type socCollector struct {
	stats func() map[string]soc.OutletStats

	delivered, failures, dead, held, waiting, oldest *prometheus.Desc
}

func (m *metrics) watchSOC(stats func() map[string]soc.OutletStats) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("guardd_soc_"+name, help, append(labels, "sink"), nil)
	}
	m.registry.MustRegister(&socCollector{stats: stats,
		delivered: d("delivered_total", "Records that a SOC sink took."),
		failures:  d("failures_total", "Times that a SOC sink did not take records; they are told again."),
		dead:      d("dead_letters_total", "Records that a SOC sink was not told and will not be, by why.", "reason"),
		held:      d("held_back_total", "Findings beyond what a SOC sink is told in a minute."),
		waiting:   d("waiting", "Records that wait for a SOC sink."),
		oldest:    d("oldest_seconds", "How long the oldest record has waited for a SOC sink; 0 when none waits."),
	})
}

// Describe is Collector's.
func (c *socCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.delivered, c.failures, c.dead, c.held, c.waiting, c.oldest} {
		ch <- d
	}
}

// Collect is Collector's.
func (c *socCollector) Collect(ch chan<- prometheus.Metric) {
	for name, st := range c.stats() {
		counter := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(labels, name)...)
		}
		counter(c.delivered, st.Delivered)
		counter(c.failures, st.Failures)
		counter(c.held, st.HeldBack)
		for _, why := range soc.Deaths {
			counter(c.dead, st.Dead[why], why)
		}
		age := 0.0
		if !st.Oldest.IsZero() {
			age = max(time.Since(st.Oldest).Seconds(), 0)
		}
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(st.Waiting), name)
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, age, name)
	}
}
