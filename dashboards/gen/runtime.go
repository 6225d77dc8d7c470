package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var runtime = board{
	uid: "guardd-runtime", title: "Runtime",
	what: "Each instance: memory, processor, its way to the shared store, what it has loaded.",
	rows: []row{
		{"Process", []panel{
			{kind: lines, title: "Processor", unit: units.Short, what: "Cores used, by instance.",
				queries: []query{q(`rate(process_cpu_seconds_total{WHERE}[RATE])`, "{{instance}}")}},
			{kind: lines, title: "Memory", unit: units.BytesIEC, what: "Resident, and Go's heap in use. memory_entries bounds what a flood of names can take.",
				queries: []query{
					q(`process_resident_memory_bytes{WHERE}`, "{{instance}} resident"),
					q(`go_memstats_heap_inuse_bytes{WHERE}`, "{{instance}} heap")}},
			{kind: lines, title: "Goroutines", unit: units.Short, what: "A number that only grows is a leak, or a dependency that hangs.",
				queries: []query{q(`go_goroutines{WHERE}`, "{{instance}}")}},
			{kind: lines, title: "Files", unit: units.PercentUnit, most: 1, marks: upTo(.8, .95), what: "Share of the file descriptors that the process may open.",
				queries: []query{q(`process_open_fds{WHERE} / process_max_fds{WHERE}`, "{{instance}}")}},
			{kind: lines, title: "Garbage collection", unit: units.PercentUnit, what: "Share of the time that the process stood still for it.",
				queries: []query{q(`rate(go_gc_duration_seconds_sum{WHERE}[RATE])`, "{{instance}}")}},
			{kind: lines, title: "Running for", unit: units.Seconds, what: "Since the process started. A saw is one that ends again and again.",
				queries: []query{q(`time() - process_start_time_seconds{WHERE}`, "{{instance}}")}},
			{kind: rowsOf, title: "Builds", unit: units.Short, width: 12, what: "What each instance was built from. Two versions side by side are fine while a release rolls out.",
				queries: []query{q(`count by (instance, version, revision, go_version) (guardd_build_info{WHERE})`, "")}},
			{kind: heat, title: "Decisions by time", unit: units.Seconds, width: 12, what: "How many decisions took how long. A second band at 5 ms is the store's deadline.",
				queries: []query{q(`sum by (le) (increase(guardd_decision_duration_seconds_bucket{WHERE}[RATE]))`, "{{le}}")}},
		}},
		{"Shared store", []panel{
			{kind: timeline, title: "Breaker open", unit: units.Short, width: 12, names: noIsGood, what: "Whether the shared store (node: which of a Cluster's) is asked only now and then, because it failed again and again.",
				queries: []query{q(`max by (instance, node) (guardd_breaker_open{WHERE})`, "{{instance}} {{node}}")}},
			{kind: stacked, title: "Calls that failed, by operation", unit: units.OpsPerSecond, width: 12, what: "Each was decided alone, or is tried again.",
				queries: []query{q(`sum by (operation) (rate(guardd_store_errors_total{WHERE}[RATE]))`, "{{operation}}")}},
			{kind: lines, title: "Breaker", unit: units.OpsPerSecond, what: "Times it opened, calls not made because it was open, and probes let through.",
				queries: []query{
					q(`sum(rate(guardd_breaker_opened_total{WHERE}[RATE]))`, "opened"),
					q(`sum(rate(guardd_breaker_skipped_total{WHERE}[RATE]))`, "calls skipped"),
					q(`sum by (result) (rate(guardd_breaker_probes_total{WHERE}[RATE]))`, "probes {{result}}")}},
			{kind: lines, title: "Next probe", unit: units.Seconds, what: "Until the shared store is asked again, by instance; 0 while the breaker is closed.",
				queries: []query{q(`max by (instance) (guardd_breaker_next_probe_seconds{WHERE})`, "{{instance}}")}},
			{kind: lines, title: "Owed to the store", unit: units.Short, what: "Buckets whose guesses were let through alone and are not charged yet, charges that the store has counted since, and those forgotten. It falls to 0 within seconds after the store is back.",
				queries: []query{
					q(`sum by (instance) (guardd_debts{WHERE})`, "{{instance}} owed"),
					q(`sum by (instance) (increase(guardd_debts_returned_total{WHERE}[RATE]))`, "{{instance}} charged"),
					q(`sum by (instance) (increase(guardd_debts_lost_total{WHERE}[RATE]))`, "{{instance}} forgotten")}},
			{kind: lines, title: "Instances counted", unit: units.Short, what: "Among how many a limit is shared while the store is gone, as each instance believes. They should agree.",
				queries: []query{q(`guardd_instances{WHERE}`, "{{instance}}")}},
		}},
		{"What it holds and has loaded", []panel{
			{kind: lines, title: "Entries in memory", unit: units.Short, what: "What the process keeps itself, by kind; memory_entries is the end.",
				queries: []query{q(`sum by (instance, kind) (guardd_twin_entries{WHERE})`, "{{instance}} {{kind}}")}},
			{kind: lines, title: "Memory was full", unit: units.OpsPerSecond, what: "Writes to buckets that newcomers share, and marks not kept. Above 0 in a flood of names: raise memory_entries.",
				queries: []query{
					q(`sum by (instance) (rate(guardd_twin_overflowed_total{WHERE}[RATE]))`, "{{instance}} shared buckets"),
					q(`sum by (instance) (rate(guardd_twin_unkept_total{WHERE}[RATE]))`, "{{instance}} marks not kept")}},
			{kind: stacked, title: "Traces", unit: units.OpsPerSecond, what: "Requests whose trace was to be exported, by what became of it. What the collector does not take is lost, and nobody waits for it.",
				queries: []query{q(`sum by (result) (rate(guardd_traces_total{WHERE}[RATE]))`, "{{result}}")}},
			{kind: lines, title: "Operators' journal", unit: units.Seconds, marks: upTo(5, 60), what: "Since each instance last looked for what operators did at others. Above a second or two: it does not reach the store.",
				queries: []query{q(`guardd_operator_journal_age_seconds{WHERE}`, "{{instance}}")}},
			{kind: lines, title: "Age of the policy", unit: units.Seconds, what: "Since each instance loaded the policy in force. Instances that differ by more than a rolling restart run different policies.",
				queries: []query{q(`time() - guardd_policy_loaded_timestamp_seconds{WHERE}`, "{{instance}}")}},
			{kind: stacked, title: "Reloads and operators' changes", unit: units.Short, what: "Reloads of the policy and of leaked passwords, and what operators did. refused: what was in force stays; the log says why.",
				queries: []query{
					q(`sum by (result) (increase(guardd_policy_reloads_total{WHERE}[RATE]))`, "policy {{result}}"),
					q(`sum by (result) (increase(guardd_breached_corpus_reloads_total{WHERE}[RATE]))`, "leaked passwords {{result}}"),
					q(`sum by (action) (increase(guardd_operator_changes_total{WHERE}[RATE]))`, "{{action}}")}},
			{kind: lines, title: "Age of files", unit: units.Seconds, what: "Since the files of leaked passwords and of addresses' providers were made, where that is known: both are of use as long as somebody renews them.",
				queries: []query{
					q(`time() - (max by (kind) (guardd_breached_corpus_timestamp_seconds{WHERE}) > 0)`, "leaked passwords, {{kind}}"),
					q(`time() - (max(guardd_asn_file_timestamp_seconds{WHERE}) > 0)`, "providers")}},
			{kind: lines, title: "Leaked passwords", unit: units.Short, what: "Hashes in the corpus that answers, by kind; whether it is the whole corpus (1), and whether it was found damaged (1), after which it answers nothing.",
				queries: []query{
					q(`max by (kind) (guardd_breached_corpus_rows{WHERE})`, "{{kind}} rows"),
					q(`min by (kind) (guardd_breached_corpus_complete{WHERE})`, "{{kind}} complete"),
					q(`max by (kind) (guardd_breached_corpus_damaged{WHERE})`, "{{kind}} damaged")}},
		}},
	},
}
