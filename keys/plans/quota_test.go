package plans_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// office is some instances that share a ledger, on one clock.
type office struct {
	now   int64
	store *keys.Memory
	all   []*plans.Taker
	book  *plans.Book
	n     byte
	// fail, when set, has calls of the ledger fail: before they are made, or after.
	fail    func() (before, after bool)
	reached []plans.QuotaReached
}

var errLedger = errors.New("no ledger")

// Change is plans.Ledger's.
func (o *office) Change(ctx context.Context, id plans.UsageID, until int64, change func(plans.Usage) (plans.Usage, bool)) error {
	before, after := false, false
	if o.fail != nil {
		before, after = o.fail()
	}
	if before {
		return errLedger
	}
	if err := plans.StoreLedger(o.store).Change(ctx, id, until, change); err != nil || !after {
		return err
	}
	return errLedger
}

func newOffice(d *plans.Definition, instances int) *office {
	o := &office{now: time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC).UnixMicro()}
	o.store = keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return o.now }})
	o.define(d)
	for range instances {
		o.all = append(o.all, o.start())
	}
	return o
}

func (o *office) define(d *plans.Definition) {
	b, faults := plans.Compile(d, "1", nil)
	if len(faults) > 0 {
		panic(faults)
	}
	o.book = b
	for _, t := range o.all {
		t.Swap(b)
	}
}

func (o *office) start() *plans.Taker {
	o.n++
	t := plans.NewTaker(plans.Config{Store: o.store, Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash, Instance: [8]byte{o.n}, Ledger: o,
		Instances: func() int64 { return max(int64(len(o.all)), 1) },
		Reached:   func(q plans.QuotaReached) { o.reached = append(o.reached, q) }, Now: func() int64 { return o.now }})
	t.Swap(o.book)
	return t
}

// usage is what the ledger has of the rule "quota" of key k in the period now.
func (o *office) usage(start time.Time) (u plans.Usage) {
	id := plans.UsageID{Key: hash(plans.Digest(sha256.Sum256([]byte("k")))), Rule: "quota", Start: start.UnixMicro()}
	err := plans.StoreLedger(o.store).Change(context.Background(), id, o.now+keys.Day, func(is plans.Usage) (plans.Usage, bool) {
		u = is
		return is, false
	})
	if err != nil {
		panic(err)
	}
	return u
}

func quota(capacity int64, change ...func(*plans.Rule)) *plans.Definition {
	r := plans.Rule{Name: "quota", Kind: plans.Quota, Capacity: capacity}
	for _, f := range change {
		f(&r)
	}
	return &plans.Definition{Rules: []plans.Rule{r, {Name: "rate", Capacity: 5, Refill: "1/1h"}}}
}

