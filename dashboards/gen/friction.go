package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var friction = board{
	uid: "guardd-friction", title: "Challenges and friction", realm: true,
	what: "What are people asked for, why, and do they get in?",
	rows: []row{
		{"How much is asked", []panel{
			{kind: lines, title: "Share asked for more", unit: units.PercentUnit, most: 1, what: "By rung. In calm times this is what honest people pay; compare with the attack dashboard before loosening a limit.",
				queries: []query{q(`sum by (action) (rate(guardd_attempts_total{REALM, action!="allow"}[RATE])) / scalar(sum(rate(guardd_attempts_total{REALM}[RATE])))`, "{{action}}")}},
			{kind: stacked, title: "Why", unit: units.OpsPerSecond, what: "The ten most frequent reasons, as explain names them: tier.limit, posture, suspect, flood, store_gone. One attempt may have several.",
				queries: []query{q(`topk(10, sum by (reason) (rate(guardd_attempt_reasons_total{REALM}[RATE])))`, "{{reason}}")}},
			{kind: stacked, title: "Who comes", unit: units.RequestsPerSecond, what: "What was known of visitors: a device, a familiar place, or nothing. Mostly none: the handler does not send device tokens back, and everybody is asked as a stranger.",
				queries: []query{q(`sum by (trust) (rate(guardd_attempt_trust_total{REALM}[RATE]))`, "{{trust}}")}},
			{kind: lines, title: "Strangers", unit: units.PercentUnit, most: 1, what: "Share of attempts from unknown devices in unfamiliar places. About one in eight is usual; an attack raises it.",
				queries: []query{q(`sum by (realm) (rate(guardd_attempt_trust_total{REALM, trust="none"}[RATE])) / sum by (realm) (rate(guardd_attempt_trust_total{REALM}[RATE]))`, "{{realm}}")}},
			{kind: lines, title: "Limits that ask strangers and others", unit: units.OpsPerSecond, what: "Looks at a limit, by the rung that it asked for.",
				queries: []query{q(`sum by (rung) (rate(guardd_tier_rungs_total{WHERE, rung!="allow"}[RATE]))`, "{{rung}}")}},
			{kind: stacked, title: "In shadow mode", unit: units.RequestsPerSecond, what: "What would have been asked where guardd only watches (shadow). 0 where it decides.",
				queries: []query{q(`sum by (action) (rate(guardd_shadow_attempts_total{REALM}[RATE]))`, "{{action}}")}},
		}},
		{"Challenges", []panel{
			{kind: lines, title: "Asked, opened, answered, solved", unit: units.RequestsPerSecond, width: 12, what: "From the challenge in an answer to the proof: pages opened, answers given, answers that were right. Where the lines part is where people give up.",
				queries: []query{
					q(`sum(rate(guardd_attempts_total{REALM, action=~"captcha|verify"}[RATE]))`, "asked"),
					q(`sum(rate(guardd_http_requests_total{WHERE, route="/challenges/{token}", status="2xx"}[RATE]))`, "opened"),
					q(`sum(rate(guardd_http_requests_total{WHERE, route="/challenges/{token}/answer", status=~"2xx|3xx|4xx"}[RATE]))`, "answered"),
					q(`sum(rate(guardd_http_requests_total{WHERE, route="/challenges/{token}/answer", status=~"2xx|3xx"}[RATE]))`, "solved")}},
			{kind: lines, title: "Solve rate", unit: units.PercentUnit, width: 12, most: 1, what: "Share of answers on challenge pages that were right; asking for another picture counts as one that was not. Far below usual: the page is broken for somebody, or machines try. Far above: machines succeed.",
				queries: []query{q(`sum(rate(guardd_http_requests_total{WHERE, route="/challenges/{token}/answer", status=~"2xx|3xx"}[RATE])) / sum(rate(guardd_http_requests_total{WHERE, route="/challenges/{token}/answer", status=~"2xx|3xx|4xx"}[RATE]))`, "solved")}},
			{kind: stacked, title: "Ways taken", unit: units.RequestsPerSecond, what: "Pictures, sounds and work fetched, and codes asked for.",
				queries: []query{q(`sum by (route) (rate(guardd_http_requests_total{WHERE, route=~"/challenges/{token}/(image.png|audio.wav|pow.json|send)", status="2xx"}[RATE]))`, "{{route}}")}},
			{kind: stacked, title: "Proofs that did not count", unit: units.OpsPerSecond, what: "By why not. too_early: a form that does not wait. spent and invalid: replays and forgeries. wrong_account: a proof shown for another account.",
				queries: []query{q(`sum by (error) (rate(guardd_proof_errors_total{REALM}[RATE]))`, "{{error}}")}},
			{kind: stacked, title: "Codes and notices", unit: units.OpsPerSecond, what: "Messages to owners, delivered and failed. Where codes fail, nobody can pass verify: look at delivery in the log.",
				queries: []query{q(`sum by (kind, result) (rate(guardd_messages_total{REALM}[RATE]))`, "{{kind}} {{result}}")}},
			{kind: stacked, title: "Third parties' captchas", unit: units.OpsPerSecond, what: "What they answered about their challenges. unsure: they did not answer, and guardd's own picture is asked instead. misconfigured: the key is wrong.",
				queries: []query{q(`sum by (provider, result) (rate(guardd_provider_answers_total{WHERE}[RATE]))`, "{{provider}} {{result}}")}},
			{kind: lines, title: "Time of challenge pages", unit: units.Seconds, what: "99 of 100 answers took no longer, by route. Sounds take longest.",
				queries: []query{q(`histogram_quantile(0.99, sum by (le, route) (rate(guardd_http_request_duration_seconds_bucket{WHERE, route=~"/challenges/.+"}[RATE]))) > 0`, "{{route}}")}},
			{kind: lines, title: "Successes held", unit: units.OpsPerSecond, what: "Right passwords that are known from a leak, from a stranger: nobody is signed in until a code is shown (breached: verify).",
				queries: []query{q(`sum by (result) (rate(guardd_outcomes_total{REALM, outcome="success", result=~"held|recorded"}[RATE]))`, "{{result}}")}},
			{kind: stacked, title: "Look-ups of passwords", unit: units.RequestsPerSecond, what: "What became of questions whether a password has leaked. unknown and no_corpus: nobody was told safe, and no password was refused.",
				queries: []query{q(`sum by (result) (rate(guardd_breached_lookups_total{WHERE}[RATE]))`, "{{result}}")}},
		}},
	},
}
