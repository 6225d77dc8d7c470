package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/units"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/guardd/guardd/aggregate/asn/asntest"
	"github.com/guardd/guardd/aggregate/kafkabus/kafkatest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

const liveConfig = `
redis: REDIS
redis_deadline: 500ms # a machine may be busy
secret_file: secret
kafka: {brokers: [KAFKA]}
events: {spool_dir: spool-NAME}
limits_db: "sqlite:limits.db"
breached: {files: [pwned.index]}
asn_file: asn.mmdb
tracing: {otlp: COLLECTOR, sample: 1}
soc: {sinks: [{name: siem, to: "file:soc-NAME.jsonl", format: ocsf, decisions: all}]}
realms:
  default:
    delivery: {driver: log}
    breached: {verify: true}
    flows:
      otp: {}
`

const liveLimits = `
rules:
  - {name: burst, capacity: 50, refill: 10/1s, routes: {"GET /search": 5, "*": 1}}
  - {name: hot, capacity: 20000, refill: 1000/1s, lease: {above: 5}}
  - {name: jobs, kind: concurrency, capacity: 3, ttl: 10s}
plans:
  - {name: free, rules: [burst]}
keys:
  - {sha256: "689febd264f8b977e29c0fdb75f839eb248ba07d1561b14f2b95f42756943245", name: acme, plan: free}
`

// fleet is two instances with all that there is to be seen: a Redis, a Kafka, a
// database of plan limits, leaked passwords.
type fleet struct {
	a, b  *guarddProcess
	redis *redistest.Server
	kafka *kafkatest.Server
	index string // of leaked passwords
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	bin, dir := buildGuardd(t), t.TempDir()
	f := &fleet{redis: redistest.Start(t), kafka: kafkatest.Start(t, kafkatest.Options{Fake: true}), index: filepath.Join(dir, "pwned.index")}
	writeFile(t, dir, "secret", strings.Repeat("s3cret-", 6)+"\n")
	writeFile(t, dir, "limits.yaml", liveLimits)
	asntest.Write(t, filepath.Join(dir, "asn.mmdb"), map[string]uint32{"160.0.0.0/3": 64500})
	f.leak(t, bin)
	run(t, "", bin, "limits", "import", dir+"/limits.yaml", "--limits-db", "sqlite:"+dir+"/limits.db", "--reason", "a first plan")
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(collector.Close)
	one := func(name string) *guarddProcess {
		config := strings.NewReplacer("REDIS", f.redis.URL(), "KAFKA", f.kafka.Addr(), "COLLECTOR", collector.URL, "NAME", name).Replace(liveConfig)
		return startGuardd(t, bin, writeFile(t, dir, name+".yaml", config))
	}
	f.a, f.b = one("a"), one("b")
	return f
}

// leak makes the index of leaked passwords, in place of the one that is there.
func (f *fleet) leak(t *testing.T, bin string) {
	t.Helper()
	list := writeFile(t, filepath.Dir(f.index), "pwned.txt", "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8:10434004\n")
	run(t, "", bin, "breached", "build", list, "-o", f.index, "--partial")
}

// TestLive holds the dashboards to two running guardds.
func TestLive(t *testing.T) {
	f := startFleet(t)
	docs, _ := committed(t)
	t.Run("EverySelectorIsExported", func(t *testing.T) { testSelectors(t, f, docs) })
	t.Run("EveryPanelHasSamples", func(t *testing.T) { testPanels(t, f, docs) })
}

