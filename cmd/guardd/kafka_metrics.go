package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/aggregate/kafkabus"
)

// kafkaCollector exports where the readers of events are and what failed, looked
// at once a scrape.
type kafkaCollector struct {
	stats func() kafkabus.Stats

	lag, age, dead, generations, rebuilt, errors *prometheus.Desc
}

// watchKafka exports a bus; nil: events stay in the process.
func (m *metrics) watchKafka(stats func() kafkabus.Stats) {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	if stats == nil {
		stats = func() kafkabus.Stats { return kafkabus.Stats{} }
	}
	m.registry.MustRegister(&kafkaCollector{stats: stats,
		lag:         d("guardd_kafka_lag", "Messages of a partition that this instance reads, and has not handled yet.", "group", "partition", "topic"),
		age:         d("guardd_kafka_event_age_seconds", "How long ago the last handled message of a partition had been published; 0 where none is due.", "group", "partition", "topic"),
		dead:        d("guardd_kafka_dead_letters_total", "Messages that could not be read and were put on the topic dead."),
		generations: d("guardd_kafka_generations_total", "Times that the instances dealt the partitions among them anew."),
		rebuilt:     d("guardd_kafka_rebuilt_total", "Times that reading began anew because nothing came although something was due."),
		errors:      d("guardd_kafka_errors_total", "Failures of Kafka or of what reads it, each of which is tried again.", "operation"),
	})
}

// Describe is Collector's.
func (c *kafkaCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.lag, c.age, c.dead, c.generations, c.rebuilt, c.errors} {
		ch <- d
	}
}

// Collect is Collector's.
func (c *kafkaCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(c.dead, st.Dead)
	counter(c.generations, st.Generations)
	counter(c.rebuilt, st.Rebuilt)
	for _, op := range kafkabus.Operations {
		counter(c.errors, st.Errors[op], op)
	}
	for _, p := range st.Partitions {
		n := strconv.Itoa(p.Partition)
		ch <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, float64(p.Lag), p.Group, n, string(p.Topic))
		ch <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, p.Age.Seconds(), p.Group, n, string(p.Topic))
	}
}
