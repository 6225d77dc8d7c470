package keystest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// charges holds a Subject that is a keys.Charger to its contract.
func charges(t *testing.T, s Subject, names keys.Space) {
	charger, ok := s.(keys.Charger)
	if !ok {
		t.Skip("not a Charger")
	}
	limit := func(capacity, count int64, per time.Duration) keys.Limit {
		l, err := keys.NewLimit(capacity, count, per)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	tier := func(tier keys.Tier, role keys.Role, l ...keys.Limit) keys.TierSpec {
		spec := keys.TierSpec{Tier: tier, Role: role}
		for i, l := range l {
			spec.Limits = append(spec.Limits, keys.LimitSpec{Name: fmt.Sprint("l", i), Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}})
		}
		return spec
	}
	rules, err := keys.NewRules([]keys.TierSpec{
		tier(keys.TierAccount, 0, limit(10, 10, time.Hour), limit(100, 10, 24*time.Hour)),
		tier(keys.TierIP, keys.ScaleIP, limit(40, 20, time.Hour)),
		tier(keys.TierGlobal, keys.ScalePosture, limit(1000, 1000, time.Hour)),
	}, [4]keys.Effect{keys.High: {Divisor: 5}, keys.Critical: {Uncounted: true}}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	const now = 1_800_000_000 * keys.Second
	account := func(n int) []string {
		return []string{names.State() + fmt.Sprint(":a", n), names.State() + ":ip", names.State() + ":g"}
	}
	left := func(now int64, n int) (left []int64) {
		var ans keys.Answer
		a := keys.Ask{Now: now, Rules: rules, Keys: account(n), StateKey: names.State() + ":s", KKeys: [2]string{names.State() + ":k"}}
		if err := s.Take(t.Context(), &a, &ans); err != nil {
			t.Fatal(err)
		}
		for i := range ans.Limits {
			left = append(left, ans.Limits[i].Tokens())
		}
		return left
	}
	put := func(key string, value []byte) {
		if err := s.Put(t.Context(), names.State()+key, value, keys.Day); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		now     int64
		n       int
		mark    string
		tokens  []int64
		posture keys.Posture
		k       int64
		want    []int64
	}{
		{now, 0, "m0", []int64{3, 0, 2, 0}, 0, 1, []int64{7, 100, 38, 1000}},
		{now, 0, "m0", []int64{3, 0, 2, 0}, 0, 1, []int64{7, 100, 38, 1000}}, // a lost reply, sent again
		{now, 0, "m1", []int64{0, 5, 0, 1}, 0, 1, []int64{7, 95, 38, 999}},
		{now, 0, "m2", []int64{keys.MaxExact, keys.MaxExact, keys.MaxExact, keys.MaxExact}, 0, 1, []int64{0, 0, 0, 0}}, // no limit gives more than it has
		{now + 360*keys.Second, 0, "m3", []int64{1, 0, 0, 0}, 0, 1, []int64{0, 0, 2, 100}},                             // refill counts
		{now + 720*keys.Second, 1, "m4", []int64{0, 0, 1, 100}, keys.High, 2, []int64{10, 100, 7, 0}},                  // of 80 now: 2 of 40 are 4, and 4 come back, twice as fast
		{now + 720*keys.Second, 1, "m5", []int64{9, 0, 0, 1}, keys.Critical, 2, []int64{1, 100, 7, 0}},
	} {
		put(":s", keys.State{Pin: step.posture, PinUntil: now + keys.Day}.Encode())
		put(":k", keys.EncodeK(step.k, now+keys.Day))
		c := keys.Charge{Now: step.now, Rules: rules, Keys: account(step.n), StateKey: names.State() + ":s", KKeys: [2]string{names.State() + ":k"},
			Tokens: step.tokens, MarkKey: names.State() + ":" + step.mark}
		if err := charger.Charge(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if got := left(step.now, step.n); fmt.Sprint(got) != fmt.Sprint(step.want) {
			t.Errorf("step %d: left %v, want %v", i, got, step.want)
		}
	}
	once := keys.Charge{Rules: rules, Keys: account(2), Tokens: []int64{1, 0, 0, 0}, MarkKey: names.State() + ":once"}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := charger.Charge(t.Context(), &once); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := left(0, 2); got[0] != 9 {
		t.Errorf("a charge sent 20 times at once leaves %d of 10", got[0])
	}
	for name, spoil := range map[string]func(*keys.Charge){
		"no mark":            func(c *keys.Charge) { c.MarkKey = "" },
		"too few tokens":     func(c *keys.Charge) { c.Tokens = c.Tokens[:3] },
		"negative tokens":    func(c *keys.Charge) { c.Tokens = []int64{-1, 0, 0, 0} },
		"too few keys":       func(c *keys.Charge) { c.Keys = c.Keys[:2] },
		"no rules":           func(c *keys.Charge) { c.Rules = nil },
		"a time before time": func(c *keys.Charge) { c.Now = -1 },
	} {
		bad := once
		spoil(&bad)
		if err := charger.Charge(t.Context(), &bad); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
