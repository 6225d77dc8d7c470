package sim

import (
	"fmt"
	"slices"
)

// Mix is what cold failures look like: the share of each that ...
type Mix struct {
	Unknown    float64 // ... is of an account that does not exist
	NewNetwork float64 // ... is from a network not seen for 14 days
	Breached   float64 // ... has a password that has leaked
	NewAccount float64 // ... is the account's first for a day
	UA         map[string]float64
}

var (
	honestMix = Mix{HonestUnknown, HonestNewNetwork, HonestBreached, HonestNewAccount, HonestUA}
	scanMix   = Mix{ScanUnknown, ScanNewNetwork, ScanBreached, ScanNewAccount, ScanUA}
	stuffing  = Mix{StuffingUnknown, StuffingNewNetwork, StuffingBreached, StuffingNewAccount, stuffingUA(StuffingUA)}
)

// stuffingUA is one user agent of the attacker's, and honest ones copied for the rest.
func stuffingUA(share float64) map[string]float64 {
	m := map[string]float64{}
	for c, p := range HonestUA {
		m[c] = p * (1 - share)
	}
	m["chrome"] += share
	return m
}

// Attack is a named attack as counts: how much of what.
type Attack struct {
	Name string
	// PerMinute is its guesses, at a site of so many honest attempts a minute.
	PerMinute func(honest float64) float64
	Mix       Mix
	Success   float64 // share of its guesses that are right
	// OwnEvery: after so many guesses a sign-in with an account of its own.
	OwnEvery int
	// On and Off are minutes; zero: all the time.
	On, Off float64
}

// Attacks are the named ones.
var Attacks = []Attack{
	{Name: "hammer", PerMinute: always(HammerPerMinute), Mix: Mix{0, 0.01, 0.5, 0.01, only("script")}},
	{Name: "botnet-one-account", PerMinute: always(BotnetPerMinute), Mix: Mix{0, StuffingNewNetwork, StuffingBreached, 0.01, stuffing.UA}},
	{Name: "stuffing-8000x4", PerMinute: always(StuffingSources * StuffingPerHour / 60), Mix: stuffing, Success: StuffingSuccess},
	{Name: "spray-common-password", PerMinute: always(SprayPerMinute), Success: SpraySuccess,
		Mix: Mix{0.1, StuffingNewNetwork, 1, StuffingNewAccount, stuffing.UA}},
	{Name: "low-and-slow", PerMinute: share(SlowShare), Mix: stuffing, Success: StuffingSuccess},
	{Name: "interleaved-success", PerMinute: always(HammerPerMinute), Mix: Mix{0, 0.05, 0.9, 0.05, only("chrome")}, OwnEvery: CanaryEvery},
	{Name: "hoarded-success", PerMinute: always(HammerPerMinute), Mix: Mix{0, 0.05, 0.9, 0.05, only("chrome")}, OwnEvery: CanaryEvery},
	{Name: "ipv6-rotation", PerMinute: always(RotationPerMinute), Success: StuffingSuccess,
		Mix: Mix{StuffingUnknown, 0.001, StuffingBreached, StuffingNewAccount, stuffing.UA}},
	{Name: "lockout-attack", PerMinute: always(LockoutAccounts * LockoutPerMinute), Mix: Mix{0, StuffingNewNetwork, 0, 0.01, only("script")}},
	{Name: "canary", PerMinute: always(StuffingSources * StuffingPerHour / 60), Mix: stuffing, Success: StuffingSuccess, OwnEvery: CanaryEvery},
	{Name: "on-off", PerMinute: always(StuffingSources * StuffingPerHour / 60), Mix: stuffing, Success: StuffingSuccess, On: OnMinutes, Off: OffMinutes},
}

// AttackNamed finds one.
func AttackNamed(name string) (Attack, error) {
	i := slices.IndexFunc(Attacks, func(a Attack) bool { return a.Name == name })
	if i < 0 {
		return Attack{}, fmt.Errorf("there is no attack %q", name)
	}
	return Attacks[i], nil
}

// At returns the attack with guesses of that share of honest attempts.
func (a Attack) At(volume float64) Attack {
	a.PerMinute = share(volume)
	return a
}

// rate is guesses a minute, so long after the start.
func (a *Attack) rate(honest float64, since int64) float64 {
	if a.On > 0 && float64(since%int64((a.On+a.Off)*minute)) >= a.On*minute {
		return 0
	}
	return a.PerMinute(honest)
}

func always(n float64) func(float64) float64 { return func(float64) float64 { return n } }
func share(x float64) func(float64) float64 {
	return func(honest float64) float64 { return x * honest }
}
func only(ua string) map[string]float64 { return map[string]float64{ua: 1} }
