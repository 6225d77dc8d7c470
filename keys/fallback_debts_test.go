package keys_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

// cluster is some instances over one store, by one clock that the test owns.
type cluster struct {
	now    int64
	shared *keys.Memory
	all    []*keys.Fallback
	fault  []*keystest.Faulty
	local  []*keys.Memory
	live   []*keys.Live
	rules  *keys.Rules
	key    string
}

func newCluster(t *testing.T, n int, l keys.Limit) *cluster {
	t.Helper()
	c := &cluster{now: 1_800_000_000 * keys.Second, key: "gd:{r/0}:victim"}
	clock := func() int64 { return c.now }
	c.shared = keys.NewMemory(keys.MemoryConfig{Now: clock})
	for range n {
		p := &keystest.Faulty{Subject: c.shared}
		local := keys.NewMemory(keys.MemoryConfig{Now: clock})
		c.fault, c.local = append(c.fault, p), append(c.local, local)
		b := keys.NewBreakers(keys.BreakersConfig{})
		c.all = append(c.all, keys.NewFallback(keys.FallbackConfig{Primary: p, Local: local, Instances: n, Breakers: b, Heart: true}))
		c.live = append(c.live, keys.NewLive(keys.LiveConfig{Store: written{p}, Breakers: b, Now: clock}))
	}
	var err error
	c.rules, err = keys.NewRules([]keys.TierSpec{{Tier: keys.TierPair, Limits: []keys.LimitSpec{
		{Name: "burst", Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) set(f keystest.Fault) {
	for _, p := range c.fault {
		p.Set(f)
	}
}

// written is a heart whose beats are writes of another kind.
type written struct{ *keystest.Faulty }

func (w written) Beat(ctx context.Context, _ string, _ [8]byte, _, ttl int64) (int64, error) {
	return 1, w.Put(ctx, "gd:{r/0}:beat", nil, ttl)
}

// loops does what every instance does all the time, in any order.
func (c *cluster) loops(r *rand.Rand) {
	for _, i := range r.Perm(len(c.all)) {
		_ = c.live[i].Beat(context.Background())
		c.all[i].Return(context.Background())
	}
}

// guess makes one guess at instance i and reports whether it was let through.
func (c *cluster) guess(t testing.TB, i int) bool {
	var ans keys.Answer
	if err := c.all[i].Take(context.Background(), &keys.Ask{Rules: c.rules, Keys: []string{c.key}, Cost: 1}, &ans); err != nil {
		t.Fatal(err)
	}
	return ans.Let
}

// greedy guesses at every instance, in any order, until all refuse.
func (c *cluster) greedy(t testing.TB, r *rand.Rand) (n int) {
	for _, i := range r.Perm(len(c.all)) {
		for c.guess(t, i) {
			n++
		}
	}
	return n
}

func minutes(n int64) int64 { return n * 60 * keys.Second }

func perTenMinutes(t *testing.T, n int64) keys.Limit {
	l, err := keys.NewLimit(n, n, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The bound of DESIGN 1, refill counted once: capacity + refill x time +
// max(limit, 3 x instances), to an attacker who guesses at all instances whenever
// anything is to be had, before, in and after an outage, whatever its form and
// however short. Between drops nobody but the instances' own loops runs.
func TestAnOutageIsWorthNoMoreThanItsBound(t *testing.T) {
	for name, fault := range faults {
		for _, n := range []int{1, 2, 4, 7} {
			for _, length := range []int64{1, 10, 60} {
				t.Run(fmt.Sprintf("%s, %d instances, %d min", name, n, length), func(t *testing.T) {
					for seed := range uint64(20) {
						c, r := newCluster(t, n, perTenMinutes(t, 10)), rand.New(rand.NewPCG(seed, 1))
						began := c.now
						let := 0
						if seed%2 == 0 { // at one instance: the others' twins know nothing of it
							for c.guess(t, 0) {
								let++
							}
						} else {
							let += c.greedy(t, r)
						}
						c.set(fault)
						for end := c.now + minutes(length); c.now < end; c.now += minutes(1) / 4 {
							let += c.greedy(t, r)
							for range 6 {
								c.loops(r)
							}
						}
						c.set(keystest.Healthy)
						for range 200 { // ten seconds
							c.now += keys.Second / 20
							for _, i := range r.Perm(n) { // whoever is first is guessed at before the others have moved
								_ = c.live[i].Beat(t.Context())
								for c.guess(t, i) {
									let++
								}
								c.all[i].Return(t.Context())
							}
						}
						bound := 10 + (c.now-began)/minutes(1) + max(10, 3*int64(n))
						if int64(let) > bound {
							t.Fatalf("seed %d: %d guesses, the bound is %d", seed, let, bound)
						}
						for i, f := range c.all {
							if st := f.Debts(); st.Owed != 0 {
								t.Errorf("instance %d still owes: %+v", i, st)
							}
						}
					}
				})
			}
		}
	}
}

// A lost reply charges nobody twice: what is owed is sent again under its mark.
func TestWhatIsOwedIsChargedOnceWhateverBecomesOfTheReply(t *testing.T) {
	for _, fault := range []keystest.Fault{keystest.NotDone, keystest.ReplyLost, keystest.TooLate} {
		c := newCluster(t, 1, perTenMinutes(t, 10))
		c.fault[0].Set(keystest.NotDone)
		for range 2 {
			c.guess(t, 0)
		}
		c.fault[0].Set(fault)
		for range 2 {
			if !c.all[0].Return(t.Context()) {
				t.Fatal("nothing is owed")
			}
		}
		c.fault[0].Set(keystest.Healthy)
		for range 40 {
			c.now += keys.Second / 4
			c.loops(rand.New(rand.NewPCG(0, 0)))
		}
		var ans keys.Answer
		if err := c.shared.Take(t.Context(), &keys.Ask{Rules: c.rules, Keys: []string{c.key}}, &ans); err != nil || ans.Limits[0].Tokens() != 8 {
			t.Errorf("fault %d: %d are left of 10, of which 2 were taken (%v)", fault, ans.Limits[0].Tokens(), err)
		}
	}
}

// A success in the outage owes nothing after it.
func TestASuccessTakesBackWhatItsAttemptOwes(t *testing.T) {
	o := newOutage(t, 2)
	o.primary.Set(keystest.NotDone)
	first, _ := o.take(t), o.take(t)
	if rcp := o.give(t, &first, keys.Success); rcp.Gave != 1 {
		t.Fatalf("%+v", rcp)
	}
	o.primary.Set(keystest.Healthy)
	for range 10 {
		o.Return(t.Context())
	}
	if n := o.left(t, o.shared); n != 19 {
		t.Errorf("%d are left of 20, of which one guess is owed", n)
	}
}

// A store that is back, and not yet told what was let through without it, calls
// buckets fuller than they are: the next drop must not grant that here once more.
func TestBucketsAreNotMirroredWhileDebtsAreUnpaid(t *testing.T) {
	o := newOutage(t, 1)
	drop := func(want int) {
		t.Helper()
		o.primary.Set(keystest.NotDone)
		let := 0
		for range 30 {
			if o.take(t).Let {
				let++
			}
		}
		if let != want {
			t.Errorf("a drop lets %d through, want %d", let, want)
		}
	}
	drop(20)
	if !o.Return(t.Context()) { // charged, and not heard
		t.Fatal("nothing is owed")
	}
	o.primary.Set(keystest.Healthy)
	o.now += keys.Second
	if ans := o.take(t); !ans.Let || ans.Degraded || ans.Limits[0].Tokens() != 19 {
		t.Fatalf("%+v", ans)
	}
	drop(0)
	o.primary.Set(keystest.Healthy)
	for o.Return(t.Context()) {
	}
	o.now += minutes(6) // two come back, there and here
	if o.take(t); o.left(t, o.local) != 1 {
		t.Errorf("%d are left here once nothing is owed, and %d there", o.left(t, o.local), o.left(t, o.shared))
	}
}

// A reload in an outage that adds a limit, or has them in another order, changes
// nothing about what the others are owed.
func TestDebtsOutliveAReload(t *testing.T) {
	daily, err := keys.NewLimit(100, 100, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for after := range 3 { // guesses in the outage under the new rules, behind 4 under the old
		for _, returned := range []bool{false, true} { // else the next ask pays
			c := newCluster(t, 1, perTenMinutes(t, 10))
			reloaded, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierPair, Limits: []keys.LimitSpec{
				{Name: "daily", Limit: daily, Steps: keys.NoSteps}, c.rules.Tiers()[0].Limits[0]}}}, [4]keys.Effect{}, keys.Pace{})
			if err != nil {
				t.Fatal(err)
			}
			c.set(keystest.NotDone)
			for range 4 {
				c.guess(t, 0)
			}
			c.rules = reloaded
			for range after {
				c.guess(t, 0)
			}
			c.set(keystest.Healthy)
			if err := c.live[0].Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			if returned {
				c.all[0].Return(t.Context())
			}
			var ans keys.Answer
			if err := c.all[0].Take(t.Context(), &keys.Ask{Rules: c.rules, Keys: []string{c.key}}, &ans); err != nil {
				t.Fatal(err)
			}
			for i, want := range []int{100 - after, 10 - 4 - after} {
				if n := ans.Limits[i].Tokens(); n != int64(want) {
					t.Errorf("%d guesses after the reload, returned %t: %d are left in limit %d, want %d", after, returned, n, i, want)
				}
			}
			if st := c.all[0].Debts(); st.Owed != 0 || st.Lost != 0 {
				t.Errorf("%d guesses after the reload, returned %t: %+v", after, returned, st)
			}
		}
	}
}

// What the share has refilled meanwhile is not owed any more, and a debt that
// is paid off by time is sent to nobody.
func TestDebtsArePaidOffByTime(t *testing.T) {
	for after, want := range map[int64]int64{minutes(1): 8, minutes(2): 9, minutes(60): 9} { // a token of the share takes two
		c := newCluster(t, 2, perTenMinutes(t, 10))
		c.fault[0].Set(keystest.NotDone)
		c.guess(t, 0)
		c.now += after
		c.fault[0].Set(keystest.Healthy)
		_ = c.live[0].Beat(t.Context())
		c.guess(t, 0)
		var ans keys.Answer
		if err := c.shared.Take(t.Context(), &keys.Ask{Rules: c.rules, Keys: []string{c.key}}, &ans); err != nil || ans.Limits[0].Tokens() != want {
			t.Errorf("after %d: %d are left of 10, want %d (%v)", after, ans.Limits[0].Tokens(), want, err)
		}
		if st := c.all[0].Debts(); st.Owed != 0 || st.Lost != 0 || st.Returned != uint64(9-want) {
			t.Errorf("after %d: %+v", after, st)
		}
	}
}

// A flood of names in an outage makes the ledger forget names of the flood, and
// no victim who has been guessed at more than once.
func TestTheLedgerIsBoundedAndKeepsVictims(t *testing.T) {
	c := newCluster(t, 1, perTenMinutes(t, 10))
	c.fault[0].Set(keystest.NotDone)
	for range 6 {
		c.guess(t, 0)
	}
	victim := c.key
	names := 70_000
	if testing.Short() {
		names = 66_500
	}
	for i := range names {
		c.key = fmt.Sprintf("gd:{r/0}:%d", i)
		c.guess(t, 0)
	}
	if st := c.all[0].Debts(); st.Owed > 1<<16+4096 || st.Lost == 0 {
		t.Errorf("%+v", st)
	}
	c.set(keystest.Healthy)
	for range 2400 {
		c.now += keys.Second / 100
		c.loops(rand.New(rand.NewPCG(0, 0)))
	}
	c.key = victim
	c.guess(t, 0)
	var ans keys.Answer
	if err := c.shared.Take(t.Context(), &keys.Ask{Rules: c.rules, Keys: []string{c.key}}, &ans); err != nil || ans.Limits[0].Tokens() > 4 {
		t.Errorf("%d are left of 10, of which 6 were taken in the outage (%v)", ans.Limits[0].Tokens(), err)
	}
}

func TestTheReturnEndsWithItsContext(t *testing.T) {
	defer goleak.VerifyNone(t)
	c := newCluster(t, 1, perTenMinutes(t, 10))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.all[0].Run(ctx) }()
	stop()
	<-done
}

// What an operator clears is neither granted less here in an outage, nor charged
// when it is over.
func TestAClearReachesTheTwinAndWhatIsOwed(t *testing.T) {
	o := newOutage(t, 2)
	o.primary.Set(keystest.NotDone)
	for range 5 {
		o.take(t)
	}
	owed := o.Debts().Owed
	if owed == 0 {
		t.Fatal("nothing is owed")
	}
	if err := o.ClearHere(t.Context(), []string{"another"}); err != nil || o.Debts().Owed != owed {
		t.Errorf("another's clear leaves %d debts of %d (%v)", o.Debts().Owed, owed, err)
	}
	if err := o.ClearHere(t.Context(), []string{"account"}); err != nil || o.Debts().Owed != 0 {
		t.Errorf("a clear leaves %d debts (%v)", o.Debts().Owed, err)
	}
	if left := o.left(t, o.local); left != 20 {
		t.Errorf("the twin has %d left", left)
	}
	// One that was sent and not answered goes out again as nothing.
	o.take(t)
	o.Return(t.Context())
	if _, err := o.shared.Clear(t.Context(), []string{"account"}); err != nil {
		t.Fatal(err)
	}
	if err := o.ClearHere(t.Context(), []string{"account"}); err != nil {
		t.Fatal(err)
	}
	o.primary.Set(keystest.Healthy)
	for o.Return(t.Context()) {
	}
	if left := o.left(t, o.shared); left != 20 || o.Debts().Owed != 0 {
		t.Errorf("afterwards the shared store has %d left, and is owed %d", left, o.Debts().Owed)
	}
}
