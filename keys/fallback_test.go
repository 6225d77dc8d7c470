package keys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// outage is a Fallback over a twin that can fail, and what it was told.
type outage struct {
	*keys.Fallback
	primary *keystest.Faulty
	shared  *keys.Memory
	local   *keys.Memory
	errs    []string
	now     int64
	rules   *keys.Rules
}

func newOutage(t *testing.T, instances int) *outage {
	t.Helper()
	o := &outage{now: 1_800_000_000 * keys.Second}
	clock := func() int64 { return o.now }
	o.shared, o.local = keys.NewMemory(keys.MemoryConfig{Now: clock}), keys.NewMemory(keys.MemoryConfig{Now: clock})
	o.primary = &keystest.Faulty{Subject: o.shared}
	o.Fallback = keys.NewFallback(keys.FallbackConfig{Primary: o.primary, Local: o.local, Instances: instances,
		OnError: func(op string, err error) { o.errs = append(o.errs, op) }})
	l, err := keys.NewLimit(20, 20, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o.rules, err = keys.NewRules([]keys.TierSpec{{Tier: keys.TierAccount, Limits: []keys.LimitSpec{
		{Name: "burst", Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *outage) take(t *testing.T) keys.Answer {
	t.Helper()
	calls := o.primary.Calls()
	var ans keys.Answer
	a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: 1, Deadline: o.now}
	if err := o.Take(t.Context(), &a, &ans); err != nil {
		t.Fatal(err)
	}
	if n := o.primary.Calls() - calls; n != 1 {
		t.Fatalf("the primary was asked %d times", n)
	}
	return ans
}

// left looks at what is left in a store, in whole tokens, by the whole rules.
func (o *outage) left(t *testing.T, s keys.Store) int64 {
	t.Helper()
	var ans keys.Answer
	if err := s.Take(t.Context(), &keys.Ask{Rules: o.rules, Keys: []string{"account"}}, &ans); err != nil {
		t.Fatal(err)
	}
	return ans.Limits[0].Tokens()
}

func (o *outage) give(t *testing.T, ans *keys.Answer, outcome keys.Outcome) keys.Receipt {
	t.Helper()
	r := keys.Return{Rules: o.rules, Keys: []string{"account"}, Outcome: outcome, Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime,
		Took:  []keys.Took{{Tier: keys.TierAccount, Limit: o.rules.Tiers()[0].Limits[0].ID(), In: ans.Limits[0].Limit}},
		Local: ans.Degraded, OutcomeKey: "outcome", PlaceKey: "place", FailuresKey: "failures", Deadline: o.now}
	var rcp keys.Receipt
	if err := o.Give(t.Context(), &r, &rcp); err != nil {
		t.Fatal(err)
	}
	return rcp
}

var faults = map[string]keystest.Fault{"did not happen": keystest.NotDone, "reply lost": keystest.ReplyLost, "too late": keystest.TooLate}

// Promise: friction degrades, service does not.
func TestFrictionDegradesServiceDoesNot(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 4)
			if ans := o.take(t); ans.Degraded || ans.Limits[0].Limit.Capacity != 20 {
				t.Fatalf("%+v", ans)
			}
			o.primary.Set(fault)
			let := 0
			for range 30 {
				ans := o.take(t)
				if !ans.Degraded || ans.Limits[0].Limit.Capacity != 5 {
					t.Fatalf("%+v", ans)
				}
				if ans.Let {
					let++
				}
			}
			if let != 4 { // what was spent there is spent here, in proportion, and rounded up
				t.Errorf("%d were let through by a share of 5, of which a twentieth was spent before", let)
			}
			if len(o.errs) != 30 || o.errs[0] != "take" {
				t.Errorf("told of %d errors: %v", len(o.errs), o.errs)
			}
			o.primary.Set(keystest.Healthy)
			want := int64(18) // one before the outage and this one
			if fault == keystest.ReplyLost {
				want = 0 // every guess of the outage was counted there too: twice, never not at all
			}
			if ans := o.take(t); ans.Degraded || ans.Limits[0].Tokens() != want {
				t.Errorf("after the outage %+v", ans)
			}
		})
	}
}

func TestAShareIsNeverBelowThreeGuesses(t *testing.T) {
	o := newOutage(t, 1000)
	o.primary.Set(keystest.NotDone)
	let := 0
	for range 10 {
		if o.take(t).Let {
			let++
		}
	}
	if let != 3 {
		t.Errorf("%d were let through", let)
	}
}

func TestACostAboveTheShareIsRefusedButPossible(t *testing.T) {
	o := newOutage(t, 4)
	o.primary.Set(keystest.NotDone)
	for cost, want := range map[int64]keys.Status{6: keys.Decided, 20: keys.Decided, 21: keys.Impossible} {
		var ans keys.Answer
		if err := o.Take(t.Context(), &keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: cost}, &ans); err != nil || ans.Status != want || ans.Let {
			t.Errorf("cost %d: %+v %v", cost, ans, err)
		}
	}
}

