package keystest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/oracle"
)

// PlanSubject is a store of plan limits under test.
type PlanSubject interface {
	keys.Store
	keys.Settler
	keys.Leaser
}

// PlanNamed is a PlanSubject and its name in failure messages.
type PlanNamed struct {
	Name    string
	Subject PlanSubject
}

// PlanWalk is the random walk of plan limits: takes of several rules at several
// costs, looks, repeats under one request id, leases and what is returned of them,
// settlements early, late, twice, of
// more and of less, rules that change in between, clocks that step back. Every
// subject must say what the oracle says, after every step.
func PlanWalk(t *testing.T, seeds, steps int, subjects ...PlanNamed) {
	seen := map[string]int{}
	for seed := range seeds * soak(t) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := &planWalker{t: t, d: draw{rand.New(rand.NewPCG(uint64(seed), 88))}, subjects: subjects, truth: oracle.NewPlans(), seen: seen,
				now: 1_800_000_000 * keys.Second}
			w.run(steps)
		})
	}
	for _, what := range []string{"let", "refused", "impossible", "looked", "replayed", "conflict", "charged more", "gave back", "settled twice", "settled late", "rules changed", "clock back", "leased", "leased less", "leased nothing", "gave all back"} {
		if seen[what] < 20 && seeds*steps >= 10_000 && !t.Failed() {
			t.Errorf("the walk met %q %d times: it no longer goes there", what, seen[what])
		}
	}
}

type planWalker struct {
	t        *testing.T
	d        draw
	subjects []PlanNamed
	truth    *oracle.Plans
	seen     map[string]int
	now      int64
	limits   []oracle.Limit
	rules    *keys.Rules
	names    []string
	taken    []oracle.PlanSettle
	ids      []string
}

func (w *planWalker) run(steps int) {
	for n := range steps {
		if n%400 == 0 { // another caller
			w.names, w.ids, w.taken, w.limits = nil, nil, nil, nil
			space := keys.PlanSpace(keys.Account{byte(w.d.Uint32()), byte(n)})
			prefix := unique()
			for i := range 1 + w.d.IntN(4) {
				w.names = append(w.names, space.Rule(fmt.Sprint(prefix, i)))
			}
		}
		if w.rules == nil || n%400 == 0 || w.d.one(40) {
			w.draw()
		}
		w.tick()
		switch {
		case w.d.one(3) && len(w.taken) > 0:
			w.settle()
		case w.d.one(4):
			w.lease()
		default:
			w.take()
		}
		if w.t.Failed() {
			w.t.Fatalf("step %d, limits %v", n, w.limits)
		}
	}
}

