package keys_test

import (
	"fmt"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// old takes and, when it is let through, reports a password of the account.
func (o *outage) old(t *testing.T, password byte, outcome keys.Outcome) keys.Answer {
	t.Helper()
	tags := [2]keys.Tag{{password, 1}, {password, 2}}
	a := keys.Ask{Rules: o.rules, Keys: []string{"account"}, Cost: 1, RevokedKey: "revoked", WrongKey: "wrong", Tags: tags}
	var ans keys.Answer
	if err := o.Take(t.Context(), &a, &ans); err != nil {
		t.Fatal(err)
	}
	o.now++
	r := keys.Return{Outcome: outcome, Stamp: ans.Now, Expires: ans.Now + keys.AttemptLifetime, OutcomeKey: fmt.Sprint("outcome ", o.now),
		Local: ans.Degraded, WrongKey: "wrong", Tags: tags}
	var rcp keys.Receipt
	if err := o.Give(t.Context(), &r, &rcp); err != nil || !rcp.Recorded {
		t.Fatal(rcp, err)
	}
	return ans
}

// TestAnOutageKnowsWhatWasWrong: an old application costs nothing while the shared
// store is gone, either, as far as this instance has heard; what it has heard to be
// right, or to be from before a revocation, is guessed there as anywhere.
func TestAnOutageKnowsWhatWasWrong(t *testing.T) {
	for _, fault := range []keystest.Fault{keystest.NotDone, keystest.ReplyLost, keystest.TooLate} {
		o := newOutage(t, 1)
		const stale, found, changed, mistyped = 1, 2, 3, 4
		o.old(t, changed, keys.Failure)
		o.now++
		if _, err := o.Revoke(t.Context(), "revoked", o.now, keys.Day); err != nil {
			t.Fatal(err)
		}
		o.now++
		o.old(t, stale, keys.Failure)
		o.old(t, found, keys.UnknownAccount)
		o.old(t, found, keys.SecondFactorPending)
		o.primary.Set(fault)
		for password, repeat := range map[byte]bool{stale: true, found: false, changed: false} {
			if ans := o.old(t, password, keys.NotChecked); !ans.Degraded || ans.Repeat != repeat || ans.Limits[0].Took == repeat {
				t.Errorf("fault %v, password %d: %+v", fault, password, ans)
			}
		}
		// What is wrong in the outage is known in it, and owed to nobody.
		o.old(t, mistyped, keys.Failure)
		owed := o.Debts().Owed
		if ans := o.old(t, mistyped, keys.Failure); !ans.Repeat || !ans.Taken || ans.Limits[0].Took {
			t.Errorf("fault %v: in the outage: %+v", fault, ans)
		}
		if o.Debts().Owed != owed {
			t.Errorf("fault %v: an attempt that took nothing is owed", fault)
		}
	}
}

// TestARepeatOwesAndGetsNothing: whatever is reported of it,
// as much is left as before.
func TestARepeatOwesAndGetsNothing(t *testing.T) {
	o := newOutage(t, 1)
	o.old(t, 1, keys.Failure)
	left := o.left(t, o.shared)
	for _, outcome := range []keys.Outcome{keys.NotChecked, keys.Abandoned, keys.DeniedByPolicy, keys.Failure, keys.SecondFactorPending} {
		ans := o.old(t, 1, outcome)
		if !ans.Repeat || !ans.Let {
			t.Fatalf("%v: %+v", outcome, ans)
		}
		if now := o.left(t, o.shared); now != left {
			t.Errorf("%v: %d tokens, then %d", outcome, left, now)
		}
	}
	if ans := o.old(t, 1, keys.Failure); ans.Repeat {
		t.Error("what was right is a repeat")
	}
}

// TestWithoutRoomARepeatCostsWhatItDid: a twin that is full of accounts does not
// know further ones' passwords, and drops none of those that it knows.
func TestWithoutRoomARepeatCostsWhatItDid(t *testing.T) {
	now := 1_800_000_000 * keys.Second
	m := keys.NewMemory(keys.MemoryConfig{Buckets: 1 << 10, Marks: 8 * 64, Now: func() int64 { return now }}) // one account a shard
	o := newOutage(t, 1)
	tags := [2]keys.Tag{{1}, {2}}
	fail := func(i int) {
		var rcp keys.Receipt
		r := keys.Return{Outcome: keys.Failure, Stamp: now, Expires: now + keys.AttemptLifetime, OutcomeKey: fmt.Sprint("outcome ", i, now),
			WrongKey: fmt.Sprint("wrong ", i), Tags: tags}
		if err := m.Give(t.Context(), &r, &rcp); err != nil {
			t.Fatal(err)
		}
	}
	known := func(i int) bool {
		var ans keys.Answer
		a := keys.Ask{Rules: o.rules, Keys: []string{fmt.Sprint(i)}, Cost: 1, WrongKey: fmt.Sprint("wrong ", i), Tags: tags}
		if err := m.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
		if ans.Repeat == ans.Limits[0].Took {
			t.Fatalf("%+v", ans)
		}
		return ans.Repeat
	}
	const accounts = 1000
	first := map[int]bool{}
	for i := range accounts {
		fail(i)
		first[i] = known(i)
	}
	kept := 0
	for i := range accounts {
		if known(i) {
			kept++
		}
		if known(i) != first[i] {
			t.Errorf("account %d: known %v, and then %v", i, first[i], known(i))
		}
	}
	if kept < 32 || kept > 64 || m.Stats().Unkept == 0 {
		t.Errorf("%d are known: %+v", kept, m.Stats())
	}
	now += keys.WrongLifetime + 2*keys.Slack // those are forgotten: there is room again
	fail(accounts)
	if !known(accounts) {
		t.Error("there is no room a day later")
	}
}