// testSelectors holds what dashboards ask for to what a guardd says that nobody
// has asked anything yet: what appears with its first event only would leave rates
// without a beginning.
func testSelectors(t *testing.T, f *fleet, docs []*doc) {
	eventually(t, func() (bool, string) { // partitions are dealt within seconds
		_, text := get("http://" + f.a.admin + "/metrics")
		return strings.Contains(text, "\nguardd_kafka_lag{"), "a partition to read"
	})
	_, text := get("http://" + f.a.admin + "/metrics")
	e, err := scraped(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range docs {
		for _, b := range e.breaches(d) {
			t.Error(b)
		}
	}
	for expr, want := range map[string]string{
		`sum(guardd_attempt_total{REALM})`:                                        "exports no guardd_attempt_total",
		`sum(rate(guardd_attempts_total{REALM, act="allow"}[RATE]))`:              "no label act",
		`sum(rate(guardd_attempts_total{REALM, action="alow"}[RATE]))`:            "no action is alow",
		`sum(rate(guardd_attempts_total{REALM, action!="alow"}[RATE]))`:           "no action is alow",
		`sum(rate(guardd_attempts_total{REALM, action=~"allow|dely"}[RATE]))`:     "no action is dely",
		`sum by (kind) (rate(guardd_attempts_total{REALM}[RATE]))`:                "no label kind to sum by",
		`sum(rate(guardd_attempts_total{WHERE}[RATE]))`:                           "not by the chosen one",
		`sum(rate(guardd_http_requests_total{WHERE, route=~"/v2/.+"}[RATE]))`:     "no route is /v2/.+",
		`sum(guardd_decision_duration_seconds{WHERE})`:                            "exports no guardd_decision_duration_seconds",
		`sum(rate(guardd_decision_duration_seconds_bucket{WHERE, le="7"}[RATE]))`: "no le is 7",
		`sum(rate(guardd_decision_duration_seconds_count{WHERE, le="1"}[RATE]))`:  "no label le",
	} {
		d := &doc{Panels: []docPanel{{Title: "broken", Targets: []docTarget{{Expr: q(expr, "").expr}}}}}
		d.Templating.List = []docVariable{{Name: "realm"}}
		if got := e.breaches(d); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: %q, want %s", expr, got, want)
		}
	}
}

// still are metrics that stay at zero while all is well, or that what is done
// here does not reach. Queries of nothing else must have samples, and need not
// move. Every other one must have been above zero.
var still = map[string]string{
	"guardd_aggregate_ahead_total":       "both clocks are this machine's",
	"guardd_aggregate_cut_short_total":   "memory suffices",
	"guardd_aggregate_duplicates_total":  "the bus repeats only what a lost answer had it send twice",
	"guardd_aggregate_failures_total":    "Redis and Kafka are away for too short a time",
	"guardd_aggregate_lag":               "all is read at once",
	"guardd_aggregate_late_total":        "nothing is that late",
	"guardd_aggregate_missing":           "what a killed instance takes is what came within its last milliseconds",
	"guardd_aggregate_shared_addresses":  "takes 50 accounts at an address",
	"guardd_aggregate_stale_total":       "no reader outlives its turn",
	"guardd_aggregate_unkept_total":      "the store is away for too short a time",
	"guardd_breached_corpus_damaged":     "nobody overwrites it",
	"guardd_debts_lost_total":            "the store comes back",
	"guardd_detection_changes_total":     "detection acts after a week of learning",
	"guardd_detection_level":             "the same",
	"guardd_detection_suspects":          "the same",
	"guardd_events_lost_total":           "there is a spool",
	"guardd_events_spool_torn_total":     "its disk is whole",
	"guardd_kafka_dead_letters_total":    "nobody else writes to the topics",
	"guardd_kafka_event_age_seconds":     "all is read at once",
	"guardd_kafka_lag":                   "the same",
	"guardd_kafka_rebuilt_total":         "Kafka is away for too short a time",
	"guardd_limit_evidence_lost_total":   "the store comes back",
	"guardd_limit_ledger_failures_total": "the database is a file",
	"guardd_limits_db_bad_rows":          "all rows are good",
	"guardd_limits_db_errors_total":      "the database is a file",
	"guardd_provider_answers_total":      "third parties are on the internet",
	"guardd_soc_dead_letters_total":      "a file takes all",
	"guardd_soc_failures_total":          "the same",
	"guardd_soc_held_back_total":         "there are too few",
	"guardd_soc_oldest_seconds":          "all is told at once",
	"guardd_soc_waiting":                 "the same",
	"guardd_breached_corpus_complete":    "one row is not all",
	"guardd_shadow_attempts_total":       "guardd decides",
	"guardd_twin_overflowed_total":       "memory suffices",
	"guardd_twin_unkept_total":           "the same",
}

