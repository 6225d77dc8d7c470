package keystest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
)

// leases holds a Subject that is a keys.Leaser to its contract, beside what
// PlanWalk does.
func leases(t *testing.T, s Subject, names keys.Space) {
	leaser, ok := s.(keys.Leaser)
	if !ok {
		t.Skip("not a Leaser")
	}
	if _, gone := s.(Codeless); gone {
		if err := leaser.Lease(t.Context(), &keys.LeaseAsk{Rules: simple(t, 10, untilEmpty), Key: names.State(), Want: 1}, &keys.Leased{}); err == nil {
			t.Error("a store that is gone grants leases")
		}
		return
	}
	l, err := keys.NewLimit(100, 1, 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierPlan, Limits: []keys.LimitSpec{{Name: "r", Limit: l, Steps: untilEmpty}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		t.Fatal(err)
	}
	key := names.State() + ":leased"
	var mu sync.Mutex
	var all int64
	took := together(t, 30, func(i int) (bool, error) { // half of them lease, half take
		if i%2 == 0 {
			var out keys.Leased
			err := leaser.Lease(t.Context(), &keys.LeaseAsk{Rules: rules, Key: key, Want: 9}, &out)
			mu.Lock()
			defer mu.Unlock()
			all += out.Tokens
			return false, err
		}
		var ans keys.Answer
		err := s.Take(t.Context(), &keys.Ask{Rules: rules, Keys: []string{key}, Cost: 1}, &ans)
		return ans.Taken, err
	})
	if all += int64(took); all != 100 {
		t.Errorf("15 leases of 9 and 15 takes of 1 got %d tokens of 100", all)
	}
	for name, spoil := range map[string]func(*keys.LeaseAsk){
		"no rules":                 func(a *keys.LeaseAsk) { a.Rules = nil },
		"no key":                   func(a *keys.LeaseAsk) { a.Key = "" },
		"more needed than wanted":  func(a *keys.LeaseAsk) { a.Need = 2 },
		"nothing wanted":           func(a *keys.LeaseAsk) { a.Want = 0 },
		"less than nothing needed": func(a *keys.LeaseAsk) { a.Need = -1 },
		"more than is exact":       func(a *keys.LeaseAsk) { a.Want = keys.MaxExact + 1 },
		"a time before time":       func(a *keys.LeaseAsk) { a.Now = -1 },
		"rules of a device": func(a *keys.LeaseAsk) {
			a.Rules, _ = keys.NewRules([]keys.TierSpec{{Tier: keys.TierDevice, Role: keys.DeviceOwn, Limits: rules.Tiers()[0].Limits}}, [4]keys.Effect{}, keys.Pace{})
		},
	} {
		bad := keys.LeaseAsk{Rules: rules, Key: key, Want: 1}
		spoil(&bad)
		if err := leaser.Lease(t.Context(), &bad, &keys.Leased{}); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, last := s.(NeverLater); last {
		return
	}
	late := keys.LeaseAsk{Now: 1000, Deadline: 999, Rules: rules, Key: names.State() + ":late", Want: 9}
	if err := leaser.Lease(t.Context(), &late, &keys.Leased{}); !errors.Is(err, keys.ErrLate) {
		t.Errorf("after its deadline: %v", err)
	}
	late.Deadline = 0
	var out keys.Leased
	if err := leaser.Lease(t.Context(), &late, &out); err != nil || out.Left != 91*l.Period {
		t.Errorf("a lease that came too late was granted: %+v, %v", out, err)
	}
}
