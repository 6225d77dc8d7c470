package keys

import "fmt"

// Rung is a step of the ladder: what an attempt must bring to be let through.
// Higher is stricter. The store must know the rungs because a refused attempt
// takes nothing: whether to take is part of the same atomic step as how much
// is left.
type Rung uint8

// The rungs, in rising order.
const (
	Allow   Rung = iota // nothing more is asked
	Delay               // a wait that has passed
	Captcha             // a solved challenge
	Verify              // a confirmed code: ownership of the account
)

var rungNames = [...]string{"allow", "delay", "captcha", "verify"}

// String returns the rung's JSON name.
func (r Rung) String() string {
	if int(r) < len(rungNames) {
		return rungNames[r]
	}
	return fmt.Sprintf("rung(%d)", uint8(r))
}

// ParseRung is the inverse of String; the error names the accepted words.
func ParseRung(s string) (Rung, error) {
	for i, n := range rungNames {
		if s == n {
			return Rung(i), nil
		}
	}
	return 0, fmt.Errorf("rung %q is not one of allow, delay, captcha, verify", s)
}

// Posture is how alarmed a realm is. The zero value is Normal.
type Posture uint8

// The postures, in rising order.
const (
	Normal Posture = iota
	Elevated
	High
	Critical
)

var postureNames = [...]string{"normal", "elevated", "high", "critical"}

// String returns the posture's JSON name.
func (p Posture) String() string {
	if int(p) < len(postureNames) {
		return postureNames[p]
	}
	return fmt.Sprintf("posture(%d)", uint8(p))
}

// ParsePosture is the inverse of String; the error names the accepted words.
func ParsePosture(s string) (Posture, error) {
	for i, n := range postureNames {
		if s == n {
			return Posture(i), nil
		}
	}
	return 0, fmt.Errorf("posture %q is not one of normal, elevated, high, critical", s)
}

// Tier is what a bucket counts by.
type Tier uint8

// The tiers. TierDevices is the bucket that all known devices of one account
// share; it is reported as limit "shared" of tier "device".
const (
	TierPair    Tier = iota // address + account
	TierAccount             // account
	TierIP                  // IPv4 address or IPv6 /64
	TierNetwork             // IPv6 /48
	TierGlobal              // everything in the realm and flow
	TierDevice              // one known device of one account
	TierDevices             // all known devices of one account
	TierFlood               // requests (not guesses) of one address, in memory only
	TierPlan                // an API plan key
)

var tierNames = [...]string{"pair", "account", "ip", "network", "global", "device", "device", "flood", "plan"}

// String returns the tier's JSON name.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("tier(%d)", uint8(t))
}
