package keys

import (
	"errors"
	"fmt"
	"hash/fnv"
)

// Role says how a tier takes part in the decision.
type Role uint8

const (
	// SkipFamiliar: not looked at from a place where the account has signed in.
	// It goes with any one of the Scale roles; of the others a tier has at most
	// one.
	SkipFamiliar Role = 1 << iota
	// ScaleIP: every limit is multiplied by the learned size of the address.
	ScaleIP
	// ScaleNetwork: the same for the wider network of the address.
	ScaleNetwork
	// ScalePosture: the tier tightens with the posture, is not counted where
	// the posture's Effect says so, and its first limit is replaced by the
	// realm's learned baseline when there is one. A zero limit with this role
	// is not looked at until there is.
	ScalePosture
	// DeviceOwn: the known device's own bucket. It stands instead of all
	// tiers without a device role. When one of its limits is empty, the
	// device counts for nothing until all of them are full again.
	DeviceOwn
	// DeviceShared: the bucket shared by all known devices of the account.
	// While one of its limits is empty, no known device counts.
	DeviceShared
)

const deviceRoles = DeviceOwn | DeviceShared

// Bounds on Rules, so that a decision needs no allocation and a script no loop
// without end.
const (
	MaxTiers   = 16 // tiers of one Ask
	MaxLimits  = 16 // limits of one tier
	MaxK       = 40 // learned size of a shared address
	MaxDivisor = 64 // how far a posture tightens
)

// LimitSpec is one limit of a tier and where it leads.
type LimitSpec struct {
	Name string // "burst", "sustained", "shared", or a plan rule's name
	Limit
	Steps
	id uint32
}

// ID is the limit's name as stored in a bucket: 32-bit FNV-1a, never 0. Limits
// are matched by it, so that adding or removing one leaves the others' spent
// alone.
func (l *LimitSpec) ID() uint32 { return l.id }

// TierSpec is one tier: the limits that share one stored key.
type TierSpec struct {
	Tier   Tier
	Role   Role
	Limits []LimitSpec
}

// Effect is what a posture does. The zero value does nothing.
type Effect struct {
	// Floor is the least rung of unknown devices in unfamiliar places.
	Floor Rung
	// Divisor tightens tiers with ScalePosture; 0 and 1 leave them alone.
	Divisor int64
	// Uncounted leaves tiers with ScalePosture out altogether.
	Uncounted bool
}

// Pace is the wait of the delay rung: Base x 2^n up to Max, in microseconds.
type Pace struct{ Base, Max int64 }

// Wait returns the wait for n whole tokens below the threshold.
func (p Pace) Wait(n int64) int64 {
	w := p.Base
	for ; n > 0 && w > 0 && w < p.Max; n-- {
		w *= 2
	}
	return min(w, p.Max)
}

// Rules are the compiled, immutable limits of one kind of attempt. They are
// made once per policy and shared by all goroutines.
type Rules struct {
	tiers   []TierSpec
	limits  int
	effects [4]Effect
	pace    Pace
	share   int64
	shards  []int64 // of each tier; nil: 1
	shape   uint32
	wire    wire
}

