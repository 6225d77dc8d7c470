package escalation

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/guardd/guardd/keys"
)

// flood is the guard in front of the store: a bucket of requests (not guesses)
// per address in this instance's memory, so that a flood is answered without
// a call to the store. What it asks for is a captcha, never more.
type flood struct {
	buckets *keys.Memory // of addresses
	// credentials are the buckets of proofs and devices: a million addresses a
	// minute fill the other memory, and then newcomers share counts there that are
	// used up. Each of these was a picture that was read, a code, or a sign-in.
	credentials *keys.Memory
	own         *keys.Rules // of whoever shows a proof or a device
}

// floodRules are a flow's flood limits, at this instance's share as instances
// come and go.
type floodRules struct {
	whole *keys.Rules
	live  func() int
	now   atomic.Pointer[floodShare]
}

type floodShare struct {
	instances int
	rules     *keys.Rules
}

func (f *floodRules) share() *keys.Rules {
	n := max(f.live(), 1)
	s := f.now.Load()
	if s == nil || s.instances != n {
		s = &floodShare{n, f.whole.WithShare(int64(n))}
		f.now.Store(s)
	}
	return s.rules
}

// ownPerMinute is how many requests a minute one proof or device has to itself,
// however hard strangers behind the same address press.
const ownPerMinute = 60

// newFlood remembers so many addresses (0: keys.DefaultBuckets), and an eighth as
// many credentials.
func newFlood(addresses int) (*flood, error) {
	l, err := keys.NewLimit(ownPerMinute, ownPerMinute, 60e9)
	if err != nil {
		return nil, err
	}
	own, err := keys.NewRules([]keys.TierSpec{{Tier: keys.TierFlood, Limits: []keys.LimitSpec{{
		Name: nameBurst, Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Empty, Verify: keys.Never},
	}}}}, [4]keys.Effect{}, keys.Pace{})
	if err != nil {
		return nil, err
	}
	if addresses <= 0 {
		addresses = keys.DefaultBuckets
	}
	return &flood{
		buckets:     keys.NewMemory(keys.MemoryConfig{Buckets: addresses}),
		credentials: keys.NewMemory(keys.MemoryConfig{Buckets: max(addresses/8, 1)}),
		own:         own,
	}, nil
}

// pass takes one request. ok is false when it is to be answered with a captcha
// at once. floor is the least rung of one that passes: whoever shows something
// of his own (credentials) passes a flooded address, and the flood then counts
// in the store's decision.
func (f *flood) pass(ctx context.Context, v *visit, credentials []string, now int64) (floor keys.Rung, ok bool, err error) {
	limits := v.realm.floods[v.scope.flow]
	if limits == nil || v.listed == allowed {
		return keys.Allow, true, nil
	}
	rules := limits.share()
	own := false
	for _, c := range credentials {
		if own, err = f.take(ctx, f.credentials, v.realm.here.Proof(c), now); err != nil {
			return keys.Allow, false, err
		}
		if own {
			break
		}
	}
	here := v.names.In(v.realm.here)
	ask := keys.Ask{Now: now, Rules: rules, Keys: []string{here.IP(v.flowName)}, Cost: 1}
	ask.KKeys[0] = here.K()
	if own {
		ask.Cost = 0 // only look
	}
	var ans keys.Answer
	if err = f.buckets.Take(ctx, &ask, &ans); err != nil {
		return keys.Allow, false, err
	}
	v.floodK = ans.K[0]
	if ans.Needed == keys.Allow {
		return keys.Allow, true, nil
	}
	return keys.Captcha, own, nil
}

// few takes one of what an address may have ownPerMinute times a minute from this
// instance.
func (f *flood) few(ctx context.Context, key string, now int64) (bool, error) {
	return f.take(ctx, f.buckets, key, now)
}

func (f *flood) take(ctx context.Context, m *keys.Memory, key string, now int64) (bool, error) {
	var ans keys.Answer
	err := m.Take(ctx, &keys.Ask{Now: now, Rules: f.own, Keys: []string{key}, Cost: 1}, &ans)
	return ans.Needed == keys.Allow, err
}

// learn keeps the size of an address that the store last told, so that an
// office is not one person here either. There being no room for it only means
// that k stays 1.
func (f *flood) learn(ctx context.Context, v *visit, k, now int64) {
	if v.floodK != 0 && v.floodK != k {
		_ = f.buckets.Put(ctx, v.realm.here.K(v.ip.Counted()), keys.EncodeK(k, now+keys.Day), keys.Day)
	}
}

// all adds up what of each memory says.
func (f *flood) all(of func(*keys.Memory) (int, error)) (int, error) {
	a, err := of(f.buckets)
	b, more := of(f.credentials)
	return a + b, errors.Join(err, more)
}