func TestTheTwinIsNeverTooLate(t *testing.T) {
	o := newOutage(t, 1)
	o.now++
	for range 2 { // the primary is late by its own clock, then gone
		var ans keys.Answer
		a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: 1, Deadline: o.now - 1}
		if err := o.Take(t.Context(), &a, &ans); err != nil || !ans.Let || !ans.Degraded {
			t.Errorf("%+v %v", ans, err)
		}
		var rcp keys.Receipt
		r := keys.Return{Outcome: keys.Failure, Stamp: ans.Now, Expires: ans.Now + keys.Day, OutcomeKey: fmt.Sprint(o.primary.Calls()), Deadline: o.now - 1}
		if err := o.Give(t.Context(), &r, &rcp); err != nil || !rcp.Recorded || !rcp.Degraded {
			t.Errorf("%+v %v", rcp, err)
		}
		o.primary.Set(keystest.NotDone)
	}
}

func TestADuplicateThereGivesNothingBackHere(t *testing.T) {
	o := newOutage(t, 4)
	o.primary.Set(keystest.NotDone)
	ans := o.take(t)
	o.primary.Set(keystest.Healthy)
	before := o.left(t, o.local)
	var rcp keys.Receipt
	if err := o.shared.Give(t.Context(), &keys.Return{Outcome: keys.Failure, Stamp: ans.Now, Expires: ans.Now + keys.Day, OutcomeKey: "outcome"}, &rcp); err != nil {
		t.Fatal(err)
	}
	if rcp := o.give(t, &ans, keys.Success); !rcp.Duplicate || rcp.Gave != 0 || o.left(t, o.local) != before {
		t.Errorf("%+v, and %d are left, not %d", rcp, o.left(t, o.local), before)
	}
}

func TestABadAskIsNoOutage(t *testing.T) {
	o := newOutage(t, 1)
	var ans keys.Answer
	if err := o.Take(t.Context(), &keys.Ask{Rules: o.rules}, &ans); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("take: %v", err)
	}
	var rcp keys.Receipt
	if err := o.Give(t.Context(), &keys.Return{}, &rcp); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("give: %v", err)
	}
	if len(o.errs) > 0 {
		t.Errorf("told of %v", o.errs)
	}
	o.primary.Set(keystest.NotDone)
	o.take(t)
	o.primary.Set(keystest.Healthy)
	if err := o.Take(t.Context(), &keys.Ask{Keys: []string{"account"}, Cost: 1}, &ans); !errors.Is(err, keys.ErrAsk) {
		t.Errorf("take, while something is owed: %v", err)
	}
}

func TestWhatTheTwinTookReturnsToTheTwin(t *testing.T) {
	o := newOutage(t, 4)
	o.take(t)
	o.primary.Set(keystest.NotDone)
	ans := o.take(t)
	shared := o.left(t, o.shared)
	o.primary.Set(keystest.Healthy)
	if rcp := o.give(t, &ans, keys.Success); !rcp.Recorded || rcp.Gave != 1 || rcp.Degraded {
		t.Errorf("%+v", rcp)
	}
	if o.left(t, o.local) != 19 || o.left(t, o.shared) != shared { // 19: as mirrored
		t.Errorf("left %d here and %d there", o.left(t, o.local), o.left(t, o.shared))
	}
	if rcp := o.give(t, &ans, keys.Success); !rcp.Duplicate || rcp.Gave != 0 {
		t.Errorf("again: %+v", rcp)
	}
}

