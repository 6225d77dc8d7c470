package main

import (
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/redisstore"
	"github.com/guardd/guardd/keys/trace"
)

// other is the label value of whatever is in no closed set, so that nothing a
// visitor sends can become a series or show up in one.
const other = "other"

// latencies are the bucket bounds of every duration: half a millisecond to a
// quarter of a second, close around the 5 ms of the store's deadline.
var latencies = []float64{.0005, .001, .002, .005, .010, .025, .050, .100, .250}

// shares are the bucket bounds of what is left of a limit: the thresholds of
// the default policy, and the ends.
var shares = []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9}

// late is the kind of store error that is no client's: the script came to the
// ask after its deadline, and wrote nothing.
const late = "late"

var (
	routes = set(api.Routes...)
	kinds  = set(append(redisstore.Kinds, late)...)
)

// metrics are the process's series. It is the api.Observer.
type metrics struct {
	registry *prometheus.Registry
	words    atomic.Pointer[vocabulary]

	attempts, would, reasons, trust, proofErrors *prometheus.CounterVec
	outcomes, breached                           *prometheus.CounterVec
	left                                         *prometheus.HistogramVec
	rungs                                        *prometheus.CounterVec
	decision                                     *prometheus.HistogramVec
	outcome                                      prometheus.Histogram
	requests                                     *prometheus.CounterVec
	ledgerFailures                               prometheus.Counter
	request                                      *prometheus.HistogramVec

	// Series that every request counts in, found once.
	decided  [2]prometheus.Observer // not degraded, degraded
	answered map[string]answered    // by route

	messages, answers *prometheus.CounterVec

	takes                                                 *prometheus.CounterVec
	slots                                                 *prometheus.CounterVec
	lookups, corpusReloads                                *prometheus.CounterVec
	corpusRows, corpusDate, corpusComplete, corpusDamaged *prometheus.GaugeVec

	storeErrors *prometheus.CounterVec
	reloads     *prometheus.CounterVec
	operations  *prometheus.CounterVec
	loaded      prometheus.Gauge
}

// answered are a route's series: by class of status, from 2xx on, and how long.
type answered struct {
	classes [4]prometheus.Counter
	took    prometheus.Observer
}

