package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const decisions = `sum by (le) (rate(guardd_decision_duration_seconds_bucket{WHERE}[RATE]))`

var overview = board{
	uid: "guardd-overview", title: "Overview", realm: true,
	what: "Is guardd answering, how fast, and what does it ask of visitors? Begin here.",
	rows: []row{
		{"Now", []panel{
			{kind: number, title: "Instances that answer", unit: units.Short, what: "Instances whose last scrape worked. Fewer than you run: one is down, or Prometheus cannot reach its admin listener.",
				queries: []query{q(`sum(up{WHERE})`, "")}},
			{kind: number, title: "Decisions", unit: units.RequestsPerSecond, what: "Attempts answered a second. A fall to 0 while people sign in means that login handlers go on without guardd.",
				queries: []query{q(`sum(rate(guardd_attempts_total{REALM}[RATE]))`, "")}},
			{kind: number, title: "Asked for more", unit: units.PercentUnit, most: 1, marks: upTo(.1, .3), what: "Share of attempts answered anything but allow. A few percent is usual; more is an attack, or friction: see the attack and the friction dashboard.",
				queries: []query{q(`sum(rate(guardd_attempts_total{REALM, action!="allow"}[RATE])) / sum(rate(guardd_attempts_total{REALM}[RATE]))`, "")}},
			{kind: number, title: "Decision p99", unit: units.Seconds, marks: upTo(.01, .025), what: "99 of 100 decisions took no longer than this. The shared store has 5 ms (redis_deadline); more than 10 ms is waited for elsewhere, and over the alerts' budget.",
				queries: []query{q(`histogram_quantile(0.99, `+decisions+`)`, "")}},
			{kind: number, title: "Posture", unit: units.Short, names: postures, what: "The highest posture in force: how much all logins together look like an attack. Above normal: see the attack dashboard.",
				queries: []query{q(`max(guardd_posture{REALM})`, "")}},
			{kind: number, title: "Deciding alone", unit: units.Short, marks: bad, what: "Instances that the shared store, or a node of it, does not answer. They grant their share of each limit until it does.",
				queries: []query{q(`sum(guardd_degraded{WHERE})`, "")}},
		}},
		{"Logins", []panel{
			{kind: stacked, title: "Decisions by action", unit: units.RequestsPerSecond, width: 12, what: "What attempts were answered: allow lets a guess through; delay, captcha and verify ask for time, humanity or a code; deny is an operator's list.",
				queries: []query{q(`sum by (action) (rate(guardd_attempts_total{REALM}[RATE]))`, "{{action}}")}},
			{kind: stacked, title: "Outcomes", unit: units.RequestsPerSecond, width: 12, what: "What became of the passwords that were compared, as handlers report it. Far fewer outcomes than allowed attempts: a handler does not report, and each of its attempts counts as a failure.",
				queries: []query{q(`sum by (outcome) (rate(guardd_outcomes_total{REALM, result="recorded"}[RATE]))`, "{{outcome}}")}},
			{kind: timeline, title: "Posture by realm", unit: units.Short, width: 12, names: postures, what: "The posture in force in each realm, an operator's pin included.",
				queries: []query{q(`max by (realm) (guardd_posture{REALM})`, "{{realm}}")}},
			{kind: lines, title: "Success rate", unit: units.PercentUnit, width: 12, most: 1, what: "Share of compared passwords that were right. A sudden fall is guessing, or an outage behind the login.",
				queries: []query{q(`sum by (realm) (rate(guardd_outcomes_total{REALM, outcome="success", result="recorded"}[RATE])) / sum by (realm) (rate(guardd_outcomes_total{REALM, outcome=~"success|failure|unknown_account", result="recorded"}[RATE]))`, "{{realm}}")}},
		}},
		{"Service", []panel{
			{kind: lines, title: "Time of a decision", unit: units.Seconds, traces: true, marks: []mark{{.005, "orange"}}, what: "Quantiles of the time to decide, the store's answer included; the dashed line is the store's deadline. Dots are single decisions with a trace.",
				queries: quantiles(decisions)},
			{kind: lines, title: "Time to book an outcome", unit: units.Seconds, what: "Quantiles of the time that an outcome takes.",
				queries: quantiles(`sum by (le) (rate(guardd_outcome_duration_seconds_bucket{WHERE}[RATE]))`)},
			{kind: lines, title: "Slow decisions", unit: units.PercentUnit, marks: []mark{{.01, "red"}}, what: "Share of decisions that took longer than 10 ms. The alerts' budget is 1 in 100, the dashed line.",
				queries: []query{q(`1 - sum(rate(guardd_decision_duration_seconds_bucket{WHERE, le="0.01"}[RATE])) / sum(rate(guardd_decision_duration_seconds_count{WHERE}[RATE]))`, "slow")}},
			{kind: stacked, title: "HTTP answers", unit: units.RequestsPerSecond, what: "Answers by class of status. 4xx are requests that were wrong, a right key missing among them; a refused visitor is a 2xx.",
				queries: []query{q(`sum by (status) (rate(guardd_http_requests_total{WHERE}[RATE]))`, "{{status}}")}},
			{kind: lines, title: "HTTP errors", unit: units.PercentUnit, marks: bad, what: "Share of answers of 5xx, by route. Attempts have none while the store is gone; look at the log of the instance.",
				queries: []query{q(`sum by (route) (rate(guardd_http_requests_total{WHERE, status="5xx"}[RATE])) / (sum by (route) (rate(guardd_http_requests_total{WHERE}[RATE])) > 0)`, "{{route}}")}},
			{kind: lines, title: "Decided alone", unit: units.PercentUnit, most: 1, what: "Share of decisions made without the shared store, by instance. They are right to each instance's share of a limit, and marked degraded.",
				queries: []query{q(`sum by (instance) (rate(guardd_decision_duration_seconds_count{WHERE, degraded="true"}[RATE])) / sum by (instance) (rate(guardd_decision_duration_seconds_count{WHERE}[RATE]))`, "{{instance}}")}},
			{kind: stacked, title: "Calls that the store failed", unit: units.OpsPerSecond, what: "By what went wrong: timeout and late are the deadline, refused and broken a store that is gone, oom and readonly one that must not be written.",
				queries: []query{q(`sum by (kind) (rate(guardd_store_errors_total{WHERE}[RATE]))`, "{{kind}}")}},
			{kind: lines, title: "Events that wait or are lost", unit: units.Short, what: "Events of decisions not published yet, in memory and on disk, and those lost in the last minutes. Detection and findings see only what is published.",
				queries: []query{
					q(`sum(guardd_events_waiting{WHERE})`, "in memory"),
					q(`sum(guardd_events_spooled{WHERE})`, "on disk"),
					q(`sum(increase(guardd_events_lost_total{WHERE}[RATE]))`, "lost")}},
		}},
	},
}
