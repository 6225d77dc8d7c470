package plans_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/oracle"
	"github.com/guardd/guardd/keys/plans"
)

// Whatever three instances do with one key, by leases and beside them, dying,
// pausing, losing calls of either form: in every interval no more is let through
// than capacity and refill, and what they may hold. A bucket in rationals of that
// size says so, which whatever was let through must have room in.
func TestLeasesLetNothingThroughBeyondTheBound(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) { newLeaseModel(t, rt, seen).run() })
	for _, what := range []string{"leased", "refused by what is held", "let through", "returned", "died", "store gone", "settled", "refunded", "sharded"} {
		if seen[what] == 0 && !t.Failed() {
			t.Errorf("the model met %q %d times: it no longer goes there", what, seen[what])
		}
	}
}

type leaseModel struct {
	t       *testing.T
	rt      *rapid.T
	f       *fleet
	seen    map[string]int
	truth   *oracle.Plans
	limits  []oracle.Limit // of the oracle
	rules   []string
	reserve []made
	n       int
}

const (
	modelInstances = 3
	modelCost      = 12
)

// made is a decision and who made it.
type made struct {
	*plans.Decision
	by *plans.Taker
}

func newLeaseModel(t *testing.T, rt *rapid.T, seen map[string]int) *leaseModel {
	m := &leaseModel{t: t, rt: rt, seen: seen, truth: oracle.NewPlans()}
	d := &plans.Definition{}
	for i := range rapid.IntRange(1, 2).Draw(rt, "rules") {
		shards := rapid.SampledFrom([]int64{1, 1, 2, 4}).Draw(rt, "shards")
		capacity := shards * rapid.SampledFrom([]int64{10, 25, 100, 1000}).Draw(rt, "capacity")
		per := rapid.SampledFrom([]string{"1/24h", "7/1s", "100/1s", "3/7s"}).Draw(rt, "refill")
		most := rapid.Int64Range(1, capacity).Draw(rt, "most")
		r := plans.Rule{Name: fmt.Sprint("r", i), Capacity: capacity, Refill: per,
			Settings: plans.Settings{Lease: &plans.Lease{Above: 20, Most: most, For: rapid.SampledFrom([]string{"500ms", "1s"}).Draw(rt, "for")}}}
		if shards > 1 {
			r.Shards = &shards
			seen["sharded"]++
		}
		d.Rules = append(d.Rules, r)
		m.rules = append(m.rules, r.Name)
		count, period, err := keys.ParseRefill(per)
		if err != nil {
			t.Fatal(err)
		}
		l, err := keys.NewLimit(capacity, count, period)
		if err != nil {
			t.Fatal(err)
		}
		// What may be held: Most at each instance, or what one request needs.
		l.Capacity += modelInstances * max(most, modelCost)
		m.limits = append(m.limits, oracle.Limit(l))
	}
	m.f = newFleet(t, modelInstances, d)
	return m
}

func (m *leaseModel) run() {
	for range rapid.IntRange(20, 60).Draw(m.rt, "steps") {
		switch rapid.SampledFrom([]string{"burst", "burst", "burst", "one", "one", "pass", "pass", "die", "settle", "refund", "lose"}).Draw(m.rt, "step") {
		case "burst":
			i, cost := rapid.IntRange(0, modelInstances-1).Draw(m.rt, "at"), rapid.Int64Range(1, 3).Draw(m.rt, "cost")
			gap := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 7 * time.Millisecond}).Draw(m.rt, "gap")
			for range rapid.IntRange(5, 60).Draw(m.rt, "n") {
				m.take(i, cost, false, "")
				m.f.pass(gap)
			}
		case "one":
			id := ""
			if rapid.Bool().Draw(m.rt, "repeatable") {
				id = fmt.Sprint(rapid.IntRange(0, 3).Draw(m.rt, "id"))
			}
			m.take(rapid.IntRange(0, modelInstances-1).Draw(m.rt, "at"), rapid.Int64Range(0, modelCost).Draw(m.rt, "cost"), id == "" && rapid.Bool().Draw(m.rt, "reserve"), id)
		case "pass":
			m.f.pass(rapid.SampledFrom([]time.Duration{time.Millisecond, 90 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second, 20 * time.Second}).Draw(m.rt, "time"))
		case "die":
			i := rapid.IntRange(0, modelInstances-1).Draw(m.rt, "who")
			m.count(i)
			m.f.takers[i] = m.f.start()
			m.f.pass(time.Second) // its leases end
			m.seen["died"]++
		case "settle":
			m.settle()
		case "refund":
			m.refund()
		case "lose":
			m.f.shared.fault = rapid.SampledFrom([]keystest.Fault{keystest.NotDone, keystest.ReplyLost}).Draw(m.rt, "fault")
			m.seen["store gone"]++
			i := rapid.IntRange(0, modelInstances-1).Draw(m.rt, "at")
			for range 10 {
				m.leaseOnly(i)
			}
			m.f.shared.fault = keystest.Healthy
		}
	}
	for i := range m.f.takers {
		m.count(i)
	}
}