// NewRules checks and compiles. The errors name tier and limit.
func NewRules(tiers []TierSpec, effects [4]Effect, pace Pace) (*Rules, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(tiers) == 0 || len(tiers) > MaxTiers {
		bad("between 1 and %d tiers are needed, not %d", MaxTiers, len(tiers))
	}
	if pace.Base < 0 || pace.Max < pace.Base || pace.Max > MaxExact/4 {
		bad("delay: base must be from 0 to max")
	}
	r := &Rules{effects: effects, pace: pace, share: 1}
	for p := range r.effects {
		e := &r.effects[p]
		if e.Divisor < 0 || e.Divisor > MaxDivisor {
			bad("posture %s: divisor must be from 1 to %d", Posture(p), MaxDivisor)
		}
		e.Divisor = max(e.Divisor, 1)
	}
	for p := range r.effects {
		if r.effects[p].Floor > Verify {
			bad("posture %s: there is no such floor", Posture(p))
		}
	}
	for _, t := range tiers {
		t.Limits = append([]LimitSpec(nil), t.Limits...)
		if len(t.Limits) == 0 || len(t.Limits) > MaxLimits {
			bad("%s: between 1 and %d limits are needed, not %d", t.Tier, MaxLimits, len(t.Limits))
		}
		if other := t.Role &^ SkipFamiliar; other&(other-1) != 0 || t.Role&deviceRoles != 0 && t.Role&SkipFamiliar != 0 {
			bad("%s: its roles do not go together", t.Tier)
		}
		for i := range t.Limits {
			l := &t.Limits[i]
			l.id = limitID(l.Name)
			if r.has(t.Tier, l.id) || hasLimit(t.Limits[:i], l.id) {
				bad("%s.%s: two limits of this name (or one that stores alike)", t.Tier, l.Name)
			}
			if err := l.check(t.Role, &r.effects); err != nil {
				bad("%s.%s: %w", t.Tier, l.Name, err)
			}
		}
		r.limits += len(t.Limits)
		r.tiers = append(r.tiers, t)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.shape = shapeOf(r.tiers)
	r.wire = packRules(r)
	return r, nil
}

// check finds numbers that could leave the exact range under any k or posture.
func (l *LimitSpec) check(role Role, effects *[4]Effect) error {
	for _, s := range []Threshold{l.Delay, l.Captcha, l.Verify} {
		if s > thresholdScale && s < Empty {
			return errors.New("a threshold is above 100 %")
		}
	}
	if role&ScalePosture != 0 && l.Zero() {
		return nil // waits for a baseline
	}
	if !l.Exact() {
		return ErrInexact
	}
	if role&(ScaleIP|ScaleNetwork) != 0 && !l.Times(MaxK).Exact() {
		return ErrInexact
	}
	for _, e := range effects {
		if role&ScalePosture != 0 && !l.Tighten(e.Divisor).Exact() {
			return ErrInexact
		}
	}
	return nil
}

// has reports whether a tier of this kind already counts a limit of this name:
// then nobody could say which of them an attempt took from.
func (r *Rules) has(t Tier, id uint32) bool {
	for i := range r.tiers {
		if r.tiers[i].Tier == t && hasLimit(r.tiers[i].Limits, id) {
			return true
		}
	}
	return false
}

func hasLimit(limits []LimitSpec, id uint32) bool {
	for i := range limits {
		if limits[i].id == id {
			return true
		}
	}
	return false
}

// shapeOf fingerprints which limits there are, in which order, whatever their
// numbers.
func shapeOf(tiers []TierSpec) uint32 {
	h := fnv.New32a()
	for _, t := range tiers {
		fmt.Fprintf(h, "%d:", t.Tier)
		for _, l := range t.Limits {
			fmt.Fprintf(h, "%d,", l.id)
		}
	}
	return h.Sum32()
}

// Shape fingerprints which limits there are, in which order, whatever their
// numbers. The answer kept for a request id carries it: a repeat under rules of
// another shape (a reload came between) cannot be mapped onto limits.
func (r *Rules) Shape() uint32 { return r.shape }

// Tiers returns the tiers in order. The caller must not change them.
func (r *Rules) Tiers() []TierSpec { return r.tiers }

// LimitCount is the number of limits over all tiers: the length of
// Answer.Limits.
func (r *Rules) LimitCount() int { return r.limits }

// Pace returns the wait of the delay rung.
func (r *Rules) Pace() Pace { return r.pace }

// Effect returns what a posture does.
func (r *Rules) Effect(p Posture) Effect { return r.effects[p&3] }

// WithShare returns rules in which every limit in force is one instance's
// share of n (Limit.Share), for the twin while the shared store is gone. A
// script does not take such rules.
func (r *Rules) WithShare(n int64) *Rules {
	c := *r
	c.share = max(n, 1)
	return &c
}

// OfShards returns rules whose tiers are each one of so many sub-buckets
// (Limit.Sub), at least 1: alone, an instance grants its share of all of them from
// the one that it is asked for.
func (r *Rules) OfShards(n []int64) *Rules {
	c := *r
	c.shards = n
	return &c
}

// shardsOf is how many sub-buckets there are of tier t.
func (r *Rules) shardsOf(t int) int64 {
	if r.shards == nil {
		return 1
	}
	return r.shards[t]
}

// shareOf is among how many instances the limits of tier t are shared.
func (r *Rules) shareOf(t int) int64 {
	if r.shards == nil {
		return r.share
	}
	return ceilDiv(r.share, r.shards[t])
}

// Whole returns the limit before any share: what "cost above capacity" is
// judged against.
func (r *Rules) Whole(tier, limit int, f *InForce) (l Limit, counted bool) {
	t := &r.tiers[tier]
	l = t.Limits[limit].Limit
	if t.Role&ScalePosture != 0 {
		if limit == 0 && !f.Baseline.Zero() {
			l = f.Baseline
		}
		e := r.effects[f.Posture&3]
		if l.Zero() || e.Uncounted {
			return l, false
		}
		l = l.Tighten(e.Divisor)
	}
	if t.Role&ScaleIP != 0 {
		l = l.Times(f.K[0])
	}
	if t.Role&ScaleNetwork != 0 {
		l = l.Times(f.K[1])
	}
	return l, true
}

// Limit returns the limit in force: Whole, at this instance's share.
func (r *Rules) Limit(tier, limit int, f *InForce) (l Limit, counted bool) {
	l, counted = r.Whole(tier, limit, f)
	if n := r.shareOf(tier); counted && n > 1 {
		l = l.Share(n)
	}
	return l, counted
}

// InForce are the facts, read in the same step, that limits depend on. K
// values are from 1 to MaxK.
type InForce struct {
	Posture  Posture
	Baseline Limit    // zero: not learned
	K        [2]int64 // of the address, of its network
}

func limitID(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return max(h.Sum32(), 1)
}