func ask(t testing.TB, x *plans.Taker, r plans.Request) *plans.Decision {
	t.Helper()
	r.Key = "k"
	if r.Rules == nil {
		r.Rules = []string{"quota"}
	}
	d, err := x.Take(context.Background(), &r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return d
}

var november = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// TestAQuotaIsOfItsPeriod: all of it, no more, and all again in the next.
func TestAQuotaIsOfItsPeriod(t *testing.T) {
	o := newOffice(quota(100), 1)
	x := o.all[0]
	for i := range 100 {
		if d := ask(t, x, plans.Request{Cost: 1}); !d.Allowed || d.Limits[0].Remaining() != int64(99-i) || d.Degraded {
			t.Fatalf("take %d: %+v", i, d)
		}
	}
	d := ask(t, x, plans.Request{Cost: 1})
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	if wait := end.Sub(time.UnixMicro(o.now)); d.Allowed || d.RetryAfter != wait || d.Binding != 0 || d.Limits[0].Remaining() != 0 || d.Limits[0].Window() != 30*24*time.Hour {
		t.Errorf("after all of it: %+v, to wait for %v", d, wait)
	}
	if d := ask(t, x, plans.Request{Cost: 0}); d.Allowed || d.Limits[0].Remaining() != 0 {
		t.Errorf("a look: %+v", d)
	}
	o.now += d.RetryAfter.Microseconds() - 1
	if ask(t, x, plans.Request{Cost: 1}).Allowed {
		t.Error("a microsecond before the next period it is allowed")
	}
	o.now++
	if d := ask(t, x, plans.Request{Cost: 100}); !d.Allowed || d.Limits[0].Remaining() != 0 {
		t.Errorf("in the next period: %+v", d)
	}
	if d := ask(t, x, plans.Request{Cost: 101}); d.Allowed || !d.Impossible || d.RetryAfter != 0 {
		t.Errorf("more than there ever is: %+v", d)
	}
}

// TestAQuotaAndARateAreTakenTogetherOrNotAtAll.
func TestAQuotaAndARateAreTakenTogetherOrNotAtAll(t *testing.T) {
	for _, rules := range [][]string{{"quota", "rate"}, {"rate", "quota"}} {
		o := newOffice(quota(8), 1)
		x := o.all[0]
		left := func() (quota, rate int64) {
			return ask(t, x, plans.Request{}).Limits[0].Remaining(), ask(t, x, plans.Request{Rules: []string{"rate"}}).Limits[0].Remaining()
		}
		for range 5 {
			if !ask(t, x, plans.Request{Rules: rules, Cost: 1}).Allowed {
				t.Fatal("refused")
			}
		}
		d := ask(t, x, plans.Request{Rules: rules, Cost: 1}) // the rate has nothing left
		if q, r := left(); d.Allowed || d.Limits[d.Binding].Rule != "rate" || q != 3 || r != 0 {
			t.Errorf("%v, refused by the rate: %+v; left %d, %d", rules, d, q, r)
		}
		o.now += 5 * 3600 * keys.Second
		if d := ask(t, x, plans.Request{Rules: rules, Cost: 4}); d.Allowed || d.Limits[d.Binding].Rule != "quota" {
			t.Errorf("%v: %+v", rules, d)
		}
		if q, r := left(); q != 3 || r != 5 {
			t.Errorf("%v, refused by the quota: left %d, %d", rules, q, r)
		}
	}
}

// TestARepeatOfARequestCostsAQuotaOnce, before and after it is used up.
func TestARepeatOfARequestCostsAQuotaOnce(t *testing.T) {
	for _, rules := range [][]string{{"quota"}, {"quota", "rate"}} {
		o := newOffice(quota(4), 2)
		for i := range 6 {
			if d := ask(t, o.all[i%2], plans.Request{Rules: rules, Cost: 3, RequestID: "one"}); !d.Allowed || d.Replayed != (i > 0) {
				t.Fatalf("%v, repeat %d: %+v", rules, i, d)
			}
		}
		if d := ask(t, o.all[0], plans.Request{Cost: 1}); !d.Allowed || d.Limits[0].Remaining() != 0 {
			t.Errorf("%v: %+v", rules, d)
		}
		if d := ask(t, o.all[1], plans.Request{Rules: rules, Cost: 3, RequestID: "one"}); !d.Allowed || !d.Replayed {
			t.Errorf("%v, a repeat after the quota was used up: %+v", rules, d)
		}
		if d := ask(t, o.all[1], plans.Request{Rules: rules, Cost: 3, RequestID: "two"}); d.Allowed {
			t.Errorf("%v, another: %+v", rules, d)
		}
		if _, err := o.all[1].Take(context.Background(), &plans.Request{Key: "k", Rules: rules, Cost: 2, RequestID: "one"}); !errors.Is(err, plans.ErrConflict) {
			t.Errorf("%v, another request under one id: %v", rules, err)
		}
	}
}

// TestTheAdmissionDecidesThePeriod: what is settled after its end is charged to it.
func TestTheAdmissionDecidesThePeriod(t *testing.T) {
	o := newOffice(quota(100), 2)
	o.now = time.Date(2026, 11, 30, 23, 59, 50, 0, time.UTC).UnixMicro()
	less, more := ask(t, o.all[0], plans.Request{Cost: 40, Reserve: true}), ask(t, o.all[0], plans.Request{Cost: 10, Reserve: true})
	o.now += 20 * keys.Second
	if d := ask(t, o.all[0], plans.Request{Cost: 1}); d.Limits[0].Remaining() != 99 {
		t.Errorf("in December: %+v", d)
	}
	settle := func(x *plans.Taker, token string, cost int64, settled bool) {
		t.Helper()
		s, err := x.Settle(context.Background(), token, cost)
		if err != nil || s.Settled != settled || s.Duplicate == settled {
			t.Errorf("%+v, %v", s, err)
		}
	}
	settle(o.all[1], less.Reservation, 5, true)
	settle(o.all[0], less.Reservation, 5, false)
	settle(o.all[0], more.Reservation, 90, true)
	if u := o.usage(november); u.Drawn != 95 {
		t.Errorf("November has %+v, not 5 and 90", u)
	}
	if d := ask(t, o.all[0], plans.Request{}); d.Limits[0].Remaining() != 99 {
		t.Errorf("December: %+v", d.Limits)
	}
}

// TestSettlementsAndRefundsOfAQuota, within its period.
func TestSettlementsAndRefundsOfAQuota(t *testing.T) {
	for _, rules := range [][]string{{"quota"}, {"rate", "quota"}} {
		o := newOffice(quota(100), 1)
		x, left := o.all[0], func() int64 { return ask(t, o.all[0], plans.Request{}).Limits[0].Remaining() }
		d := ask(t, x, plans.Request{Rules: rules, Cost: 2, Reserve: true})
		s, err := x.Settle(context.Background(), d.Reservation, 3)
		if err != nil || !s.Settled || s.Charged != 3 || left() != 97 || len(s.Limits) != len(rules) || s.Limits[s.Binding].Rule != rules[0] {
			t.Errorf("%v: %+v, %v; left %d", rules, s, err, left())
		}
		d = ask(t, x, plans.Request{Rules: rules, Cost: 1})
		for range 2 { // once
			if err := x.Refund(context.Background(), d, 500); err != nil || left() != 97 {
				t.Errorf("%v: refunded, %v; left %d", rules, err, left())
			}
		}
		d = ask(t, x, plans.Request{Rules: rules, Cost: 1})
		if err := x.Refund(context.Background(), d, 404); err != nil || left() != 96 {
			t.Errorf("%v: the caller's own fault, %v; left %d", rules, err, left())
		}
	}
}

// TestAChangeOfAQuotaCountsAtOnce, whichever way.
func TestAChangeOfAQuotaCountsAtOnce(t *testing.T) {
	o := newOffice(quota(10), 1)
	for range 10 {
		ask(t, o.all[0], plans.Request{Cost: 1})
	}
	o.define(quota(12))
	if d := ask(t, o.all[0], plans.Request{Cost: 2}); !d.Allowed {
		t.Errorf("raised: %+v", d)
	}
	o.define(quota(5))
	if d := ask(t, o.all[0], plans.Request{Cost: 1}); d.Allowed || d.Limits[0].Remaining() != 0 {
		t.Errorf("lowered: %+v", d)
	}
	o.define(quota(13))
	if d := ask(t, o.all[0], plans.Request{Cost: 1}); !d.Allowed {
		t.Errorf("raised again: %+v", d)
	}
	if ask(t, o.all[0], plans.Request{Cost: 1}).Allowed {
		t.Error("changing a quota gave more than it holds")
	}
}

// TestPercentagesAreToldOnce over all instances, and again in the next period.
func TestPercentagesAreToldOnce(t *testing.T) {
	o := newOffice(quota(1000), 3)
	spend := func(n int) {
		for i := range n {
			if i%50 == 0 {
				o.now += keys.Second // batches, and what comes back of them
				o.all[i/50%3].TidyQuotas(context.Background())
			}
			ask(t, o.all[i%3], plans.Request{Cost: 1})
		}
	}
	told := func() (all []string) {
		for _, q := range o.reached {
			all = append(all, fmt.Sprint(q.Percent, " of ", q.Limit))
		}
		return all
	}
	spend(700)
	if len(o.reached) != 0 {
		t.Errorf("at 70 %%: %v", told())
	}
	spend(400)
	if want := []string{"80 of 1000", "100 of 1000"}; !slices.Equal(told(), want) {
		t.Errorf("told %v, want %v", told(), want)
	}
	if d := o.reached[0].Drawn; d < 800 || d > 900 {
		t.Errorf("80 %% were told of at %d", d)
	}
	o.define(quota(2000))
	spend(800)
	o.now = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC).UnixMicro()
	ask(t, o.all[0], plans.Request{Cost: 1700})
	if want := []string{"80 of 1000", "100 of 1000", "80 of 2000", "80 of 2000"}; !slices.Equal(told(), want) {
		t.Errorf("then told %v, want %v", told(), want)
	}
}

