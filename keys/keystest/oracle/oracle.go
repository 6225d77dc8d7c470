// Package oracle says what a store of package keys must answer, by another
// way: it was written from the design page, not from the code, computes in big
// rationals, keeps everything in plain maps, and imports nothing of keys. What
// it does not know: the share of a degraded instance, and bounds on memory.
package oracle

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
)

// Thresholds are ten-thousandths of the capacity, or one of these.
const (
	Never = -1
	Empty = -2
)

// Rungs.
const (
	Allow = iota
	Delay
	Captcha
	Verify
)

// Lifetimes in microseconds, from the design page.
const (
	second  = 1_000_000
	day     = 24 * 3600 * second
	kept    = 30 * day // a limit that nobody here knows
	maxK    = 40
	exact   = 1 << 53
	divisor = 64
)

// Limit is capacity tokens, refilled by Count tokens per Period microseconds.
type Limit struct{ Capacity, Count, Period int64 }

// LimitSpec is a limit and where each rung begins.
type LimitSpec struct {
	Name                   string
	Limit                  Limit
	Delay, Captcha, Verify int
}

// Tier is one bucket of an attempt.
type Tier struct {
	Kind                                     string
	SkipFamiliar, ByIP, ByNetwork, ByPosture bool
	OwnDevice, SharedDevice                  bool
	Limits                                   []LimitSpec
}

// Effect is what a posture does.
type Effect struct {
	Floor     int
	Divisor   int64
	Uncounted bool
}

// Rules are the limits of one kind of attempt.
type Rules struct {
	Tiers     []Tier
	Effects   [4]Effect
	Base, Max int64 // wait
}

// Ask is one attempt.
type Ask struct {
	Now, Deadline  int64
	Rules          *Rules
	Keys           []string
	Cost           int64
	Floor          int
	Shadow         bool
	ID             [16]byte
	State          string
	Suspects       [3]string
	K              [2]string
	Revoked, Place string
	Device         Device
	Proof          Proof
	RequestKey     string
	Body           [16]byte
	// Wrong is where the account's wrong passwords are, "" for none; Tags is the
	// password as today's and yesterday's key have it.
	Wrong string
	Tags  [2]string
}

// Device is a known device's claim; Issued 0 is none.
type Device struct{ Issued, Expires int64 }

// Proof is a proof's claim; Key "" is none.
type Proof struct {
	Key                                    string
	Rung                                   int
	Wait, Issued, NotBefore, Expires, Uses int64
}

// Answer is what the store must say.
type Answer struct {
	Status               string // decided, late, conflict, impossible
	Now                  int64
	Let, Taken, Replayed bool
	Repeat               bool
	Needed               int
	Wait                 int64
	ByPosture, BySuspect bool
	ByFlood              bool
	Posture              int
	Baseline             Limit
	K                    [2]int64
	Device               string // none, known, spent, invalid
	Familiar             bool
	Revoked              int64
	Proof                string // none, used, expired, spent, too_early, insufficient, invalid
	ID                   [16]byte
	Limits               []LimitAnswer
}

// LimitAnswer is one limit after the decision.
type LimitAnswer struct {
	Tier, Index  int
	Looked, Took bool
	Rung         int
	Limit        Limit
	Left         int64 // units

	counted bool
}

// State is a realm's posture and baseline.
type State struct {
	Posture  int
	Until    int64
	Pin      int
	PinUntil int64
	Baseline Limit
}

type cell struct {
	spent *big.Int // units
	units *big.Int
	at    int64 // when it was counted
}

type bucket struct {
	stamp    int64
	distrust bool
	cells    map[string]cell
}

// mistake is a password that was wrong.
type mistake struct {
	tag string
	at  int64 // the last attempt with it
}

type kUntil struct{ k, until int64 }

type first struct {
	body   [16]byte
	until  int64
	shape  string
	answer Answer
}

// World is everything that a store holds.
type World struct {
	// Kept counts the takes from a limit that a bucket had kept while it was
	// written by who did not know it.
	Kept int
	// Forgotten counts the wrong passwords that others pushed out, Undone the
	// repeats that were none because of a revocation.
	Forgotten, Undone int

	buckets  map[string]*bucket
	states   map[string]State
	suspects map[string]int64
	ks       map[string]kUntil
	revoked  map[string]int64
	places   map[string]int64
	proofs   map[string]int64
	requests map[string]first
	outcomes map[string]string
	failures map[string][]int64
	mistakes map[string][]mistake // the last to be told of first
}

// New returns an empty world.
func New() *World {
	return &World{0, 0, 0, map[string]*bucket{}, map[string]State{}, map[string]int64{}, map[string]kUntil{}, map[string]int64{},
		map[string]int64{}, map[string]int64{}, map[string]first{}, map[string]string{}, map[string][]int64{}, map[string][]mistake{}}
}

// Lose removes whatever is under key.
func (w *World) Lose(key string) {
	delete(w.buckets, key)
	delete(w.states, key)
	delete(w.suspects, key)
	delete(w.ks, key)
	delete(w.revoked, key)
	delete(w.places, key)
	delete(w.proofs, key)
	delete(w.requests, key)
	delete(w.outcomes, key)
	delete(w.failures, key)
	delete(w.mistakes, key)
}

// SetState, SetSuspect, SetK and Revoke are what others write.
func (w *World) SetState(key string, s State) { w.states[key] = s }

// SetSuspect marks a network until then.
func (w *World) SetSuspect(key string, until int64) { w.suspects[key] = until }

// SetK sets the learned size of an address until then.
func (w *World) SetK(key string, k, until int64) { w.ks[key] = kUntil{k, until} }

// Revoke stamps an account.
func (w *World) Revoke(key string, now int64) int64 {
	if was, ok := w.revoked[key]; ok && was >= now {
		now = was + 1
	}
	w.revoked[key] = now
	return w.revoked[key]
}

func num(n int64) *big.Int { return big.NewInt(n) }

func tokens(units, period int64) *big.Rat { return big.NewRat(units, period) }

func whole(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() } // towards minus infinity

func (l Limit) units() *big.Int { return new(big.Int).Mul(num(l.Capacity), num(l.Period)) }

// toFull is the time from empty to full, exactly.
func (l Limit) toFull() *big.Rat {
	return new(big.Rat).SetFrac(l.units(), num(l.Count))
}

// fits reports whether nothing a bucket of l can reach leaves the exact range.
func (l Limit) fits(most int64) bool {
	return l.Capacity >= 1 && l.Count >= 1 && l.Period >= 1 && l.Count <= most &&
		l.units().Cmp(num(most)) <= 0 && new(big.Int).Add(l.units(), num(l.Count)).Cmp(num(exact)) <= 0
}

// Diff says in what b differs from a, "" for nothing.
func (a Answer) Diff(b Answer) string {
	var d []string
	if len(a.Limits) != len(b.Limits) {
		d = append(d, fmt.Sprintf("%d limits, not %d", len(b.Limits), len(a.Limits)))
	}
	for i := range min(len(a.Limits), len(b.Limits)) {
		x, y := a.Limits[i], b.Limits[i]
		if x.counted = y.counted; x != y {
			d = append(d, fmt.Sprintf("limit %+v, not %+v", y, x))
		}
	}
	a.Limits, b.Limits = nil, nil
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		if x, y := va.Field(i).Interface(), vb.Field(i).Interface(); !reflect.DeepEqual(x, y) {
			d = append(d, fmt.Sprintf("%s %v, not %v", va.Type().Field(i).Name, y, x))
		}
	}
	return strings.Join(d, "\n")
}
