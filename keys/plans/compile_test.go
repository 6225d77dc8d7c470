package plans_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys/plans"
)

func digest(key string) plans.Digest { return sha256.Sum256([]byte(key)) }

func ptr(n int64) *int64 { return &n }

func text(s string) *string { return &s }

// slots is a right rule of kind concurrency, as f changes it.
func slots(f func(*plans.Rule)) *plans.Definition {
	r := plans.Rule{Name: "inflight", Kind: plans.Concurrency, Capacity: 3}
	f(&r)
	return &plans.Definition{Rules: []plans.Rule{r}}
}

// Each bad number is refused where it is written, naming its field.
func TestEachFaultNamesItsField(t *testing.T) {
	ok := plans.Rule{Name: "r", Capacity: 10, Refill: "10/1h"}
	rule := func(f func(*plans.Rule)) *plans.Definition {
		r := ok
		f(&r)
		return &plans.Definition{Rules: []plans.Rule{r}}
	}
	key := func(f func(*plans.Key)) *plans.Definition {
		k := plans.Key{SHA256: digest("k"), Plan: "p"}
		f(&k)
		return &plans.Definition{Rules: []plans.Rule{ok}, Plans: []plans.Plan{{Name: "p", Rules: []string{"r"}}}, Keys: []plans.Key{k}}
	}
	var many []string
	for i := range plans.MaxRules + 1 {
		many = append(many, fmt.Sprint("r", i))
	}
	for _, c := range []struct {
		field string
		d     *plans.Definition
	}{
		{"rules[0].name", rule(func(r *plans.Rule) { r.Name = "" })},
		{"rules[0].name", rule(func(r *plans.Rule) { r.Name = `quo"te` })},
		{"rules[0].name", rule(func(r *plans.Rule) { r.Name = strings.Repeat("x", 65) })},
		{"rules[1].name", &plans.Definition{Rules: []plans.Rule{ok, ok}}},
		{"rules[0].capacity", rule(func(r *plans.Rule) { r.Capacity = 0 })},
		{"rules[0].capacity", rule(func(r *plans.Rule) { r.Capacity = -1 })},
		{"rules[0].capacity", rule(func(r *plans.Rule) { r.Capacity, r.Refill = 1000, "1/8760h" })}, // Boulder overflows
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "" })},
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "10" })},
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "0/1h" })},
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "-1/1h" })},
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "1/0s" })},
		{"rules[0].refill", rule(func(r *plans.Rule) { r.Refill = "1/1ns" })},
		{"rules[0].routes[GET /]", rule(func(r *plans.Rule) { r.Routes = map[string]int64{"GET /": -1, "*": 1} })},
		{"rules[0].routes[GET /]", rule(func(r *plans.Rule) { r.Routes = map[string]int64{"GET /": 11} })},
		{"rules[0].routes", rule(func(r *plans.Rule) { r.Routes = map[string]int64{"GET /": 0} })},
		{"rules[0].counts", rule(func(r *plans.Rule) { r.Counts = "bytes" })},
		{"rules[0].kind", rule(func(r *plans.Rule) { r.Kind = "speed" })},
		{"rules[0].ttl", rule(func(r *plans.Rule) { r.TTL = text("1m") })},
		{"rules[0].refill", slots(func(r *plans.Rule) { r.Refill = "1/1h" })},
		{"rules[0].counts", slots(func(r *plans.Rule) { r.Counts = plans.CountsRequests })},
		{"rules[0].refund", slots(func(r *plans.Rule) { r.Refund = plans.RefundAll })},
		{"rules[0].capacity", slots(func(r *plans.Rule) { r.Capacity = 0 })},
		{"rules[0].capacity", slots(func(r *plans.Rule) { r.Capacity = plans.MaxSlots + 1 })},
		{"rules[0].routes[GET /]", slots(func(r *plans.Rule) { r.Routes = map[string]int64{"GET /": 2} })},
		{"rules[0].routes", slots(func(r *plans.Rule) { r.Routes = map[string]int64{"GET /": 0} })},
		{"rules[0].ttl", slots(func(r *plans.Rule) { r.TTL = text("1ms") })},
		{"rules[0].ttl", slots(func(r *plans.Rule) { r.TTL = text("2h") })},
		{"rules[0].ttl", slots(func(r *plans.Rule) { r.TTL = text("60") })},
		{"rules[0].failure", rule(func(r *plans.Rule) { r.Failure = "maybe" })},
		{"rules[0].refund", rule(func(r *plans.Rule) { r.Refund = "yes" })},
		{"plans[0].rules[0]", &plans.Definition{Plans: []plans.Plan{{Name: "p", Rules: []string{"none"}}}}},
		{"plans[0].rules[1]", &plans.Definition{Rules: []plans.Rule{ok}, Plans: []plans.Plan{{Name: "p", Rules: []string{"r", "r"}}}}},
		{"plans[0].rules", &plans.Definition{Plans: []plans.Plan{{Name: "p"}}}},
		{"plans[0].rules", &plans.Definition{Plans: []plans.Plan{{Name: "p", Rules: many}}}},
		{"plans[0].name", &plans.Definition{Rules: []plans.Rule{ok}, Plans: []plans.Plan{{Rules: []string{"r"}}}}},
		{"keys[0].plan", key(func(k *plans.Key) { k.Plan = "none" })},
		{"keys[0].state", key(func(k *plans.Key) { k.State = "gone" })},
		{"keys[0].sha256", key(func(k *plans.Key) { k.SHA256 = plans.Digest{} })},
		{"keys[0].sha256", key(func(k *plans.Key) { k.SHA256 = digest("") })},
		{"keys[0].overrides[0].rule", key(func(k *plans.Key) { k.Overrides = []plans.Override{{Rule: "none"}} })},
		{"keys[0].overrides[1].rule", key(func(k *plans.Key) { k.Overrides = []plans.Override{{Rule: "r"}, {Rule: "r"}} })},
		{"keys[0].overrides[0].capacity", key(func(k *plans.Key) { k.Overrides = []plans.Override{{Rule: "r", Capacity: ptr(0)}} })},
		{"keys[0].overrides[0].refill", key(func(k *plans.Key) { k.Overrides = []plans.Override{{Rule: "r", Refill: "1"}} })},
	} {
		if _, faults := plans.Compile(c.d, "1", nil); len(faults) == 0 || !isFault(faults, c.field) {
			t.Errorf("%s: %v", c.field, faults)
		}
	}
}

