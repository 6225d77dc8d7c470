package main

import "github.com/grafana/grafana-foundation-sdk/go/units"

var aggregator = board{
	uid: "guardd-aggregator", title: "Aggregator and Kafka", realm: true,
	what: "Do events arrive, how late, and what is lost on the way? Detection knows only what arrives.",
	rows: []row{
		{"Now", []panel{
			{kind: number, title: "Behind", unit: units.Seconds, marks: upTo(30, 120), what: "From when the last event happened to when it was read; the longest of a partition. Detection is late by as much.",
				queries: []query{q(`max(guardd_aggregate_delay_seconds{WHERE})`, "")}},
			{kind: number, title: "Not read yet", unit: units.Short, marks: upTo(10_000, 100_000), what: "Events that were due after those that were read last; the most of a partition.",
				queries: []query{q(`max(guardd_aggregate_lag{WHERE})`, "")}},
			{kind: number, title: "Oldest unpublished", unit: units.Seconds, marks: upTo(10, 60), what: "How long the oldest event waits to be published. Kafka is gone or slow; with spool_dir nothing is lost.",
				queries: []query{q(`max(guardd_events_oldest_seconds{WHERE})`, "")}},
			{kind: number, title: "Lost", unit: units.EventsPerSecond, marks: bad, what: "Events that had no room, a second.",
				queries: []query{q(`sum(rate(guardd_events_lost_total{WHERE}[RATE]))`, "")}},
			{kind: number, title: "Dead letters", unit: units.EventsPerSecond, marks: bad, what: "Messages a second that could not be read and were put on the topic dead: of a newer guardd, or not guardd's.",
				queries: []query{q(`sum(rate(guardd_kafka_dead_letters_total{WHERE}[RATE]))`, "")}},
			{kind: number, title: "Instances that read", unit: units.Short, what: "Instances that read partitions. With Kafka each partition has one reader; 0 for minutes means that nobody detects.",
				queries: []query{q(`sum(guardd_aggregate_partitions{WHERE} > bool 0)`, "")}},
		}},
		{"From decisions to the topic", []panel{
			{kind: lines, title: "Events", unit: units.EventsPerSecond, what: "Made, and taken by the bus. The second below the first for long: see what waits.",
				queries: []query{
					q(`sum(rate(guardd_events_emitted_total{WHERE}[RATE]))`, "made"),
					q(`sum(rate(guardd_events_published_total{WHERE}[RATE]))`, "published")}},
			{kind: lines, title: "Events that wait", unit: units.Short, what: "In memory and on disk (spool_dir), by instance.",
				queries: []query{
					q(`sum by (instance) (guardd_events_waiting{WHERE})`, "{{instance}} in memory"),
					q(`sum by (instance) (guardd_events_spooled{WHERE})`, "{{instance}} on disk")}},
			{kind: lines, title: "On disk", unit: units.BytesIEC, what: "Size of the spool, by instance; events.spool_bytes is its end.",
				queries: []query{q(`sum by (instance) (guardd_events_spooled_bytes{WHERE})`, "{{instance}}")}},
			{kind: stacked, title: "Lost events, by where", unit: units.EventsPerSecond, what: "ring: more came than could be encoded. memory and spool: Kafka was gone for longer than there was room. disk: the spool could not be written. closed: the process ended.",
				queries: []query{q(`sum by (reason) (rate(guardd_events_lost_total{WHERE}[RATE]))`, "{{reason}}")}},
			{kind: lines, title: "Publishing that failed", unit: units.OpsPerSecond, what: "Calls to the bus that failed, each tried again, and spool files that were found torn.",
				queries: []query{
					q(`sum(rate(guardd_events_publish_failures_total{WHERE}[RATE]))`, "failed calls"),
					q(`sum(rate(guardd_events_spool_torn_total{WHERE}[RATE]))`, "torn files")}},
			{kind: stacked, title: "Failures of Kafka", unit: units.OpsPerSecond, what: "By operation; each is tried again.",
				queries: []query{q(`sum by (operation) (rate(guardd_kafka_errors_total{WHERE}[RATE]))`, "{{operation}}")}},
		}},
		{"From the topic to what is learnt", []panel{
			{kind: lines, title: "Lag by partition", unit: units.Short, what: "Messages that the partition's reader has not handled yet. One that only grows: its reader is stuck; all of them: too few instances.",
				queries: []query{q(`max by (group, topic, partition) (guardd_kafka_lag{WHERE})`, "{{group}} {{topic}} {{partition}}")}},
			{kind: lines, title: "Age of the last handled message", unit: units.Seconds, what: "By partition; 0 where nothing is due.",
				queries: []query{q(`max by (group, topic, partition) (guardd_kafka_event_age_seconds{WHERE})`, "{{group}} {{topic}} {{partition}}")}},
			{kind: lines, title: "Who reads", unit: units.Short, what: "Partitions by instance. They move when instances come and go.",
				queries: []query{q(`sum by (instance) (guardd_aggregate_partitions{WHERE})`, "{{instance}}")}},
			{kind: lines, title: "Dealt anew", unit: units.OpsPerSecond, what: "Times that the instances dealt the partitions among them, and that reading began anew because nothing came. Again and again: instances lose touch with Kafka.",
				queries: []query{
					q(`sum(rate(guardd_kafka_generations_total{WHERE}[RATE]))`, "dealt"),
					q(`sum(rate(guardd_kafka_rebuilt_total{WHERE}[RATE]))`, "began anew")}},
			{kind: lines, title: "Events read", unit: units.EventsPerSecond, what: "Each once, and those left aside: read before, too late for their ten seconds, or of a time to come (an instance's clock is ahead).",
				queries: []query{
					q(`sum(rate(guardd_aggregate_events_total{REALM}[RATE]))`, "read"),
					q(`sum(rate(guardd_aggregate_duplicates_total{REALM}[RATE]))`, "again"),
					q(`sum(rate(guardd_aggregate_late_total{REALM}[RATE]))`, "late"),
					q(`sum(rate(guardd_aggregate_ahead_total{REALM}[RATE]))`, "ahead")}},
			{kind: lines, title: "Missing", unit: units.Short, what: "Events that an instance has made and that have not come, by realm: lost, or on their way. A step that stays is what a killed instance took with it.",
				queries: []query{q(`sum by (realm) (guardd_aggregate_missing{REALM})`, "{{realm}}")}},
			{kind: lines, title: "Ten seconds counted", unit: units.OpsPerSecond, what: "0.1 a second and realm is all there is; at 0 detection stands still, and a posture that it has set lapses after 15 minutes.",
				queries: []query{q(`sum by (realm) (rate(guardd_aggregate_bins_total{REALM}[RATE]))`, "{{realm}}")}},
		}},
		{"What a SOC is told", []panel{
			{kind: lines, title: "Records told", unit: units.EventsPerSecond, what: "Records that each sink took. Findings are few; a sink that is told of decisions has as many as there are.",
				queries: []query{q(`sum by (sink) (rate(guardd_soc_delivered_total{WHERE}[RATE]))`, "{{sink}}")}},
			{kind: lines, title: "Records that wait", unit: units.Short, what: "By sink, of all instances; the sink's queue is the end.",
				queries: []query{q(`sum by (sink) (guardd_soc_waiting{WHERE})`, "{{sink}}")}},
			{kind: lines, title: "Oldest record that waits", unit: units.Seconds, marks: upTo(60, 600), what: "By sink; 0 when none waits. It grows while the sink does not answer: look at its log, and at guardd's.",
				queries: []query{q(`max by (sink) (guardd_soc_oldest_seconds{WHERE})`, "{{sink}}")}},
			{kind: lines, title: "Sinks that failed", unit: units.OpsPerSecond, what: "Times that a sink did not take records. They are told again.",
				queries: []query{q(`sum by (sink) (rate(guardd_soc_failures_total{WHERE}[RATE]))`, "{{sink}}")}},
			{kind: lines, title: "Records not told", unit: units.EventsPerSecond, marks: bad, what: "What a sink refused, or had no room for: it is in the file of dead letters, where one is set. Held back are findings beyond what the sink is told in a minute, of which it is told how many.",
				queries: []query{
					q(`sum by (sink, reason) (rate(guardd_soc_dead_letters_total{WHERE}[RATE]))`, "{{sink}} {{reason}}"),
					q(`sum by (sink) (rate(guardd_soc_held_back_total{WHERE}[RATE]))`, "{{sink}} held back")}},
		}},
		{"What is learnt, and what fails", []panel{
			{kind: stacked, title: "Failures", unit: units.OpsPerSecond, what: "Failures of the store or the bus, by operation; each is tried again.",
				queries: []query{q(`sum by (operation) (rate(guardd_aggregate_failures_total{WHERE}[RATE]))`, "{{operation}}")}},
			{kind: lines, title: "Given up", unit: units.OpsPerSecond, what: "Decisions not kept for explain because the store did not take them, postures not set because another instance had read further, and memory cut short for want of room.",
				queries: []query{
					q(`sum(rate(guardd_aggregate_unkept_total{REALM}[RATE]))`, "not kept"),
					q(`sum(rate(guardd_aggregate_stale_total{REALM}[RATE]))`, "stale postures"),
					q(`sum(rate(guardd_aggregate_cut_short_total{REALM}[RATE]))`, "cut short")}},
			{kind: lines, title: "Accounts and addresses", unit: units.Short, what: "Accounts followed to learn how many share an address (of each how many one is followed), and addresses that count as more than one person.",
				queries: []query{
					q(`sum by (realm) (guardd_aggregate_followed_accounts{REALM})`, "{{realm}} accounts followed"),
					q(`max by (realm) (guardd_aggregate_sampled_accounts{REALM})`, "{{realm}} one of"),
					q(`sum by (realm) (guardd_aggregate_shared_addresses{REALM})`, "{{realm}} shared addresses")}},
		}},
	},
}