// TestWithoutALedger: as the rule's failure says, and booked when it is back.
func TestWithoutALedger(t *testing.T) {
	for _, s := range []struct {
		failure     plans.Failure
		known, want int // spent before, let through by one of two instances
	}{
		{plans.Closed, 10, 0}, {plans.Open, 10, 200}, {plans.Local, 20, 40}, {plans.Local, 0, 3}, {"", 20, 40},
	} {
		o := newOffice(quota(100, func(r *plans.Rule) { r.Failure = s.failure }), 2)
		x := o.all[0]
		for range s.known {
			ask(t, x, plans.Request{Cost: 1})
			o.now += 10 * keys.Second
			x.TidyQuotas(context.Background())
		}
		gone := true
		o.fail = func() (bool, bool) { return gone, false }
		let := 0
		for range 200 {
			d := ask(t, x, plans.Request{Cost: 1})
			if !d.Degraded || !d.Allowed && d.RetryAfter <= 0 {
				t.Fatalf("%s: %+v", s.failure, d)
			}
			if d.Allowed {
				let++
			}
		}
		if let != s.want {
			t.Errorf("%q, %d spent before: %d let through, want %d", s.failure, s.known, let, s.want)
		}
		gone = false
		x.TidyQuotas(context.Background())
		if u := o.usage(november); u.Drawn != int64(s.known+let) {
			t.Errorf("%q: then the ledger has %+v of %d and %d", s.failure, u, s.known, let)
		}
	}
}

