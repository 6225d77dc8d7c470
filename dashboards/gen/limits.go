package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

const takes = `sum by (le) (rate(guardd_http_request_duration_seconds_bucket{WHERE, route="/v1/limits/take"}[RATE]))`

var limits = board{
	uid: "guardd-limits", title: "Plan limits",
	what: "The limits of a general API: who takes, who is refused, and are the limits in force those of the database? Whose key it was: guardd limits explain.",
	rows: []row{
		{"Now", []panel{
			{kind: number, title: "Takes", unit: units.RequestsPerSecond, what: "Takes of plan limits decided a second.",
				queries: []query{q(`sum(rate(guardd_limit_takes_total{WHERE}[RATE]))`, "")}},
			{kind: number, title: "Refused", unit: units.PercentUnit, most: 1, what: "Share of takes refused. Callers that heed Retry-After keep it low.",
				queries: []query{q(`sum(rate(guardd_limit_takes_total{WHERE, result="refused"}[RATE])) / sum(rate(guardd_limit_takes_total{WHERE}[RATE]))`, "")}},
			{kind: number, title: "Decided alone", unit: units.PercentUnit, most: 1, marks: upTo(.001, .01), what: "Share of takes decided by an instance alone, at its share of each limit, because the shared store did not answer.",
				queries: []query{q(`sum(rate(guardd_limit_takes_total{WHERE, degraded="true"}[RATE])) / sum(rate(guardd_limit_takes_total{WHERE}[RATE]))`, "")}},
			{kind: number, title: "Take p99", unit: units.Seconds, marks: upTo(.005, .025), what: "99 of 100 calls of /v1/limits/take took no longer.",
				queries: []query{q(`histogram_quantile(0.99, `+takes+`)`, "")}},
			{kind: number, title: "Bad rows", unit: units.Short, marks: bad, what: "Faults in rows of the database; what was in force in their place stays. guardd limits list names them.",
				queries: []query{q(`max(guardd_limits_db_bad_rows{WHERE})`, "")}},
			{kind: number, title: "Last confirmed", unit: units.Seconds, marks: upTo(60, 600), what: "Since the database last said that the limits in force are its newest, of the instance that waits longest; empty without a database.",
				queries: []query{q(`time() - min(guardd_limits_db_confirmed_timestamp_seconds{WHERE} > 0)`, "")}},
		}},
		{"Takes", []panel{
			{kind: stacked, title: "Takes by result", unit: units.RequestsPerSecond, width: 12, what: "impossible: a cost above the whole limit, which waiting does not help. suspended: the key is. uncounted: let through without the store, by a rule that fails open.",
				queries: []query{q(`sum by (result) (rate(guardd_limit_takes_total{WHERE}[RATE]))`, "{{result}}")}},
			{kind: lines, title: "Time of a take", unit: units.Seconds, width: 12, traces: true, what: "Quantiles of the time to answer /v1/limits/take.",
				queries: quantiles(takes)},
			{kind: stacked, title: "Calls", unit: units.RequestsPerSecond, width: 12, what: "Calls to /v1/limits by route and class of status. 4xx: unknown rules, bad numbers, costs above a capacity.",
				queries: []query{q(`sum by (route, status) (rate(guardd_http_requests_total{WHERE, route=~"/v1/limits/.+"}[RATE])) > 0`, "{{route}} {{status}}")}},
			{kind: lines, title: "Refused by instance", unit: units.PercentUnit, width: 12, most: 1, what: "Should be alike: one that differs decides alone, or serves other callers.",
				queries: []query{q(`sum by (instance) (rate(guardd_limit_takes_total{WHERE, result="refused"}[RATE])) / sum by (instance) (rate(guardd_limit_takes_total{WHERE}[RATE]))`, "{{instance}}")}},
		}},
		{"Slots and leases", []panel{
			{kind: stacked, title: "Slots", unit: units.RequestsPerSecond, what: "What became of slots of rules of kind concurrency. missing: renewed or released after it had expired; its holder is slower than the rule's ttl.",
				queries: []query{q(`sum by (result) (rate(guardd_limit_slots_total{WHERE}[RATE]))`, "{{result}}")}},
			{kind: stacked, title: "Decided by what was leased", unit: units.RequestsPerSecond, what: "Takes of busy keys that no store was asked for, because the instance had leased tokens.",
				queries: []query{q(`sum by (result) (rate(guardd_limit_lease_takes_total{WHERE}[RATE]))`, "{{result}}")}},
			{kind: lines, title: "Calls for leases", unit: units.OpsPerSecond, what: "Calls of the store for tokens in advance. Far fewer than the takes that are decided by them is what leases are for.",
				queries: []query{q(`sum by (result) (rate(guardd_limit_lease_calls_total{WHERE}[RATE]))`, "{{result}}")}},
			{kind: lines, title: "Leased tokens", unit: units.CountsPerSecond, what: "Leased, spent, given back unused, and lost with what held them. Mostly returned: the rule leases too much at a time.",
				queries: []query{q(`sum by (what) (rate(guardd_limit_lease_tokens_total{WHERE}[RATE]))`, "{{what}}")}},
			{kind: lines, title: "Busy keys", unit: units.Short, what: "Keys that an instance holds tokens of.",
				queries: []query{q(`sum by (instance) (guardd_limit_lease_keys{WHERE})`, "{{instance}}")}},
		}},
		{"Where limits come from, and what is kept", []panel{
			{kind: lines, title: "Version in force", unit: units.Short, what: "The database's version, by instance. They differ for a second after a change; for longer: an instance cannot read it.",
				queries: []query{q(`max by (instance) (guardd_limits_db_version{WHERE})`, "{{instance}}")}},
			{kind: stacked, title: "Failures of the database", unit: units.OpsPerSecond, what: "By operation, each tried again. listen only: notices are lost behind a pooler, and looking twice a second remains. quotas: what they are kept in did not answer.",
				queries: []query{
					q(`sum by (operation) (rate(guardd_limits_db_errors_total{WHERE}[RATE]))`, "{{operation}}"),
					q(`sum(rate(guardd_limit_ledger_failures_total{WHERE}[RATE]))`, "quotas")}},
			{kind: lines, title: "Evidence not kept yet", unit: units.Short, what: "Rows of evidence that an instance keeps because the store does not take them, and rows dropped, by instance.",
				queries: []query{
					q(`sum by (instance) (guardd_limit_evidence_unsent{WHERE})`, "{{instance}} unsent"),
					q(`sum by (instance) (increase(guardd_limit_evidence_lost_total{WHERE}[RATE]))`, "{{instance}} lost")}},
		}},
	},
}