// testPanels attacks the fleet before a real Prometheus, has things happen to it,
// and asks each query of each panel until all have been answered.
func testPanels(t *testing.T, f *fleet, docs []*doc) {
	p := startPrometheus(t, f.a.admin, f.b.admin)
	startTraffic(t, f.a, f.b)
	seen := func(expr string) {
		t.Helper()
		eventually(t, func() (bool, string) {
			list, err := p.ask(q(expr, "").expr)
			return err == nil && len(list) > 0, fmt.Sprint(expr, ": ", err)
		})
	}
	seen(`sum(rate(guardd_attempts_total{WHERE, action="captcha"}[RATE])) > 0`)
	if status := send(t, http.MethodPut, "http://"+f.a.admin+"/admin/v1/posture", `{"posture":"elevated","expires_in":"1h","reason":"to be seen"}`); status != http.StatusOK {
		t.Fatalf("posture: %d", status)
	}
	if status := send(t, http.MethodPut, "http://"+f.a.admin+"/admin/v1/lists/deny", `{"cidr":"`+denied+`","reason":"to be seen"}`); status != http.StatusOK {
		t.Fatalf("lists: %d", status)
	}
	f.a.hangUp(t)
	f.leak(t, f.a.bin)
	f.redis.Pause()
	f.kafka.Pause()
	// Each of these is a gauge that is back at zero as soon as all is well.
	for _, m := range []string{"guardd_degraded", "guardd_breaker_open", "guardd_breaker_next_probe_seconds", "guardd_debts", "guardd_limit_evidence_unsent"} {
		seen(m + `{WHERE} > 0`)
	}
	if status := send(t, http.MethodPost, "http://"+f.a.service+"/v1/devices/revoke", `{"account":"alice"}`); status != http.StatusServiceUnavailable {
		t.Errorf("revoked without a store: %d", status)
	}
	f.redis.Resume()
	for _, m := range []string{"guardd_events_spooled", "guardd_events_spooled_bytes", "guardd_events_waiting", "guardd_events_oldest_seconds", "guardd_kafka_errors_total"} {
		seen(m + `{WHERE} > 0`)
	}
	f.kafka.Resume()
	f.b.kill()
	if err := f.b.start(t); err != nil {
		t.Fatal(err)
	}

	left := map[string]asked{}
	for _, d := range docs {
		for i, query := range d.queries() {
			left[fmt.Sprintf("%s %d", query.where, i)] = query
		}
	}
	total := len(left)
	eventually(t, func() (bool, string) {
		var waiting []string
		for k, query := range left {
			why := answered(t, p, &query)
			if why == "" {
				delete(left, k)
				continue
			}
			waiting = append(waiting, fmt.Sprintf("%s: %s: %s", query.where, query.Expr, why))
		}
		slices.Sort(waiting)
		return len(left) == 0, fmt.Sprintf("%d of %d:\n%s", len(left), total, strings.Join(waiting, "\n"))
	})
	t.Logf("%d queries were answered", total)

	for _, d := range docs {
		for _, v := range d.Templating.List {
			if selector, label, ok := labelValues(v.Query); ok {
				values, err := p.labelValues(selector, label)
				if err != nil || len(values) == 0 || v.Name == "instance" && len(values) != 2 {
					t.Errorf("%s: $%s offers %q: %v", d.UID, v.Name, values, err)
				}
			}
		}
	}
}

// send is the status of the answer.
func send(t *testing.T, method, url, body string) int {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// answered is "" when a query has samples, and the labels that its name is made
// of; else what is wanting.
func answered(t *testing.T, p *prometheusServer, query *asked) string {
	t.Helper()
	tree, err := parse(query.Expr)
	if err != nil {
		t.Fatal(err)
	}
	moves := false
	selectorsOf(tree, func(s *parser.VectorSelector, _ []parser.Node) { moves = moves || still[s.Name] == "" })
	list, err := p.ask(query.Expr)
	switch {
	case err != nil:
		return err.Error()
	case len(list) == 0 && !moves && strings.HasSuffix(query.Expr, "> 0"):
		return "" // an annotation of what does not happen here
	case len(list) == 0:
		return "no samples"
	}
	if query.Exemplar {
		if ok, err := p.traced(query.Expr); err != nil || !ok {
			return fmt.Sprint("no trace to go on from: ", err)
		}
	}
	most := 0.0
	for _, s := range list {
		most = max(most, slices.Max(s.values))
		// Nothing here is below zero, and no share above all: whatever is, divides by
		// something else than what it is a part of. Sums of floats are off by a little.
		if slices.Min(s.values) < -1e-9 || query.unit == units.PercentUnit && most > 1+1e-9 {
			return fmt.Sprintf("%v: from %v to %v", s.labels, slices.Min(s.values), most)
		}
		for _, l := range legendLabel.FindAllStringSubmatch(query.LegendFormat, -1) {
			if s.labels[l[1]] == "" && l[1] != "node" { // one store without nodes has none
				return "no label " + l[1]
			}
		}
	}
	if moves && most == 0 {
		return "nothing but zeros"
	}
	return ""
}