// TestQuotasAreNeverExceeded: whatever instances do with one quota, dying and losing
// calls of either form, no more of it is let through than there is; what is lost with
// those that die is a batch each; and what is given back can be had.
func TestQuotasAreNeverExceeded(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.SampledFrom([]int64{1, 7, 50, 400, 3000}).Draw(rt, "capacity")
		o := newOffice(quota(capacity, func(r *plans.Rule) { r.Failure = plans.Closed }), 3)
		faults := rapid.Bool().Draw(rt, "faults")
		ambiguous := false
		o.fail = func() (before, after bool) {
			if !faults {
				return false, false
			}
			before, after = rapid.IntRange(0, 9).Draw(rt, "before") == 0, rapid.IntRange(0, 9).Draw(rt, "after") == 0
			ambiguous = ambiguous || after
			return before, after
		}
		var let, lost int64
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			i := rapid.IntRange(0, 2).Draw(rt, "instance")
			switch rapid.SampledFrom([]string{"take", "take", "take", "many", "wait", "tidy", "die", "end", "refund"}).Draw(rt, "what") {
			case "take":
				cost := rapid.Int64Range(0, 9).Draw(rt, "cost")
				if d := ask(t, o.all[i], plans.Request{Cost: cost}); d.Allowed {
					let += cost
				} else {
					seen["refused"]++
				}
			case "many":
				for range rapid.IntRange(1, 300).Draw(rt, "many") {
					if ask(t, o.all[i], plans.Request{Cost: 1}).Allowed {
						let++
					}
				}
			case "wait":
				o.now += rapid.Int64Range(1, 3*keys.Second).Draw(rt, "wait")
			case "tidy":
				o.all[i].TidyQuotas(context.Background())
			case "die":
				seen["died"]++
				before := o.usage(november).Drawn
				lost += min(before-let, capacity) // what all have in hand: of it some dies
				o.all[i] = o.start()
			case "end":
				seen["ended"]++
				o.all[i].CloseQuotas(context.Background())
				o.all[i] = o.start()
			case "refund":
				d := ask(t, o.all[i], plans.Request{Cost: 2, Reserve: true})
				if d.Allowed {
					if s, err := o.all[(i+1)%3].Settle(context.Background(), d.Reservation, 0); err != nil || !s.Settled {
						rt.Fatalf("%+v, %v", s, err)
					}
					seen["settled"]++
				}
			}
			if let > capacity {
				rt.Fatalf("%d of a quota of %d were let through", let, capacity)
			}
		}
		faults = false
		for _, x := range o.all {
			x.CloseQuotas(context.Background())
		}
		u := o.usage(november)
		switch {
		case u.Drawn < let:
			rt.Fatalf("%d were let through, the ledger has %+v", let, u)
		case lost == 0 && !ambiguous && u.Drawn != let:
			rt.Fatalf("nobody died, %d were let through, and the ledger has %+v", let, u)
		}
		if u.Drawn < capacity {
			seen["left"]++
			if d := ask(t, o.start(), plans.Request{Cost: capacity - u.Drawn}); !d.Allowed {
				rt.Fatalf("%d are left, and cannot be had: %+v", capacity-u.Drawn, d)
			}
		} else {
			seen["used up"]++
		}
	})
	for _, what := range []string{"refused", "died", "ended", "settled", "left", "used up"} {
		if seen[what] < 10 && !t.Failed() {
			t.Errorf("the model met %q %d times: it no longer goes there", what, seen[what])
		}
	}
}