// One bad row is skipped and told; what was in force under its name stays, and
// what is deleted goes.
func TestABadRowTakesNobodysLimitsAway(t *testing.T) {
	w := newWorld(t, three)
	next := plans.Definition{Rules: append([]plans.Rule{}, three.Rules...), Plans: three.Plans, Keys: three.Keys[:3]}
	next.Rules[0].Capacity = -5
	next.Rules[1].Capacity = 7
	b, faults := plans.Compile(&next, "2", w.Book())
	if len(faults) != 1 || faults[0].Field != "rules[0].capacity" {
		t.Fatalf("faults: %v", faults)
	}
	w.Swap(b)
	d := w.take(plans.Request{Key: "free-key", Cost: 1})
	if got := left(d); len(got) != 3 || got[0] != 9 || got[1] != 6 {
		t.Errorf("left %v: second must be as it was, hour of 7", got)
	}
	if _, err := w.Take(t.Context(), &plans.Request{Key: "big-key", Cost: 1}); !isFault(err, "key") {
		t.Errorf("a deleted key: %v", err)
	}
}

// Nothing can be taken of a rule of kind concurrency; a plan that has one counts
// the others.
func TestNothingIsTakenOfSlots(t *testing.T) {
	w := newWorld(t, &plans.Definition{
		Rules: []plans.Rule{{Name: "inflight", Kind: plans.Concurrency, Capacity: 3}, {Name: "hour", Capacity: 5, Refill: "5/1h"}},
		Plans: []plans.Plan{{Name: "p", Rules: []string{"inflight", "hour"}}},
		Keys:  []plans.Key{{SHA256: digest("k"), Plan: "p", Overrides: []plans.Override{{Rule: "inflight", Capacity: ptr(7)}}}},
	})
	if d := w.take(plans.Request{Key: "k", Cost: 1}); len(d.Limits) != 1 || d.Limits[0].Rule != "hour" || d.Limits[0].Remaining() != 4 {
		t.Errorf("%+v", d.Limits)
	}
	for _, key := range []string{"k", "another"} {
		if _, err := w.Take(t.Context(), &plans.Request{Key: key, Rules: []string{"hour", "inflight"}, Cost: 1}); !isFault(err, "rules[1]") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if d := w.take(plans.Request{Key: "k", Cost: 0}); d.Limits[0].Remaining() != 4 {
		t.Errorf("a refused request took: %+v", d.Limits)
	}
}
