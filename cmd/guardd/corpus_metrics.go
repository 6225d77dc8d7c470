package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/breached"
)

var (
	hashKinds     = set(breached.SHA1.String(), breached.NTLM.String())
	lookupResults = set(api.BreachedResults...)
)

// registerCorpora makes the series of leaked passwords. Neither a hash nor a
// prefix is a label, or anybody who reads metrics would know what was typed.
func (m *metrics) registerCorpora(counter func(name, help string, labels ...string) *prometheus.CounterVec) {
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"kind"})
		m.registry.MustRegister(v)
		return v
	}
	m.lookups = counter("guardd_breached_lookups_total", "Look-ups of leaked passwords, by kind of hash and by what became of them.", "kind", "result")
	m.corpusReloads = counter("guardd_breached_corpus_reloads_total", "New files found in place of a corpus, by result.", "kind", "result")
	m.corpusRows = gauge("guardd_breached_corpus_rows", "Hashes in the corpus that answers, 0 where there is none.")
	m.corpusDate = gauge("guardd_breached_corpus_timestamp_seconds", "When what the corpus was built from was made, 0 where nobody knows.")
	m.corpusComplete = gauge("guardd_breached_corpus_complete", "1 when the corpus is the whole one, 0 when it is known to lack some, and where there is none.")
	m.corpusDamaged = gauge("guardd_breached_corpus_damaged", "1 when the corpus was found not to be what was built, and answers nothing any more, else 0.")
	for k := range hashKinds {
		each(func(r string) { m.corpusReloads.WithLabelValues(k, r) }, "loaded", "refused")
		for r := range lookupResults {
			m.lookups.WithLabelValues(k, r)
		}
		for _, g := range []*prometheus.GaugeVec{m.corpusRows, m.corpusDate, m.corpusComplete, m.corpusDamaged} {
			g.WithLabelValues(k)
		}
	}
}

// lookedUp counts one look-up.
func (m *metrics) lookedUp(kind breached.Kind, result string) {
	m.lookups.WithLabelValues(pick(hashKinds, kind.String()), pick(lookupResults, result)).Inc()
}

// corpusReloaded counts a file that was found in place of another.
func (m *metrics) corpusReloaded(kind breached.Kind, result string) {
	m.corpusReloads.WithLabelValues(kind.String(), result).Inc()
}

// corpusIs shows what answers now.
func (m *metrics) corpusIs(l *breached.Live) {
	i := l.Info()
	k, is := i.Kind.String(), map[bool]float64{true: 1}
	m.corpusRows.WithLabelValues(k).Set(float64(i.Rows))
	m.corpusComplete.WithLabelValues(k).Set(is[i.Complete])
	m.corpusDamaged.WithLabelValues(k).Set(is[l.Err() != nil])
	if !i.Source.IsZero() {
		m.corpusDate.WithLabelValues(k).Set(float64(i.Source.Unix()))
	}
}