func (w *planWalker) draw() {
	w.seen["rules changed"]++
	old := w.limits
	w.limits = nil
	for i := range w.names {
		l := w.d.limit(keys.MaxExact - 1)
		if i < len(old) && w.d.one(2) {
			l = old[i]
			if k := int64(1 + w.d.IntN(4)); keys.Limit(l).Times(k).Exact() {
				l = oracle.Limit(keys.Limit(l).Times(k)) // the same time to full
			}
		}
		w.limits = append(w.limits, l)
	}
	var specs []keys.TierSpec
	for i, l := range w.limits {
		specs = append(specs, keys.TierSpec{Tier: keys.TierPlan, Limits: []keys.LimitSpec{{Name: fmt.Sprint("r", i), Limit: keys.Limit(l), Steps: untilEmpty}}})
	}
	var err error
	if w.rules, err = keys.NewRules(specs, [4]keys.Effect{}, keys.Pace{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *planWalker) tick() {
	l := w.limits[w.d.IntN(len(w.limits))]
	switch w.d.IntN(6) {
	case 0:
		w.now -= w.d.Int64N(5 * keys.Second)
		w.seen["clock back"]++
	case 1:
		w.now += w.d.Int64N(max(keys.Limit(l).TimeToFull(), 1)%(40*keys.Day) + 1)
	case 2, 3:
		w.now += w.d.Int64N(l.Period%keys.Day/l.Count + 2)
	default:
		w.now += w.d.Int64N(1000)
	}
}

func (w *planWalker) cost(l oracle.Limit) int64 {
	switch w.d.IntN(8) {
	case 0:
		return l.Capacity
	case 1:
		return min(l.Capacity+1, keys.MaxExact)
	case 2:
		return 1 + w.d.Int64N(l.Capacity)
	}
	return 1 + w.d.Int64N(min(l.Capacity, 3))
}

func (w *planWalker) take() {
	q := oracle.PlanTake{Now: w.now, Keys: w.names, Limits: w.limits}
	a := keys.Ask{Now: w.now, Rules: w.rules, Keys: w.names}
	w.d.bytes(a.AttemptID[:])
	if !w.d.one(8) {
		for _, l := range w.limits {
			c := w.cost(l)
			q.Costs = append(q.Costs, c)
			a.Cost = max(a.Cost, c)
		}
		a.Costs = q.Costs
	}
	if q.Costs != nil && w.d.one(3) {
		if len(w.ids) == 0 || w.d.one(2) {
			w.ids = append(w.ids, unique())
		}
		q.ID, q.Body, q.Life = pick(w.d, w.ids), fmt.Sprint(w.d.IntN(2)), 600*keys.Second
		a.Request = keys.Request{Key: w.names[0] + ":request:" + q.ID, Body: [16]byte{q.Body[0]}, Life: q.Life}
	}
	want := w.truth.Take(q)
	for _, s := range w.subjects {
		var ans keys.Answer
		if err := s.Subject.Take(w.t.Context(), &a, &ans); err != nil {
			w.t.Errorf("%s: take: %v", s.Name, err)
			return
		}
		got := oracle.PlanAnswer{Status: statusName(ans.Status), Let: ans.Let, Replayed: ans.Replayed}
		if got.Status != "conflict" {
			for i := range ans.Limits {
				got.Left, got.In = append(got.Left, ans.Limits[i].Left), append(got.In, oracle.Limit(ans.Limits[i].Limit))
			}
		}
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("%s: take %+v\n got  %+v\n want %+v", s.Name, q, got, want)
		}
	}
	w.seen[map[bool]string{true: "let", false: "refused"}[want.Let && want.Status == "decided"]]++
	w.seen[want.Status]++
	if want.Replayed {
		w.seen["replayed"]++
	}
	if q.Costs == nil {
		w.seen["looked"]++
	} else if want.Let && !want.Replayed && want.Status == "decided" {
		w.taken = append(w.taken, oracle.PlanSettle{Stamp: w.now, Expires: w.now + 60*keys.Second, Tokens: q.Costs, In: w.limits, Mark: unique()})
	}
}

// lease asks one of the buckets for tokens in advance. What is unspent is
// returned by a settlement, as of any take.
func (w *planWalker) lease() {
	i := w.d.IntN(len(w.names))
	l := w.limits[i]
	a := keys.LeaseAsk{Now: w.now, Key: w.names[i], Want: w.cost(l)}
	if w.d.one(2) {
		a.Need = w.d.Int64N(a.Want + 1)
	}
	var err error
	if a.Rules, err = keys.NewRules(w.rules.Tiers()[i:i+1], [4]keys.Effect{}, keys.Pace{}); err != nil {
		w.t.Fatal(err)
	}
	tokens, left := w.truth.Lease(oracle.PlanLease{Now: w.now, Key: a.Key, Limit: l, Need: a.Need, Want: a.Want})
	want := keys.Leased{Now: w.now, Tokens: tokens, Limit: keys.Limit(l), Left: left}
	for _, s := range w.subjects {
		var got keys.Leased
		if err := s.Subject.Lease(w.t.Context(), &a, &got); err != nil {
			w.t.Errorf("%s: lease: %v", s.Name, err)
			return
		}
		if got != want {
			w.t.Errorf("%s: lease %+v\n got  %+v\n want %+v", s.Name, a, got, want)
		}
	}
	switch {
	case tokens == 0:
		w.seen["leased nothing"]++
		return
	case tokens < a.Want:
		w.seen["leased less"]++
	}
	w.seen["leased"]++
	held := oracle.PlanSettle{Stamp: w.now, Expires: w.now + 60*keys.Second, Tokens: make([]int64, len(w.names)), In: w.limits, Mark: unique()}
	held.Tokens[i] = tokens
	w.taken = append(w.taken, held)
}

func statusName(s keys.Status) string {
	return map[keys.Status]string{keys.Decided: "decided", keys.Conflict: "conflict", keys.Impossible: "impossible", keys.Late: "late"}[s]
}

func (w *planWalker) settle() {
	q := w.taken[max(len(w.taken)-1-w.d.IntN(3), 0)]
	q.Now, q.Keys, q.Limits = w.now, w.names, w.limits
	q.Whole = w.d.one(2)
	s := keys.Settlement{Whole: q.Whole, Now: q.Now, Rules: w.rules, Keys: w.names, Stamp: q.Stamp, Expires: q.Expires, MarkKey: w.names[0] + ":settled:" + q.Mark}
	for i := range w.names {
		cost := q.Tokens[i]
		switch w.d.IntN(4) {
		case 0:
			cost = 0
		case 1:
			cost = w.cost(w.limits[i])
		case 2:
			cost = w.d.Int64N(cost + 1)
		}
		q.Costs = append(q.Costs, cost)
		s.Took = append(s.Took, keys.TookMany{Tokens: q.Tokens[i], In: keys.Limit(q.In[i])})
		if cost > q.Tokens[i] {
			w.seen["charged more"]++
		}
	}
	s.Costs = q.Costs
	before := w.truth.Left(q.Now, q.Keys, q.Limits)
	want := w.truth.Settle(q)
	for i := range before {
		if want.Left[i] > before[i] {
			w.seen[map[bool]string{true: "gave all back", false: "gave back"}[q.Whole]]++
		}
	}
	for _, x := range w.subjects {
		var out keys.Settled
		if err := x.Subject.Settle(w.t.Context(), &s, &out); err != nil {
			w.t.Errorf("%s: settle: %v", x.Name, err)
			return
		}
		got := oracle.PlanSettled{Expired: out.Expired, Duplicate: out.Duplicate}
		for i := range out.Limits {
			got.Left = append(got.Left, out.Limits[i].Left)
		}
		if !reflect.DeepEqual(got, want) {
			w.t.Errorf("%s: settle %+v\n got  %+v\n want %+v", x.Name, q, got, want)
		}
	}
	if want.Duplicate {
		w.seen["settled twice"]++
	}
	if want.Expired {
		w.seen["settled late"]++
	}
}