func TestAnOutcomeDuringAnOutageIsBookedOnce(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 4)
			o.primary.Set(fault)
			ans := o.take(t)
			if !ans.Degraded {
				t.Fatal("not degraded")
			}
			if rcp := o.give(t, &ans, keys.Success); !rcp.Recorded || rcp.Gave != 1 || !rcp.Degraded {
				t.Errorf("%+v", rcp)
			}
			if rcp := o.give(t, &ans, keys.Success); !rcp.Duplicate || rcp.Gave != 0 {
				t.Errorf("again: %+v", rcp)
			}
			o.primary.Set(keystest.Healthy)
			before := o.left(t, o.local)
			if rcp := o.give(t, &ans, keys.Success); rcp.Gave != 0 {
				t.Errorf("after the outage: %+v", rcp)
			}
			if after := o.left(t, o.local); after != before || after != 20 {
				t.Errorf("the twin holds %d, then %d", before, after)
			}
		})
	}
}

func TestWhatTheSharedStoreTookIsNotGivenBackHere(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 4)
			ans := o.take(t)
			o.primary.Set(fault)
			o.take(t) // something is spent here too
			if rcp := o.give(t, &ans, keys.Success); !rcp.Recorded || rcp.Gave != 0 || !rcp.Degraded {
				t.Errorf("%+v", rcp)
			}
			if n := o.left(t, o.local); n >= 20 {
				t.Errorf("the twin holds %d", n)
			}
		})
	}
}

func TestFailuresAreCountedThroughAnOutage(t *testing.T) {
	o := newOutage(t, 4)
	o.primary.Set(keystest.NotDone)
	ans := o.take(t)
	if rcp := o.give(t, &ans, keys.Failure); rcp.Failures != 1 || rcp.Gave != 0 || !rcp.Degraded {
		t.Errorf("%+v", rcp)
	}
}

func TestRevocationsSurfaceTheirErrors(t *testing.T) {
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 4)
			o.primary.Set(fault)
			if _, err := o.Revoke(t.Context(), "revoked", 0, keys.Day); !errors.Is(err, keystest.ErrFault) {
				t.Errorf("revoking: %v", err)
			}
			if err := o.Put(t.Context(), "state", keys.State{}.Encode(), keys.Day); !errors.Is(err, keystest.ErrFault) {
				t.Errorf("putting: %v", err)
			}
			if st := o.local.Stats(); st.Records != 2 {
				t.Errorf("this instance knows of %d records", st.Records)
			}
		})
	}
}

func TestWhatIsPutIsKnownInTheNextOutage(t *testing.T) {
	o := newOutage(t, 4)
	if err := o.Put(t.Context(), "suspect", keys.EncodeUntil(o.now+keys.Day), keys.Day); err != nil {
		t.Fatal(err)
	}
	stamp, err := o.Revoke(t.Context(), "revoked", 0, keys.Day)
	if err != nil || stamp != o.now {
		t.Fatal(stamp, err)
	}
	o.primary.Set(keystest.NotDone)
	var ans keys.Answer
	a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: 1, RevokedKey: "revoked", SuspectKeys: [3]string{"suspect"},
		Proof: keys.Proof{Key: "p", Rung: keys.Verify, Issued: o.now, Expires: o.now + keys.Day, Uses: 5}}
	if err := o.Take(t.Context(), &a, &ans); err != nil || ans.Causes != keys.BySuspect || ans.Proof != keys.ProofInvalid {
		t.Errorf("%+v %v", ans, err)
	}
}

