package plans_test

import (
	"context"
	"errors"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// remaining is what x says is left of a rule.
func remaining(t *testing.T, x *plans.Taker, rule string) int64 {
	t.Helper()
	return ask(t, x, plans.Request{Rules: []string{rule}}).Limits[0].Remaining()
}

// december is the period after november.
var december = november.AddDate(0, 1, 0)

// TestWhatComesToNothingCostsNoQuota: a repeat while there is room, a request id of
// another request, and a refusal by a second quota each put back what they took.
func TestWhatComesToNothingCostsNoQuota(t *testing.T) {
	d := quota(100)
	d.Rules = append(d.Rules, plans.Rule{Name: "small", Kind: plans.Quota, Capacity: 5})
	o := newOffice(d, 1)
	x := o.all[0]
	one := plans.Request{Key: "k", Rules: []string{"quota"}, Cost: 3, RequestID: "one"}
	for range 4 {
		ask(t, x, one)
	}
	if n := remaining(t, x, "quota"); n != 97 {
		t.Errorf("after repeats %d are left", n)
	}
	one.Cost = 4
	if _, err := x.Take(context.Background(), &one); !errors.Is(err, plans.ErrConflict) {
		t.Errorf("another request under one id: %v", err)
	}
	if n := remaining(t, x, "quota"); n != 97 {
		t.Errorf("after a conflict %d are left", n)
	}
	both := ask(t, x, plans.Request{Rules: []string{"quota", "small"}, Cost: 6})
	if n := remaining(t, x, "quota"); both.Allowed || n != 97 {
		t.Errorf("after a refusal by another %d are left: %+v", n, both)
	}
}

// TestARefusalByAQuotaTakesOfNoRate, whoever names the request.
func TestARefusalByAQuotaTakesOfNoRate(t *testing.T) {
	o := newOffice(quota(2), 1)
	d := ask(t, o.all[0], plans.Request{Rules: []string{"rate", "quota"}, Cost: 3, RequestID: "named"})
	if n := remaining(t, o.all[0], "rate"); d.Allowed || n != 5 {
		t.Errorf("%d of 5 are left: %+v", n, d)
	}
}

// TestAQuotaOfRequestsIsSettledAsOne, whatever they cost in the end, and whatever a
// request costs by then.
func TestAQuotaOfRequestsIsSettledAsOne(t *testing.T) {
	requests := func(each int64) *plans.Definition {
		return quota(100, func(r *plans.Rule) { r.Counts, r.Routes = plans.CountsRequests, map[string]int64{"*": each} })
	}
	o := newOffice(requests(1), 1)
	d := ask(t, o.all[0], plans.Request{Cost: 20, Reserve: true})
	o.define(requests(7))
	if s, err := o.all[0].Settle(context.Background(), d.Reservation, 50); err != nil || !s.Settled {
		t.Errorf("%+v, %v", s, err)
	}
	if n := remaining(t, o.all[0], "quota"); n != 99 {
		t.Errorf("%d of 100 requests are left", n)
	}
}

// TestADryLedgerIsNotAskedForEachTake: of a quota that is used up a flood costs a
// call a second.
func TestADryLedgerIsNotAskedForEachTake(t *testing.T) {
	o := newOffice(quota(1), 1)
	ask(t, o.all[0], plans.Request{Cost: 1})
	calls := 0
	o.fail = func() (bool, bool) { calls++; return false, false }
	for range 300 {
		if ask(t, o.all[0], plans.Request{Cost: 1}).Allowed {
			t.Fatal("more than the quota")
		}
		o.now += keys.Second / 100
	}
	if calls < 2 || calls > 4 {
		t.Errorf("%d calls in 3 s", calls)
	}
}

// TestWhatIsSpentWithoutALedgerIsChargedToItsPeriod, though that be over when it is
// back, as is what is settled then.
func TestWhatIsSpentWithoutALedgerIsChargedToItsPeriod(t *testing.T) {
	o := newOffice(quota(100, func(r *plans.Rule) { r.Failure = plans.Open }), 1)
	x := o.all[0]
	ask(t, x, plans.Request{Cost: 5})
	gone := true
	o.fail = func() (bool, bool) { return gone, false }
	for range 10 {
		ask(t, x, plans.Request{Cost: 1})
	}
	o.now = december.UnixMicro() - keys.Second
	late := ask(t, x, plans.Request{Cost: 1, Reserve: true})
	o.now += 2 * keys.Second
	if d := ask(t, x, plans.Request{Cost: 7}); !d.Allowed {
		t.Errorf("%+v", d)
	}
	if s, err := x.Settle(context.Background(), late.Reservation, 21); err != nil || !s.Settled {
		t.Errorf("%+v, %v", s, err)
	}
	gone = false
	x.TidyQuotas(context.Background())
	if was, is := o.usage(november).Drawn, o.usage(december).Drawn; was != 5+10+21 || is != 7 {
		t.Errorf("November has %d of 36, December %d of 7", was, is)
	}
}

// TestARefundWithoutALedgerIsOfTheShare that was granted meanwhile.
func TestARefundWithoutALedgerIsOfTheShare(t *testing.T) {
	o := newOffice(quota(100), 2)
	x := o.all[0]
	for range 20 {
		ask(t, x, plans.Request{Cost: 1})
		o.now += 10 * keys.Second
		x.TidyQuotas(context.Background())
	}
	gone := true
	o.fail = func() (bool, bool) { return gone, false }
	d := ask(t, x, plans.Request{Cost: 30}) // of a share of 40
	if err := x.Refund(context.Background(), d, 500); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
	if d := ask(t, x, plans.Request{Cost: 41}); d.Allowed {
		t.Errorf("more than the share: %+v", d)
	}
	if d := ask(t, x, plans.Request{Cost: 40}); !d.Allowed {
		t.Errorf("what was given back cannot be had: %+v", d)
	}
	if d := ask(t, x, plans.Request{Cost: 1}); d.Allowed {
		t.Errorf("what was given back can be had twice: %+v", d)
	}
	gone = false
	x.TidyQuotas(context.Background())
	if u := o.usage(november); u.Drawn != 60 {
		t.Errorf("%+v of 60", u)
	}
}

// memo is a ledger that can forget.
type memo map[plans.UsageID]plans.Usage

// Change is plans.Ledger's.
func (m memo) Change(_ context.Context, id plans.UsageID, _ int64, change func(plans.Usage) (plans.Usage, bool)) error {
	if u, ok := change(m[id]); ok {
		m[id] = u
	}
	return nil
}

// TestALedgerThatForgets is given back no more than it knows of.
func TestALedgerThatForgets(t *testing.T) {
	now := november.UnixMicro()
	ledger := memo{}
	x := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return now }}), Sealer: plainSealer{}, Slots: plainSealer{},
		Hash: hash, Ledger: ledger, Now: func() int64 { return now }})
	b, _ := plans.Compile(quota(1000), "1", nil)
	x.Swap(b)
	for range 50 {
		ask(t, x, plans.Request{Cost: 1})
	}
	if len(ledger) != 1 {
		t.Fatalf("%v", ledger)
	}
	for id, u := range ledger {
		if u.Drawn <= 50 {
			t.Fatalf("nothing is in hand: %+v", u)
		}
		ledger[id] = plans.Usage{}
	}
	now += 10 * keys.Second
	x.TidyQuotas(context.Background())
	for _, u := range ledger {
		if u.Drawn != 0 {
			t.Errorf("%+v", u)
		}
	}
}