// leaseOnly asks for something whose calls fail; what an instance grants alone, at
// its share, is another bound, so such an answer is not looked at.
func (m *leaseModel) leaseOnly(i int) {
	r := plans.Request{Rules: m.rules, Cost: 1}
	d := m.f.take(i, r)
	if d.Allowed && !d.Degraded {
		m.let(i, 1, d)
	}
}

func (m *leaseModel) count(i int) {
	s := m.f.takers[i].Leases()
	m.seen["leased"] += int(s.Calls)
	m.seen["refused by what is held"] += int(s.Refused)
	m.seen["returned"] += int(s.Returned)
	if s.Spent+s.Returned+s.Lost > s.Leased {
		m.rt.Fatalf("more was spent, returned and lost than leased: %+v", s)
	}
}

func (m *leaseModel) take(i int, cost int64, reserve bool, id string) {
	r := plans.Request{Rules: m.rules, Cost: cost, Reserve: reserve && cost > 0, RequestID: id}
	r.Key = "k"
	d, err := m.f.takers[i].Take(m.t.Context(), &r)
	if err == plans.ErrConflict {
		return
	}
	if err != nil {
		m.rt.Fatal(err)
	}
	for _, l := range d.Limits {
		if l.Left < 0 || l.Left > l.Limit.Units() {
			m.rt.Fatalf("left is %d of %d", l.Left, l.Limit.Units())
		}
	}
	switch {
	case d.Degraded:
		m.rt.Fatalf("degraded: %+v", d)
	case !d.Allowed && !d.Impossible && (d.RetryAfter <= 0 || d.Limits[d.Binding].Remaining() >= max(cost, 1)):
		m.rt.Fatalf("a refusal that says nothing: %+v", d)
	case d.Allowed && !d.Replayed && cost > 0:
		m.let(i, cost, d)
	}
}

// let tells the oracle, which must have room for it.
func (m *leaseModel) let(i int, cost int64, d *plans.Decision) {
	costs := make([]int64, len(m.rules))
	for j := range costs {
		costs[j] = cost
	}
	want := m.truth.Take(oracle.PlanTake{Now: m.f.now, Keys: m.rules, Limits: m.limits, Costs: costs})
	if !want.Let {
		m.rt.Fatalf("%d let through at instance %d beyond the bound: %+v", cost, i, d)
	}
	if m.n++; m.n%3 == 0 || d.Reservation != "" {
		m.reserve = append(m.reserve, made{d, m.f.takers[i]})
	}
	m.seen["let through"]++
}

// gave tells the oracle what a rule gave back, at most all of it.
func (m *leaseModel) gave(costs, is []int64) {
	m.truth.Settle(oracle.PlanSettle{Now: m.f.now, Stamp: 0, Expires: keys.MaxExact, Keys: m.rules, Limits: m.limits, Tokens: costs, Costs: is, In: m.limits, Whole: true, Mark: fmt.Sprint(m.n, m.f.now, len(m.reserve))})
	m.n++
}

func (m *leaseModel) settle() {
	for len(m.reserve) > 0 {
		d := m.reserve[0]
		m.reserve = m.reserve[1:]
		if d.Reservation == "" {
			continue
		}
		cost, is := d.Limits[0].Cost, rapid.Int64Range(0, 2*d.Limits[0].Cost).Draw(m.rt, "real")
		s, err := m.f.takers[rapid.IntRange(0, modelInstances-1).Draw(m.rt, "at")].Settle(m.t.Context(), d.Reservation, is)
		if err != nil {
			m.rt.Fatal(err)
		}
		if s.Settled && is < cost {
			m.back(cost, is)
		}
		m.seen["settled"]++
		return
	}
}

func (m *leaseModel) refund() {
	if len(m.reserve) == 0 {
		return
	}
	d := m.reserve[len(m.reserve)-1]
	m.reserve = m.reserve[:len(m.reserve)-1]
	if d.Reservation != "" || !slices.Contains(m.f.takers, d.by) {
		return
	}
	if err := d.by.Refund(m.t.Context(), d.Decision, 500); err != nil {
		m.rt.Fatal(err)
	}
	m.back(d.Limits[0].Cost, 0)
	m.seen["refunded"]++
}

func (m *leaseModel) back(cost, is int64) {
	costs, real := make([]int64, len(m.rules)), make([]int64, len(m.rules))
	for j := range costs {
		costs[j], real[j] = cost, is
	}
	m.gave(costs, real)
}