// TestAKilledInstanceLosesNoMoreThanItSpendsInASecond.
func TestAKilledInstanceLosesNoMoreThanItSpendsInASecond(t *testing.T) {
	o := newOffice(quota(1_000_000), 1)
	x := o.all[0]
	var let int64
	for s := range 50 {
		for range 100 + 7*s {
			if ask(t, x, plans.Request{Cost: 1}).Allowed {
				let++
			}
		}
		if lost := o.usage(november).Drawn - let; lost < 0 || lost > int64(100+7*s) {
			t.Fatalf("in second %d it would lose %d", s, lost)
		}
		o.now += keys.Second
	}
}

func TestBadQuotasAreRefused(t *testing.T) {
	for field, r := range map[string]plans.Rule{
		"rules[0].capacity":   {Capacity: 0},
		"rules[0].refill":     {Capacity: 5, Refill: "1/1s"},
		"rules[0].per":        {Capacity: 5, Settings: plans.Settings{Per: new(plans.Per("week"))}},
		"rules[0].anchor":     {Capacity: 5, Settings: plans.Settings{Anchor: ptr(32)}},
		"rules[0].zone":       {Capacity: 5, Settings: plans.Settings{Zone: text("Mars/Olympus")}},
		"rules[0].ttl":        {Capacity: 5, Settings: plans.Settings{TTL: text("1m")}},
		"rules[0].shards":     {Capacity: 5, Settings: plans.Settings{Shards: ptr(2)}},
		"rules[0].routes[GET": {Capacity: 5, Routes: map[string]int64{"GET": 6}},
	} {
		r.Name, r.Kind = "q", plans.Quota
		_, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{r}}, "", nil)
		if len(faults) != 1 || len(faults[0].Field) < len(field) || faults[0].Field[:len(field)] != field {
			t.Errorf("%s: %v", field, faults)
		}
	}
	_, faults := plans.Compile(&plans.Definition{Rules: []plans.Rule{{Name: "q", Kind: plans.Quota, Capacity: 5, Settings: plans.Settings{Per: new(plans.PerDay), Anchor: ptr(3)}}}}, "", nil)
	if len(faults) != 1 || faults[0].Field != "rules[0].anchor" {
		t.Errorf("an anchor of a day: %v", faults)
	}
}

// TestAKeysOwnBillingDay is an override.
func TestAKeysOwnBillingDay(t *testing.T) {
	d := quota(10)
	d.Plans = []plans.Plan{{Name: "p", Rules: []string{"quota"}}}
	d.Keys = []plans.Key{{SHA256: plans.Digest(sha256.Sum256([]byte("k"))), Plan: "p", Overrides: []plans.Override{{Rule: "quota", Anchor: ptr(11), Capacity: ptr(20)}}}}
	o := newOffice(d, 1)
	a := ask(t, o.all[0], plans.Request{Cost: 15})
	if want := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC); !a.Allowed || !a.Limits[0].Ends.Equal(want) {
		t.Errorf("%+v", a)
	}
	d.Keys[0].Overrides[0].Rule, d.Plans[0].Rules = "rate", []string{"rate"}
	if _, faults := plans.Compile(d, "", nil); len(faults) != 1 || faults[0].Field != "keys[0].overrides[0].anchor" {
		t.Errorf("of a rate: %v", faults)
	}
}