// simple is one plain limit, as plans have.
func simple(t *testing.T) *keys.Rules {
	t.Helper()
	r, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierPlan, Limits: []keys.LimitSpec{{Name: "r", Limit: keys.Limit{Capacity: 10, Count: 1, Period: keys.Day},
		Steps: keys.NoSteps}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Metrics have a series for each: a word that is not in the list is counted as
// another, and one that nobody says is never seen to fail.
func TestOnErrorSaysEachOfItsWordsAndNoOther(t *testing.T) {
	o := newOutage(t, 1)
	o.primary.Set(keystest.NotDone)
	ans := o.take(t)
	o.give(t, &ans, keys.Failure)
	o.Return(t.Context())
	_ = o.Put(t.Context(), "state", nil, keys.Day)
	_, _ = o.Revoke(t.Context(), "revoked", 0, keys.Day)
	_, _, _ = o.Tally(t.Context(), "tally", 0, keys.Day)
	_, _ = o.send(t, 1, "a", keys.Proof{})
	_, _ = o.LiveCode(t.Context(), "code", 0)
	_, _ = o.SpendCode(t.Context(), "code", 1, 0)
	_ = o.ConfirmCode(t.Context(), "code", 1, 0)
	_ = o.UnsendCode(t.Context(), "code", 1, 0)
	_ = o.Settle(t.Context(), &keys.Settlement{Rules: simple(t), Keys: []string{"r"}, Took: make([]keys.TookMany, 1), Costs: []int64{1},
		MarkKey: "settled", Expires: keys.MaxExact / 2}, new(keys.Settled))
	_ = o.Lease(t.Context(), &keys.LeaseAsk{Rules: simple(t), Key: "bucket", Want: 1}, new(keys.Leased))
	_ = o.Acquire(t.Context(), &keys.SlotAsk{Keys: []string{"slots"}, Caps: []int64{1}, Lives: []int64{keys.Second}, TTL: keys.Second, ID: [16]byte{1}}, new(keys.SlotAnswer))
	_, _, _ = o.Release(t.Context(), &keys.SlotReturn{Keys: []string{"slots"}, ID: [16]byte{1}})
	if !slices.Equal(o.errs, keys.Operations) {
		t.Errorf("it was told of %q, not %q", o.errs, keys.Operations)
	}
}

// last is a Fallback as a subject: it is the last one to ask.
type last struct{ *keys.Fallback }

func (last) NeverLate() {}

// blind is a Fallback whose primary is gone for good. That records and outcomes
// could not be told to it is not what the suite asks for.
type blind struct{ last }

func (b blind) Put(ctx context.Context, key string, value []byte, ttl int64) error {
	if err := b.Fallback.Put(ctx, key, value, ttl); !errors.Is(err, keystest.ErrFault) {
		return err
	}
	return nil
}

func (b blind) Revoke(ctx context.Context, key string, now, ttl int64) (int64, error) {
	stamp, err := b.Fallback.Revoke(ctx, key, now, ttl)
	if errors.Is(err, keystest.ErrFault) {
		err = nil
	}
	return stamp, err
}

// Codeless implements keystest.Codeless.
func (blind) Codeless() {}

func (b blind) Give(ctx context.Context, r *keys.Return, rcp *keys.Receipt) error {
	local := *r
	local.Local = true
	return b.Fallback.Give(ctx, &local, rcp)
}

// A fallback is a store like any other, healthy or not: with one instance its
// share is the whole.
func TestFallbackPassesTheSuite(t *testing.T) {
	t.Run("healthy", func(t *testing.T) {
		keystest.Run(t, func(t *testing.T) keystest.Subject {
			return last{keys.NewFallback(keys.FallbackConfig{Primary: keys.NewMemory(keys.MemoryConfig{}), Local: keys.NewMemory(keys.MemoryConfig{}), Instances: 1})}
		})
	})
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			keystest.Run(t, func(t *testing.T) keystest.Subject {
				p := &keystest.Faulty{Subject: keys.NewMemory(keys.MemoryConfig{})}
				p.Set(fault)
				return blind{last{keys.NewFallback(keys.FallbackConfig{Primary: p, Local: keys.NewMemory(keys.MemoryConfig{}), Instances: 1})}}
			})
		})
	}
}