// TestABatchIsNoMoreThanASixteenthOfWhatIsLeft, however much is spent.
func TestABatchIsNoMoreThanASixteenthOfWhatIsLeft(t *testing.T) {
	o := newOffice(quota(1600), 1)
	x := o.all[0]
	let := int64(0)
	for range 1500 {
		if ask(t, x, plans.Request{Cost: 1}).Allowed {
			let++
		}
		if hand, most := o.usage(november).Drawn-let, (1600-let)/16+1; hand > most {
			t.Fatalf("%d are in hand after %d, of at most %d", hand, let, most)
		}
	}
	o.now += 10 * keys.Second
	x.TidyQuotas(context.Background())
	if u := o.usage(november); u.Drawn != let {
		t.Errorf("idle for long, and of %d the ledger has %d", let, u.Drawn)
	}
}

// TestNoLedgerIsAnOutage, not a quota that is never counted.
func TestNoLedgerIsAnOutage(t *testing.T) {
	x := plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{}), Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash})
	b, _ := plans.Compile(quota(1000), "1", nil)
	x.Swap(b)
	let := 0
	for range 10 {
		d, err := x.Take(context.Background(), &plans.Request{Key: "k", Rules: []string{"quota"}, Cost: 1})
		if err != nil || !d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.Allowed {
			let++
		}
	}
	if let != int(keys.MinShare) {
		t.Errorf("%d were let through", let)
	}
}
