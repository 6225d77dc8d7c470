package main

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys/trace"
	"github.com/guardd/guardd/keys/trace/otlp"
)

// tracingConfig says where traces of requests are sent; without otlp nowhere, and
// callers' contexts travel all the same.
type tracingConfig struct {
	OTLP   string  `yaml:"otlp"`
	Sample float64 `yaml:"sample"`
}

func defaultTracing() tracingConfig { return tracingConfig{Sample: .01} }

func (t *tracingConfig) check(bad *faults) {
	if t.OTLP != "" {
		if what := otlp.Check(t.OTLP); what != "" {
			bad.add("tracing.otlp", "%s", what)
		}
	}
	if !(t.Sample >= 0 && t.Sample <= 1) {
		bad.add("tracing.sample", "must be from 0 to 1, not %v", t.Sample)
	}
}

// closeTracing is how long traces have to be sent when the process ends.
const closeTracing = 5 * time.Second

// openTracing begins to export traces, where somebody is to have them.
func (s *server) openTracing() error {
	c := &s.config.Tracing
	if c.OTLP == "" {
		s.metrics.watchTracing(func() otlp.Stats { return otlp.Stats{} })
		return nil
	}
	e, err := otlp.Open(context.Background(), otlp.Config{Endpoint: c.OTLP, Version: buildInfo().version,
		Instance: hex.EncodeToString(s.instance[:]), Failed: s.tracingFailed})
	if err != nil {
		return err
	}
	s.undo.push(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTracing)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			s.tracingFailed(err) // no fault of the process's
		}
		return nil
	})
	s.metrics.watchTracing(e.Stats)
	s.tracer = &trace.Tracer{Sample: c.Sample, Export: e.Export}
	s.log.Info("traces are exported", "to", c.OTLP, "sample", c.Sample)
	return nil
}

// tracingFailed logs the first of many failures; metrics count them all.
func (s *server) tracingFailed(err error) {
	if s.tracingLogged.due() {
		s.log.Warn("traces are not exported: requests go on without", "error", err)
	}
}

// watchTracing exports what becomes of traces.
func (m *metrics) watchTracing(stats func() otlp.Stats) {
	m.registry.MustRegister(&tracingCollector{stats, prometheus.NewDesc("guardd_traces_total",
		"Requests whose trace was to be exported, by what became of it.", []string{"result"}, nil)})
}

type tracingCollector struct {
	stats  func() otlp.Stats
	traces *prometheus.Desc
}

// Describe is Collector's.
func (c *tracingCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.traces }

// Collect is Collector's.
func (c *tracingCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.stats()
	for result, n := range map[string]uint64{"exported": st.Exported, "dropped": st.Dropped, "failed": st.Failed} {
		ch <- prometheus.MustNewConstMetric(c.traces, prometheus.CounterValue, float64(n), result)
	}
}

// observe puts a duration into its bucket, with the trace as an exemplar where somebody
// keeps it: from a slow bucket to one request that was slow.
func observe(o prometheus.Observer, d time.Duration, by trace.ID) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && by.Sampled {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": by.TraceID()})
		return
	}
	o.Observe(d.Seconds())
}