// newMetrics registers everything. Every child that can be known is made at
// once, so that rate() starts from a zero and not from a gap.
func newMetrics(p *escalation.Policy, native bool) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), answered: map[string]answered{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
		if native {
			o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
		}
		v := prometheus.NewHistogramVec(o, labels)
		m.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		m.registry.MustRegister(g)
		return g
	}

	m.attempts = counter("guardd_attempts_total", "Attempts answered, by the action that was answered.", "realm", "flow", "action")
	m.would = counter("guardd_shadow_attempts_total", "Attempts answered in shadow mode, by the action that would have been answered.", "realm", "flow", "action")
	m.reasons = counter("guardd_attempt_reasons_total", "Reasons given for asking more than a password. One attempt may have several.", "realm", "flow", "reason")
	m.trust = counter("guardd_attempt_trust_total", "Attempts answered, by what was known of the visitor: a device, a familiar place, or nothing.", "realm", "flow", "trust")
	m.proofErrors = counter("guardd_proof_errors_total", "Proofs shown that did not count, by why not.", "realm", "flow", "error")
	m.outcomes = counter("guardd_outcomes_total", "Outcomes reported, by what was done with them.", "realm", "flow", "outcome", "result")
	m.breached = counter("guardd_breached_outcomes_total", "Outcomes recorded of attempts whose password was known from a leak.", "realm", "flow", "outcome")
	m.left = histogram("guardd_tier_left_ratio", "Share of a limit left after an attempt that looked at it.", shares, "flow", "tier", "limit")
	m.rungs = counter("guardd_tier_rungs_total", "Looks at a limit, by the rung that it asked for.", "flow", "tier", "limit", "rung")
	m.decision = histogram("guardd_decision_duration_seconds", "Time to decide an attempt, by whether this instance had to decide alone.", latencies, "degraded")
	m.outcome = histogram("guardd_outcome_duration_seconds", "Time to book an outcome.", latencies).WithLabelValues().(prometheus.Histogram)
	m.requests = counter("guardd_http_requests_total", "HTTP requests to /v1, /challenges and /admin/v1 answered, by route and class of status.", "route", "status")
	m.request = histogram("guardd_http_request_duration_seconds", "Time to answer HTTP requests to /v1, /challenges and /admin/v1.", latencies, "route")
	m.messages = counter("guardd_messages_total", "Codes and notices to accounts' owners, by what became of them.", "realm", "kind", "result")
	m.answers = counter("guardd_provider_answers_total", "Answers of third parties about their challenges; unsure ones cost no visitor anything.", "provider", "result")
	m.storeErrors = counter("guardd_store_errors_total", "Calls to the shared store that failed, so that this instance had to decide alone.", "operation", "kind")
	m.reloads = counter("guardd_policy_reloads_total", "Reloads of the policy asked for, by result.", "result")
	m.loaded = gauge("guardd_policy_loaded_timestamp_seconds", "When the policy in force was loaded.")

	m.operations = counter("guardd_operator_changes_total", "What operators did that this instance has taken over, by action.", "action")
	each(func(a string) { m.operations.WithLabelValues(a) }, operate.Actions...)

	m.registerCorpora(counter)
	m.registerTakes(counter)

	b := buildInfo()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "guardd_build_info", Help: "What this binary was built from. Always 1.",
		ConstLabels: prometheus.Labels{"version": b.version, "revision": b.revision, "go_version": b.goVersion}})
	info.Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.decided = [2]prometheus.Observer{m.decision.WithLabelValues("false"), m.decision.WithLabelValues("true")}
	for r := range routes {
		a := answered{took: m.request.WithLabelValues(r)}
		for i := range a.classes {
			a.classes[i] = m.requests.WithLabelValues(r, strconv.Itoa(2+i)+"xx")
		}
		m.answered[r] = a
	}
	for p := range providers {
		each(func(r string) { m.answers.WithLabelValues(p, r) }, "right", "wrong", "unsure", "misconfigured")
	}
	for op := range operations {
		for k := range kinds {
			m.storeErrors.WithLabelValues(op, k)
		}
	}
	each(func(r string) { m.reloads.WithLabelValues(r) }, "loaded", "refused")
	m.setPolicy(p)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: m.registry})
}

// watchTwin exports the size of the in-memory twin.
func (m *metrics) watchTwin(twin *keys.Memory) {
	m.registry.MustRegister(newTwinCollector(twin.Stats))
}

// Attempt counts one answered attempt.
func (m *metrics) Attempt(v *escalation.Verdict, took time.Duration) {
	w := m.words.Load()
	realm, flow := pick(w.realms, v.Realm), pick(w.flows, v.Flow)
	s := w.seriesOf(m, v)
	if c, ok := s.attempts[v.Action]; ok {
		c.Inc()
	} else {
		m.attempts.WithLabelValues(realm, flow, other).Inc()
	}
	if v.Shadow {
		m.would.WithLabelValues(realm, flow, pick(actions, string(v.Would))).Inc()
	}
	for _, r := range v.Reasons {
		m.reasons.WithLabelValues(realm, flow, pick(w.reasons, r)).Inc()
	}
	s.trust[trustOf(v)].Inc()
	if v.ProofError != "" {
		m.proofErrors.WithLabelValues(realm, flow, pick(proofErrors, string(v.ProofError))).Inc()
	}
	for i := range v.Tiers {
		w.level(flow, &v.Tiers[i])
	}
	if v.Degraded {
		observe(m.decided[1], took, v.Request)
		return
	}
	observe(m.decided[0], took, v.Request)
}

func trustOf(v *escalation.Verdict) string {
	switch {
	case v.KnownDevice:
		return "device"
	case v.Familiar:
		return "place"
	}
	return "none"
}

