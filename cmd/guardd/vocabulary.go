package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/escalation/captcha"
	"github.com/guardd/guardd/escalation/operate"
	"github.com/guardd/guardd/keys"
)

// The closed sets of label values that no policy changes.
var (
	actions         = set(escalation.Actions...)
	operations      = set(append([]string{"load", "beat", "operators", "evidence"}, keys.Operations...)...)
	proofErrors     = set(escalation.ProofErrors...)
	providers       = set(captcha.Names...)
	messages        = set(escalation.MessageCode, escalation.MessageNotice)
	operatorActions = set(operate.Actions...)
	outcomes        = set(keys.Success.String(), keys.Failure.String(), keys.UnknownAccount.String(), keys.SecondFactorPending.String(),
		keys.DeniedByPolicy.String(), keys.NotChecked.String(), keys.Abandoned.String())
	ownReasons = []string{escalation.ReasonPosture, escalation.ReasonSuspect, escalation.ReasonFlood, escalation.ReasonStoreGone, escalation.ReasonListDeny,
		escalation.ReasonListAllow, escalation.ReasonDeviceInvalid, escalation.ReasonDeviceSpent}
)

// vocabulary is the closed sets that a policy makes: it is immutable, and
// swapped when the policy is.
type vocabulary struct {
	realms, flows, reasons map[string]bool
	levels                 map[levelKey]level
	series                 map[seriesKey]series
}

type seriesKey struct{ realm, flow string }

// series are those of every attempt in a flow, found once.
type series struct {
	attempts map[escalation.Action]prometheus.Counter
	trust    map[string]prometheus.Counter
}

func newSeries(m *metrics, k seriesKey) series {
	s := series{map[escalation.Action]prometheus.Counter{}, map[string]prometheus.Counter{}}
	for _, a := range escalation.Actions {
		s.attempts[a] = m.attempts.WithLabelValues(k.realm, k.flow, string(a))
	}
	for _, t := range trusts {
		s.trust[t] = m.trust.WithLabelValues(k.realm, k.flow, t)
	}
	return s
}

// seriesOf are those of a verdict. Only one that was decided under a policy since
// replaced can name what is not in this one.
func (w *vocabulary) seriesOf(m *metrics, v *escalation.Verdict) series {
	if s, ok := w.series[seriesKey{v.Realm, v.Flow}]; ok {
		return s
	}
	return newSeries(m, seriesKey{pick(w.realms, v.Realm), pick(w.flows, v.Flow)})
}

type levelKey struct{ flow, tier, limit string }

// level is one limit's series, found once: an attempt looks at up to a score
// of limits, and must not pay for looking up each one's labels.
type level struct {
	left  prometheus.Observer
	rungs [keys.Verify + 1]prometheus.Counter
}

func newVocabulary(p *escalation.Policy, m *metrics) *vocabulary {
	w := &vocabulary{realms: map[string]bool{}, flows: set(escalation.Flows...), reasons: set(ownReasons...), levels: map[levelKey]level{}, series: map[seriesKey]series{}}
	for name, realm := range p.Realms {
		w.realms[name] = true
		for flow := range w.flows {
			k := seriesKey{name, flow}
			w.series[k] = newSeries(m, k)
		}
		for flow, f := range realm.Flows {
			for _, l := range f.Limits {
				w.reasons[l.Tier+"."+l.Name] = true
				w.add(m, levelKey{flow, l.Tier, l.Name})
			}
		}
	}
	w.add(m, levelKey{other, other, other})
	return w
}

func (w *vocabulary) add(m *metrics, k levelKey) {
	if _, ok := w.levels[k]; ok {
		return
	}
	l := level{left: m.left.WithLabelValues(k.flow, k.tier, k.limit)}
	for r := range l.rungs {
		l.rungs[r] = m.rungs.WithLabelValues(k.flow, k.tier, k.limit, keys.Rung(r).String())
	}
	w.levels[k] = l
}

func (w *vocabulary) level(flow string, t *escalation.TierLevel) {
	l, ok := w.levels[levelKey{flow, t.Tier, t.Limit}]
	if !ok {
		l = w.levels[levelKey{other, other, other}]
	}
	if t.Capacity > 0 {
		l.left.Observe(float64(t.Left) / float64(t.Capacity))
	}
	if int(t.Rung) < len(l.rungs) {
		l.rungs[t.Rung].Inc()
	}
}
