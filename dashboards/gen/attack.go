package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var attack = board{
	uid: "guardd-attack", title: "Attack", realm: true,
	what: "Is somebody guessing, how much, at what, and what is done about it? Who exactly is in the findings and in guardd explain: accounts and addresses are never labels.",
	rows: []row{
		{"Now", []panel{
			{kind: number, title: "Posture", unit: units.Short, names: postures, what: "The highest posture in force. high puts delay under strangers, critical a captcha; known devices and familiar places are asked for nothing.",
				queries: []query{q(`max(guardd_posture{REALM})`, "")}},
			{kind: number, title: "Pinned by an operator", unit: units.Short, names: eitherWay, what: "Whether an operator's pin is in force, which goes over what detection finds. guardd posture release ends it.",
				queries: []query{q(`max(guardd_posture_pinned{REALM})`, "")}},
			{kind: number, title: "Open campaigns", unit: units.Short, marks: bad, what: "Attacks that detection sees going on. Each is a finding, with what it is made of and what was done.",
				queries: []query{q(`sum(guardd_detection_campaigns{REALM})`, "")}},
			{kind: number, title: "Suspect networks", unit: units.Short, marks: bad, what: "Addresses and networks whose strangers are asked for a captcha, because they make up most of an attack.",
				queries: []query{q(`sum(guardd_detection_suspects{REALM, kind="network"})`, "")}},
			{kind: number, title: "Suspect passwords", unit: units.Short, marks: bad, what: "Passwords that are tried on many accounts.",
				queries: []query{q(`sum(guardd_detection_suspects{REALM, kind="password"})`, "")}},
			{kind: number, title: "Still learning", unit: units.Short, names: eitherWay, what: "Whether detection knows too little of a realm, as in its first week: it tells what it finds, and tightens nothing.",
				queries: []query{q(`max(min by (realm) (guardd_detection_learning{REALM}))`, "")}},
		}},
		{"What detection sees", []panel{
			{kind: lines, title: "Failures beyond what is usual", unit: units.CountsPerMinute, width: 12, what: "Failures of strangers that the hour of the week and the sign-ins do not explain, beside those that they do. An attack is the first rising over the second.",
				queries: []query{
					q(`max by (realm) (guardd_detection_excess_per_minute{REALM})`, "{{realm}} excess"),
					q(`max by (realm) (guardd_detection_expected_per_minute{REALM})`, "{{realm}} expected")}},
			{kind: stacked, title: "Logins by what they count as", unit: units.RequestsPerSecond, width: 12, what: "success: an account once an hour. warm: failures of known devices and familiar places. cold: failures of strangers. repeat: the same wrong password again, mostly an application with an old one. unsolved: strangers that were asked and did not solve it.",
				queries: []query{q(`sum by (class) (rate(guardd_aggregate_logins_total{REALM}[RATE]))`, "{{class}}")}},
			{kind: timeline, title: "Posture, and what detection asks for", unit: units.Short, width: 12, names: postures, what: "In force, and asked for: they differ while an operator's pin is in force, in the first week, and in dry-run.",
				queries: []query{
					q(`max by (realm) (guardd_posture{REALM})`, "{{realm}} in force"),
					q(`max by (realm) (guardd_detection_level{REALM})`, "{{realm}} asked for")}},
			{kind: lines, title: "Open campaigns by kind", unit: units.Short, width: 12, what: "stuffing: many accounts with passwords from leaks. spraying: few passwords on many accounts. The others are told in docs/findings.md.",
				queries: []query{q(`sum by (what) (guardd_detection_campaigns{REALM})`, "{{what}}")}},
			{kind: stacked, title: "Findings", unit: units.Short, what: "Findings published, by kind and state. Each campaign opens and closes once; updates tell of its growth.",
				queries: []query{q(`sum by (what, state) (increase(guardd_findings_total{REALM}[RATE]))`, "{{what}} {{state}}")}},
			{kind: lines, title: "Suspects", unit: units.Short, what: "Networks and passwords that are held suspect, over time.",
				queries: []query{q(`sum by (kind) (guardd_detection_suspects{REALM})`, "{{kind}}")}},
			{kind: stacked, title: "Postures set", unit: units.Short, what: "Changes of posture by detection. Up and down again all day: the attack probes for the threshold, or the site has changed.",
				queries: []query{q(`sum by (posture) (increase(guardd_detection_changes_total{REALM}[RATE]))`, "{{posture}}")}},
		}},
		{"Guesses", []panel{
			{kind: stacked, title: "Wrong guesses let through", unit: units.RequestsPerSecond, what: "Compared passwords that were wrong, and names that are no account. What is refused is not compared and not here.",
				queries: []query{q(`sum by (outcome) (rate(guardd_outcomes_total{REALM, outcome=~"failure|unknown_account", result="recorded"}[RATE]))`, "{{outcome}}")}},
			{kind: lines, title: "Names that are no account", unit: units.PercentUnit, most: 1, what: "Share of compared passwords whose account does not exist. Stuffing of a list from elsewhere raises it; people mistype their names seldom.",
				queries: []query{q(`sum by (realm) (rate(guardd_outcomes_total{REALM, outcome="unknown_account", result="recorded"}[RATE])) / sum by (realm) (rate(guardd_outcomes_total{REALM, outcome=~"success|failure|unknown_account", result="recorded"}[RATE]))`, "{{realm}}")}},
			{kind: stacked, title: "Passwords known from leaks", unit: units.RequestsPerSecond, what: "Outcomes whose password was in a leak, where the handler says so. Successes are accounts that an attacker could enter: each is advised to reset its password.",
				queries: []query{q(`sum by (outcome) (rate(guardd_breached_outcomes_total{REALM, outcome=~"success|failure"}[RATE]))`, "{{outcome}}")}},
			{kind: stacked, title: "Asked because of an attack", unit: units.RequestsPerSecond, what: "Attempts asked for more by posture, suspect networks and passwords, the flood guard, and operators' lists.",
				queries: []query{q(`sum by (reason) (rate(guardd_attempt_reasons_total{REALM, reason=~"posture|suspect|flood|list.deny"}[RATE]))`, "{{reason}}")}},
			{kind: stacked, title: "Limits that asked for more", unit: units.OpsPerSecond, what: "Looks at a limit that asked for more than a password, by tier. account and pair: somebody guesses at few accounts. ip and network: from few addresses.",
				queries: []query{q(`sum by (tier) (rate(guardd_tier_rungs_total{WHERE, rung!="allow"}[RATE]))`, "{{tier}}")}},
			{kind: lines, title: "Left of limits, lowest tenth", unit: units.PercentUnit, most: 1, what: "Of 10 attempts one found no more than this share left, by tier. Near 0: those keys are empty.",
				queries: []query{q(`histogram_quantile(0.1, sum by (le, tier) (rate(guardd_tier_left_ratio_bucket{WHERE, tier=~"pair|account|ip|network|global|device"}[RATE])))`, "{{tier}}")}},
		}},
	},
}