// trusts are what trustOf returns.
var trusts = []string{"device", "place", "none"}

// Outcome counts one reported outcome.
func (m *metrics) Outcome(r *escalation.Recorded, took time.Duration) {
	w := m.words.Load()
	result := "recorded"
	switch {
	case r.Held:
		result = "held"
	case r.Duplicate:
		result = "duplicate"
	case !r.Recorded:
		result = "expired"
	}
	realm, flow, outcome := pick(w.realms, r.Realm), pick(w.flows, r.Flow), pick(outcomes, r.Outcome.String())
	m.outcomes.WithLabelValues(realm, flow, outcome, result).Inc()
	if r.Breached && r.Recorded && !r.Held { // a held one comes again
		m.breached.WithLabelValues(realm, flow, outcome).Inc()
	}
	observe(m.outcome, took, r.Request)
}

// Answered counts one HTTP answer.
func (m *metrics) Answered(route string, status int, took time.Duration, by trace.ID) {
	a, class := m.answered[pick(routes, route)], 5
	if status >= 200 && status < 500 {
		class = status / 100
	}
	a.classes[class-2].Inc()
	observe(a.took, took, by)
}

// delivered counts one message; err is nil when it was delivered.
func (m *metrics) delivered(msg *escalation.Message, err error) {
	result := "delivered"
	if err != nil {
		result = "failed"
	}
	m.messages.WithLabelValues(pick(m.words.Load().realms, msg.Realm), pick(messages, msg.Kind), result).Inc()
}

// asked counts one answer of a third party.
func (m *metrics) asked(provider string, ok bool, err error) {
	result := "wrong"
	switch {
	case errors.Is(err, escalation.ErrMisconfigured):
		result = "misconfigured"
	case err != nil:
		result = "unsure"
	case ok:
		result = "right"
	}
	m.answers.WithLabelValues(pick(providers, provider), result).Inc()
}

// storeFailed is called for every call that the shared store failed.
func (m *metrics) storeFailed(op string, err error) {
	kind := redisstore.Kind(err)
	if errors.Is(err, keys.ErrLate) {
		kind = late
	}
	m.storeErrors.WithLabelValues(pick(operations, op), pick(kinds, kind)).Inc()
}

// reloaded counts a reload; p is nil when it was refused.
func (m *metrics) reloaded(p *escalation.Policy) {
	if p == nil {
		m.reloads.WithLabelValues("refused").Inc()
		return
	}
	m.reloads.WithLabelValues("loaded").Inc()
	m.setPolicy(p)
}

// setPolicy takes the policy's names into the vocabulary and makes their
// children. Names of an earlier policy keep their series.
func (m *metrics) setPolicy(p *escalation.Policy) {
	w := newVocabulary(p, m)
	for realm := range w.realms {
		for k := range messages {
			each(func(r string) { m.messages.WithLabelValues(realm, k, r) }, "delivered", "failed")
		}
		for flow := range w.flows {
			for a := range actions {
				m.would.WithLabelValues(realm, flow, a)
			}
			for r := range w.reasons {
				m.reasons.WithLabelValues(realm, flow, r)
			}
			for e := range proofErrors {
				m.proofErrors.WithLabelValues(realm, flow, e)
			}
			for o := range outcomes {
				each(func(r string) { m.outcomes.WithLabelValues(realm, flow, o, r) }, "recorded", "held", "duplicate", "expired")
				m.breached.WithLabelValues(realm, flow, o)
			}
		}
	}
	m.words.Store(w)
	m.loaded.SetToCurrentTime()
}

// pick is v if the set has it, else other.
func pick(words map[string]bool, v string) string {
	if words[v] {
		return v
	}
	return other
}

func set[S ~string](words ...S) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[string(w)] = true
	}
	return m
}

func each(f func(string), words ...string) {
	for _, w := range words {
		f(w)
	}
}
