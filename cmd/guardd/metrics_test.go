package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/kafkabus"
	"github.com/guardd/guardd/aggregate/soc"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/trace"
	"github.com/guardd/guardd/keys/trace/otlp"
)

func testMetrics(t *testing.T) *metrics {
	t.Helper()
	m := newMetrics(escalation.DefaultPolicy(), false)
	m.watchTwin(keys.NewMemory(keys.MemoryConfig{Buckets: 64, Marks: 64}))
	m.watchFleet(nil, nil)
	m.watchDesk(func() time.Duration { return 0 })
	m.watchEvidence(nil)
	m.watchLeases(func() plans.LeaseStats { return plans.LeaseStats{} })
	m.watchEvents(func() aggregate.Stats { return aggregate.Stats{} })
	m.watchAggregator(func() aggregate.AggregatorStats {
		return aggregate.AggregatorStats{}
	}, func() []string { return []string{"default"} })
	m.watchDetection(nil, func() []string { return []string{"default"} }, func(context.Context, string) (escalation.PostureNow, error) {
		return escalation.PostureNow{Posture: "normal"}, nil
	}, func(string, string) uint64 { return 0 })
	m.watchProviders(func() time.Time { return time.Time{} })
	m.watchSOC(func() map[string]soc.OutletStats { return map[string]soc.OutletStats{"siem": {}} })
	m.watchTracing(func() otlp.Stats { return otlp.Stats{} })
	m.watchLimits(nil)
	m.watchKafka(func() kafkabus.Stats {
		return kafkabus.Stats{Partitions: []kafkabus.PartitionStats{{Topic: aggregate.TopicEvents}}}
	})
	return m
}

func TestMetricsFollowThePrometheusConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(testMetrics(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// whatVisitorsSend is one of everything that a label could be made of.
func whatVisitorsSend(i int) (realm, flow, account, ip, agent, path string) {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	word := func(p string) string { return fmt.Sprintf("%s-%x", p, r.Uint64()) }
	return word("sentrealm"), word("sentflow"), word("sentaccount"), fmt.Sprintf("198.51.%d.%d", 100, i%250+1), word("sentagent"), word("sentpath")
}

// TestSeriesStayBoundedWhateverVisitorsSend throws names at a running binary.
// A series that a visitor can make is a way to fill the memory of guardd and
// of everything that scrapes it, and a place where names leak.
func TestSeriesStayBoundedWhateverVisitorsSend(t *testing.T) {
	p := startGuardd(t)
	post := func(path string, body any) {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		p.post(t, path, string(text), nil)
	}
	series := func() (n int, text string) {
		_, text = get(t, p.admin+"/metrics")
		return len(regexp.MustCompile(`(?m)^guardd_`).FindAllString(text, -1)), text
	}
	before, _ := series()
	for i := range 200 {
		realm, flow, account, ip, agent, path := whatVisitorsSend(i)
		post("/v1/attempts", map[string]any{"account": account, "ip": ip, "user_agent": agent, "channel": agent, "request_id": path, "device": agent, "proof": agent})
		post("/v1/attempts", map[string]any{"account": "sentaccount", "ip": ip})
		post("/v1/attempts", map[string]any{"account": account, "ip": ip, "realm": realm})
		post("/v1/attempts", map[string]any{"account": account, "ip": ip, "flow": flow})
		post("/v1/attempts", map[string]any{"account": account, "ip": path, agent: realm})
		post("/v1/outcomes", map[string]any{"attempt": agent, "account": account, "outcome": flow})
		post("/v1/devices/revoke", map[string]any{"account": account, "realm": realm})
		post("/v1/"+path, map[string]any{})
		req, _ := http.NewRequest("SENT"+fmt.Sprint(i), p.service+"/"+path+"?x="+agent, nil)
		if resp, err := http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		} else {
			resp.Body.Close()
		}
	}
	after, text := series()
	if before < 100 || after != before {
		t.Errorf("%d series before, %d after: a visitor can make some", before, after)
	}
	if leak := regexp.MustCompile(`(?i).*(sent[a-z]+-|sentaccount|198\.51\.).*`).FindString(text); leak != "" {
		t.Errorf("a visitor's word is in the metrics: %s", leak)
	}
	if leak := regexp.MustCompile(`(?i).*(sent[a-z]+-|sentaccount|198\.51\.).*`).FindString(p.logged()); leak != "" {
		t.Errorf("a visitor's word is in the log: %s", leak)
	}
	if !strings.Contains(text, `guardd_attempts_total{action="allow",flow="login",realm="default"}`) {
		t.Error("the attempts were not counted at all")
	}
}

// The HTTP layer hands only resolved names down; this holds the second fence.
func TestUnknownWordsAreCountedAsOther(t *testing.T) {
	m := testMetrics(t)
	before, err := testutil.GatherAndCount(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		realm, flow, account, _, agent, path := whatVisitorsSend(i)
		m.Attempt(&escalation.Verdict{Realm: realm, Flow: flow, Action: escalation.Action(account), Would: escalation.Action(account), Shadow: true,
			Reasons: []string{agent}, ProofError: escalation.ProofError(agent), Tiers: []escalation.TierLevel{{Tier: agent, Limit: path, Capacity: 1, Rung: 9}}}, time.Second)
		m.Outcome(&escalation.Recorded{Realm: realm, Flow: flow, Outcome: keys.Outcome(200)}, time.Second)
		m.Answered("/"+path, 99+i, time.Second, trace.ID{})
		m.storeFailed(agent, errors.New(path))
	}
	after, err := testutil.GatherAndCount(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	// One series of "other" for each family that has labels of this kind.
	if after > before+20 {
		t.Errorf("%d series became %d", before, after)
	}
	families, _ := m.registry.Gather()
	if text := fmt.Sprint(families); strings.Contains(text, "sent") && regexp.MustCompile(`sent[a-z]+-`).MatchString(text) {
		t.Error("a word got through")
	}
}

func TestEachCallThatTheStoreFailsIsCountedUnderItsName(t *testing.T) {
	m := testMetrics(t)
	for _, op := range append([]string{"load", "beat"}, keys.Operations...) {
		m.storeFailed(op, io.EOF)
		if n := testutil.ToFloat64(m.storeErrors.WithLabelValues(op, "broken")); n != 1 {
			t.Errorf("%q is counted as another: %v", op, n)
		}
	}
}

func TestAttemptsAndOutcomesAreCounted(t *testing.T) {
	m := testMetrics(t)
	m.Attempt(&escalation.Verdict{Realm: "default", Flow: "otp", Action: "captcha", Would: "captcha", Trace: escalation.Trace{Familiar: true}, Reasons: []string{"pair.burst", "flood"}, ProofError: "spent",
		Tiers: []escalation.TierLevel{{Tier: "pair", Limit: "burst", Left: 5, Capacity: 10, Rung: keys.Captcha}}}, 3*time.Millisecond)
	m.Attempt(&escalation.Verdict{Realm: "default", Flow: "login", Action: "allow", Would: "verify", Shadow: true, Degraded: true}, time.Millisecond)
	m.Outcome(&escalation.Recorded{Realm: "default", Flow: "login", Outcome: keys.Success, Recorded: true}, time.Millisecond)
	m.Outcome(&escalation.Recorded{Realm: "default", Flow: "login", Outcome: keys.Success, Recorded: true, Duplicate: true}, time.Millisecond)
	m.Outcome(&escalation.Recorded{Realm: "default", Flow: "login", Outcome: keys.Success, Recorded: true, Held: true, Trace: escalation.Trace{Breached: true}}, time.Millisecond)
	m.Outcome(&escalation.Recorded{Realm: "default", Flow: "login", Outcome: keys.Failure, Recorded: true, Trace: escalation.Trace{Breached: true}}, time.Millisecond)
	m.Answered("/v1/attempts", 429, time.Millisecond, trace.ID{})
	for name, got := range map[string]float64{
		"captcha":   testutil.ToFloat64(m.attempts.WithLabelValues("default", "otp", "captcha")),
		"no would":  1 - testutil.ToFloat64(m.would.WithLabelValues("default", "otp", "captcha")),
		"shadow":    testutil.ToFloat64(m.would.WithLabelValues("default", "login", "verify")),
		"reason":    testutil.ToFloat64(m.reasons.WithLabelValues("default", "otp", "pair.burst")),
		"flood":     testutil.ToFloat64(m.reasons.WithLabelValues("default", "otp", "flood")),
		"place":     testutil.ToFloat64(m.trust.WithLabelValues("default", "otp", "place")),
		"proof":     testutil.ToFloat64(m.proofErrors.WithLabelValues("default", "otp", "spent")),
		"recorded":  testutil.ToFloat64(m.outcomes.WithLabelValues("default", "login", "success", "recorded")),
		"duplicate": testutil.ToFloat64(m.outcomes.WithLabelValues("default", "login", "success", "duplicate")),
		"held":      testutil.ToFloat64(m.outcomes.WithLabelValues("default", "login", "success", "held")),
		"leaked":    testutil.ToFloat64(m.breached.WithLabelValues("default", "login", "failure")),
		"held once": 1 - testutil.ToFloat64(m.breached.WithLabelValues("default", "login", "success")),
		"4xx":       testutil.ToFloat64(m.requests.WithLabelValues("/v1/attempts", "4xx")),
	} {
		if got != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// gone is a store that remembers nothing.
type gone struct{ *keys.Memory }

var errGone = errors.New("gone")

func (gone) Put(context.Context, string, []byte, int64) error                  { return errGone }
func (gone) Revoke(context.Context, string, int64, int64) (int64, error)       { return 0, errGone }
func (gone) Tally(context.Context, string, int64, int64) (int64, int64, error) { return 0, 0, errGone }
func (gone) SendCode(context.Context, *keys.CodeAsk, *keys.CodeAnswer) error   { return errGone }
func (gone) LiveCode(context.Context, string, int64) (keys.Code, error)        { return keys.Code{}, errGone }
func (gone) SpendCode(context.Context, string, int64, int64) (bool, error)     { return false, errGone }
func (gone) ConfirmCode(context.Context, string, int64, int64) error           { return errGone }
func (gone) UnsendCode(context.Context, string, int64, int64) error            { return errGone }

// An operator who sees "other" fail knows no more than before.
func TestEachOperationOfTheStoreFailsUnderItsOwnName(t *testing.T) {
	m, told := testMetrics(t), map[string]bool{}
	twin := keys.NewMemory(keys.MemoryConfig{})
	f := keys.NewFallback(keys.FallbackConfig{Primary: gone{twin}, Local: twin, OnError: func(op string, err error) {
		told[op] = true
		m.storeFailed(op, err)
	}})
	ctx, space := t.Context(), keys.NewSpace("default", 0)
	var a keys.Account
	f.Put(ctx, "k", []byte("v"), keys.Second)
	f.Revoke(ctx, space.Revoked(a), 0, keys.Second)
	f.Tally(ctx, space.Tally("answer", "x"), 0, keys.Second)
	f.SendCode(ctx, &keys.CodeAsk{Key: space.Code(a), SenderKey: "s", Account: a}, &keys.CodeAnswer{})
	f.LiveCode(ctx, space.Code(a), 0)
	f.SpendCode(ctx, space.Code(a), 1, 0)
	f.ConfirmCode(ctx, space.Code(a), 1, 0)
	f.UnsendCode(ctx, space.Code(a), 1, 0)
	if len(told) != 8 {
		t.Errorf("told of %v", told)
	}
	for op := range told {
		if n := testutil.ToFloat64(m.storeErrors.WithLabelValues(op, "other")); n == 0 {
			t.Errorf("a failure of %s is not counted as one", op)
		}
	}
	if n := testutil.ToFloat64(m.storeErrors.WithLabelValues(other, "other")); n != 0 {
		t.Errorf("%v failures of an operation that has no name", n)
	}
	m.Attempt(&escalation.Verdict{Realm: "default", Flow: "login", ProofError: escalation.ProofUnsure}, time.Millisecond)
	if n := testutil.ToFloat64(m.proofErrors.WithLabelValues("default", "login", "unsure")); n != 1 {
		t.Errorf("a provider that could not tell is counted %v times", n)
	}
}

// metricRow is a line of the README's table: | `name` | type | labels | what |
var metricRow = regexp.MustCompile("(?m)^\\| `(guardd_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\| ([^|]*) \\|$")

func TestReadmeListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = row[2] + ": " + strings.Trim(strings.ReplaceAll(row[3], "`", ""), " ") + ": " + row[4]
	}
	families, err := testMetrics(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "guardd_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		want := strings.ToLower(f.GetType().String()) + ": " + strings.Join(labels, ", ") + ": " + f.GetHelp()
		if got := documented[f.GetName()]; got != want {
			t.Errorf("README has for %s\n  %q, the binary exports\n  %q", f.GetName(), got, want)
		}
		delete(documented, f.GetName())
	}
	for name := range documented {
		t.Errorf("README lists %s, which is not exported", name)
	}
}

func TestNativeHistogramsAreOfferedOnlyWhenAskedFor(t *testing.T) {
	for _, native := range []bool{false, true} {
		m := newMetrics(escalation.DefaultPolicy(), native)
		m.Outcome(&escalation.Recorded{Realm: "default", Flow: "login", Outcome: keys.Success, Recorded: true}, 3*time.Millisecond)
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "guardd_outcome_duration_seconds" {
				continue
			}
			h := f.GetMetric()[0].GetHistogram()
			if offered := h.Schema != nil; offered != native || len(h.GetBucket()) != 9 {
				t.Errorf("asked for: %v, offered: %v, beside %d classic buckets", native, offered, len(h.GetBucket()))
			}
			if h.GetBucket()[2].GetCumulativeCount() != 0 || h.GetBucket()[3].GetCumulativeCount() != 1 {
				t.Errorf("3 ms are not between the bounds 2 ms and 5 ms: %v", h.GetBucket())
			}
		}
	}
}
