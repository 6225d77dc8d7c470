package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// visitor is who tries to sign in: one account from one address.
type visitor struct{ account, ip string }

// visitors makes n of them, no two alike in account or address. from keeps
// several populations apart.
func visitors(from, n int) []visitor {
	vs := make([]visitor, n)
	for i := range vs {
		k := from + i
		vs[i] = visitor{fmt.Sprintf("user%07d@example.com", k), address(k)}
	}
	return vs
}

func address(k int) string {
	return netip.AddrFrom4([4]byte{byte(11 + k>>24&31), byte(k >> 16), byte(k >> 8), byte(k)}).String()
}

// tap is a Store that keeps what the guard asks, and answers nothing.
type tap struct {
	keys.Store
	asks []*keys.Ask
}

func (t *tap) Take(_ context.Context, a *keys.Ask, _ *keys.Answer) error {
	t.asks = append(t.asks, a)
	return errRecorded
}

// asker makes the asks of real guards, one of them in shadow (which takes
// whatever the answer is: for emptying buckets), that share all secrets.
type asker struct {
	tap, shadowTap *tap
	guard, shadow  *escalation.Guard
}

func newAsker() (*asker, error) {
	secrets, err := escalation.GenerateSecrets()
	if err != nil {
		return nil, err
	}
	a := &asker{tap: &tap{}, shadowTap: &tap{}}
	twin := keys.NewMemory(keys.MemoryConfig{})
	c := escalation.Config{Records: twin, Tallies: twin, Codes: twin, Policy: escalation.DefaultPolicy(), Secrets: secrets}
	c.Store = a.tap
	if a.guard, err = escalation.New(c); err != nil {
		return nil, err
	}
	c.Store, c.Shadow, c.Policy = a.shadowTap, true, escalation.DefaultPolicy()
	a.shadow, err = escalation.New(c)
	return a, err
}

// asks are what the guard asks its store when these visitors come, each once.
func (a *asker) asks(vs []visitor, shadow bool) ([]*keys.Ask, error) {
	g, t := a.guard, a.tap
	if shadow {
		g, t = a.shadow, a.shadowTap
	}
	t.asks = nil
	for _, v := range vs {
		_, err := g.Check(context.Background(), &escalation.Attempt{Account: v.account, IP: v.ip})
		if !errors.Is(err, errRecorded) {
			return nil, fmt.Errorf("%s from %s was answered without the store: %w", v.account, v.ip, err)
		}
	}
	return t.asks, nil
}

// contents says in words what one ask of the default policy holds.
func contents(a *keys.Ask) string {
	s := ""
	for i, t := range a.Rules.Tiers() {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("%s (%d)", t.Tier, len(t.Limits))
	}
	marks := 0
	for _, k := range []string{a.StateKey, a.SuspectKeys[0], a.SuspectKeys[1], a.KKeys[0], a.KKeys[1], a.RevokedKey, a.PlaceKey} {
		if k != "" {
			marks++
		}
	}
	return fmt.Sprintf("tiers (limits): %s; %d marks are read besides", s, marks)
}

// plenty is the rules of one bucket that never runs out.
func plenty() (*keys.Rules, error) {
	l, err := keys.NewLimit(1_000_000_000, 1_000_000_000, time.Hour)
	if err != nil {
		return nil, err
	}
	return keys.NewRules([]keys.TierSpec{{Tier: keys.TierIP, Limits: []keys.LimitSpec{
		{Name: "burst", Limit: l, Steps: keys.Steps{Delay: keys.Never, Captcha: keys.Never, Verify: keys.Empty}},
	}}}, [4]keys.Effect{}, keys.Pace{})
}
