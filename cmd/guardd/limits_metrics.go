package main

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/guardd/guardd/keys/plans"
)

// takeResults are what becomes of a take.
var takeResults = []string{"allowed", "refused", "impossible", plans.ReasonSuspended, plans.ReasonUncounted}

// registerTakes makes the series of plan limits. Neither keys nor rules are
// labels: there may be any number of them.
func (m *metrics) registerTakes(counter func(name, help string, labels ...string) *prometheus.CounterVec) {
	m.takes = counter("guardd_limit_takes_total", "Takes of plan limits decided, by result, and whether this instance decided alone.", "result", "degraded")
	m.ledgerFailures = counter("guardd_limit_ledger_failures_total", "Calls that failed of what quotas are kept in: the database of plan limits, or else the store.").WithLabelValues()
	m.slots = counter("guardd_limit_slots_total", "What became of slots of plan limits, by result, and whether this instance decided alone.", "result", "degraded")
	for _, r := range plans.SlotResults {
		each(func(alone string) { m.slots.WithLabelValues(string(r), alone) }, "false", "true")
	}
	for _, r := range takeResults {
		each(func(alone string) { m.takes.WithLabelValues(r, alone) }, "false", "true")
	}
}

// took counts one decision.
func (m *metrics) took(d *plans.Decision) {
	result, alone := "refused", "false"
	switch {
	case d.Reason != "":
		result = d.Reason
	case d.Impossible:
		result = "impossible"
	case d.Allowed:
		result = "allowed"
	}
	if d.Degraded {
		alone = "true"
	}
	m.takes.WithLabelValues(result, alone).Inc()
}

// slotted counts what became of a slot.
func (m *metrics) slotted(r plans.SlotResult, degraded bool) {
	m.slots.WithLabelValues(string(r), strconv.FormatBool(degraded)).Inc()
}
