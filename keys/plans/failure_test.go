package plans_test

import (
	"context"
	"errors"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

type ctx = context.Context

// gone is a shared store that can be taken away.
type gone struct {
	plans.Store
	is bool
}

var errGone = errors.New("gone")

func (g *gone) Take(c ctx, a *keys.Ask, ans *keys.Answer) error {
	if g.is {
		return errGone
	}
	return g.Store.Take(c, a, ans)
}

func (g *gone) Settle(c ctx, s *keys.Settlement, out *keys.Settled) error {
	if g.is {
		return errGone
	}
	return g.Store.Settle(c, s, out)
}

func TestWhenTheSharedStoreIsGoneARuleDoesWhatItSays(t *testing.T) {
	d := &plans.Definition{Rules: []plans.Rule{
		{Name: "local", Capacity: 40, Refill: "1/24h"},
		{Name: "open", Capacity: 8, Refill: "1/24h", Failure: plans.Open},
		{Name: "closed", Capacity: 40, Refill: "1/24h", Failure: plans.Closed},
	}}
	for _, c := range []struct {
		rules []string
		want  int // of 100 takes, among 4 instances
	}{
		{[]string{"local"}, 10},
		{[]string{"open"}, 100},
		{[]string{"closed"}, 0},
		{[]string{"local", "open"}, 10}, // the open rule lets all through, the other still counts
		{[]string{"open", "closed"}, 0},
	} {
		w := newWorld(t, d)
		shared := &gone{Store: w.store}
		twin := keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return w.now }})
		w.over(keys.NewFallback(keys.FallbackConfig{Primary: shared, Local: twin, Instances: 4}), d)
		shared.is = true
		yes := 0
		for range 100 {
			d := w.take(plans.Request{Key: "k", Rules: c.rules, Cost: 1})
			if !d.Degraded {
				t.Fatal("not marked degraded")
			}
			// A refusal says when to come again, and has less left than was asked.
			if b := &d.Limits[d.Binding]; !d.Allowed && (d.RetryAfter <= 0 || b.Allowed || b.Remaining() >= 1) {
				t.Fatalf("%v: refused, retry after %s, %+v", c.rules, d.RetryAfter, b)
			}
			if d.Allowed {
				yes++
			}
		}
		if yes != c.want {
			t.Errorf("%v: %d let through, not %d", c.rules, yes, c.want)
		}
		shared.is = false
		if d := w.take(plans.Request{Key: "k2", Rules: c.rules, Cost: 1}); d.Degraded || !d.Allowed {
			t.Errorf("%v, the store back: %+v", c.rules, d)
		}
	}
}

func TestAReservationOfAnOutageIsSettledWithTheTwin(t *testing.T) {
	d := one(40, "1/24h")
	w := newWorld(t, d)
	shared := &gone{Store: w.store, is: true}
	twin := keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return w.now }})
	w.over(keys.NewFallback(keys.FallbackConfig{Primary: shared, Local: twin, Instances: 4}), d)
	r := w.take(plans.Request{Key: "k", Rules: []string{"r"}, Cost: 8, Reserve: true})
	s, err := w.Settle(t.Context(), r.Reservation, 3)
	if err != nil || !s.Settled || !s.Degraded || s.Limits[0].Remaining() != 7 {
		t.Fatalf("%+v, %v", s, err)
	}
	if n := w.allowed(20, "r"); n != 7 {
		t.Errorf("%d let through after it, not 7", n)
	}
}

func (g *gone) Acquire(c ctx, a *keys.SlotAsk, ans *keys.SlotAnswer) error {
	if g.is {
		return errGone
	}
	return g.Store.Acquire(c, a, ans)
}

// Of 4 instances each gives its share of a rule's slots, or all, or none.
func TestWhenTheSharedStoreIsGoneSlotsDoWhatTheirRuleSays(t *testing.T) {
	d := &plans.Definition{Rules: []plans.Rule{
		{Name: "local", Kind: plans.Concurrency, Capacity: 12},
		{Name: "open", Kind: plans.Concurrency, Capacity: 4, Failure: plans.Open},
		{Name: "closed", Kind: plans.Concurrency, Capacity: 12, Failure: plans.Closed},
	}}
	for _, c := range []struct {
		rules []string
		want  int // of 20
	}{
		{[]string{"local"}, 3},
		{[]string{"open"}, 20},
		{[]string{"closed"}, 0},
		{[]string{"open", "local"}, 3}, // the open one lets all through, the other still counts
		{[]string{"local", "closed"}, 0},
	} {
		w := newWorld(t, d)
		shared := &gone{Store: w.store}
		w.over(keys.NewFallback(keys.FallbackConfig{Primary: shared, Local: keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return w.now }}), Instances: 4}), d)
		shared.is = true
		got := 0
		for range 20 {
			a := w.acquire(plans.SlotRequest{Key: "k", Rules: c.rules})
			if !a.Degraded || a.Allowed == (a.RetryAfter > 0) || a.Allowed != (a.Slot != "") || a.Allowed && !a.Expires.After(a.At) {
				t.Errorf("%v: %+v", c.rules, a)
			}
			if a.Allowed {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%v: %d of 20 have a slot, not %d", c.rules, got, c.want)
		}
	}
}
