package escalation

import (
	"time"

	"github.com/guardd/guardd/keys"
)

// The names of tiers and limits in a policy. A row is one of defaultTable's.
const (
	nameBurst     = "burst"
	nameSustained = "sustained"
	nameShared    = "shared"
)

// DefaultPolicy returns the default table for realm "default", validated.
func DefaultPolicy() *Policy {
	p := &Policy{}
	if err := p.Validate(); err != nil {
		panic("escalation: the default policy is not valid: " + err.Error())
	}
	return p
}

// defaultTable is the login policy where nothing else is said, in policy
// order. The numbers come from simulation; every one can be configured.
func defaultTable() []Limit {
	const m, h, d = time.Minute, time.Hour, 24 * time.Hour
	never, empty := PercentOf(keys.Never), PercentOf(keys.Empty)
	at := func(percent int) Percent { return PercentOf(keys.Threshold(percent * 100)) }
	n := func(n int64) *int64 { return &n }
	return []Limit{
		{Tier: "pair", Name: nameBurst, Capacity: n(10), Refill: RefillOf(10, 10*m), Delay: at(70), Captcha: at(50), Verify: empty},
		{Tier: "pair", Name: nameSustained, Capacity: n(20), Refill: RefillOf(5, d), Delay: never, Captcha: at(50), Verify: empty},
		{Tier: "account", Name: nameBurst, Capacity: n(20), Refill: RefillOf(20, h), Delay: at(60), Captcha: at(50), Verify: empty},
		{Tier: "account", Name: nameSustained, Capacity: n(100), Refill: RefillOf(10, d), Delay: never, Captcha: at(60), Verify: empty},
		{Tier: "ip", Name: nameBurst, Capacity: n(40), Refill: RefillOf(20, 10*m), Delay: at(60), Captcha: at(50), Verify: empty},
		{Tier: "ip", Name: nameSustained, Capacity: n(200), Refill: RefillOf(100, d), Delay: never, Captcha: at(50), Verify: empty},
		{Tier: "network", Name: nameBurst},     // networkTimes x ip
		{Tier: "network", Name: nameSustained}, // networkTimes x ip
		{Tier: "global", Name: nameBurst, Delay: never, Captcha: at(20), Verify: never},
		{Tier: "device", Name: nameBurst, Capacity: n(10), Refill: RefillOf(10, h)},
		{Tier: "device", Name: nameSustained, Capacity: n(30), Refill: RefillOf(10, d)},
		{Tier: "device", Name: nameShared, Capacity: n(60), Refill: RefillOf(30, h)},
		{Tier: "flood", Name: nameBurst, Capacity: n(300), Refill: RefillOf(300, m), Captcha: empty},
	}
}

// networkTimes is how many addresses' worth an IPv6 /48 holds: one site has
// many /64s, and few of them guess.
const networkTimes = 8

func defaultDelay() Delay {
	return Delay{Base: DurationOf(time.Second), Max: DurationOf(30 * time.Second)}
}

func defaultPostures() map[string]*Effect {
	return map[string]*Effect{
		"elevated": {Divisor: 2},
		"high":     {Divisor: 5, Floor: "delay"},
		"critical": {Floor: "captcha", Uncounted: true},
	}
}
