package keys

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// MaxExact is the largest integer up to which every integer is a double: 2^53.
// Redis scripts compute in doubles, so no number of a bucket may pass it.
const MaxExact int64 = 1 << 53

// MinShare is the fewest tokens that a degraded share keeps: an instance that
// lost the store must not refuse a person's second try (DESIGN section 6).
const MinShare int64 = 3

// Limit is capacity and refill of one bucket. Its zero value is not usable;
// NewLimit makes valid ones. It is a value and safe to copy and share.
type Limit struct {
	// Capacity is the most that can be held, in tokens.
	Capacity int64
	// Count tokens flow back per Period.
	Count int64
	// Period is in microseconds, and is also the number of units in one token.
	Period int64
}

// Errors of NewLimit. The caller adds the field's name.
var (
	ErrCapacity = errors.New("must be a whole number of tokens, at least 1")
	ErrRefill   = errors.New("must be a whole number of tokens, at least 1, per period of at least 1 microsecond")
	ErrInexact  = errors.New("leaves the exact range of 2^53 (capacity x period in microseconds): shorten the period or lower the capacity")
)

// NewLimit returns the limit of capacity tokens refilled by count tokens per
// period. Count and period are reduced by their greatest common divisor, so
// 20 per 10 min and 2 per 1 min are the same limit. A limit whose numbers
// could leave the exact range of a double is refused with ErrInexact.
func NewLimit(capacity, count int64, period time.Duration) (Limit, error) {
	if capacity < 1 {
		return Limit{}, ErrCapacity
	}
	us := period.Microseconds()
	if count < 1 || us < 1 || period%time.Microsecond != 0 {
		return Limit{}, ErrRefill
	}
	g := gcd(count, us)
	l := Limit{Capacity: capacity, Count: count / g, Period: us / g}
	if !l.Exact() {
		return Limit{}, ErrInexact
	}
	return l, nil
}

// Exact reports whether every number that a bucket of this limit can reach
// stays at or below MaxExact: capacity in units plus one microsecond's refill
// (the most that elapsed x count can be after clamping), and the tokens
// counted in ten-thousandths (thresholds).
func (l Limit) Exact() bool {
	if l.Capacity < 1 || l.Count < 1 || l.Period < 1 {
		return false
	}
	hi, lo := bits.Mul64(uint64(l.Capacity), uint64(l.Period))
	return hi == 0 && lo <= uint64(MaxExact) && l.Count <= MaxExact-int64(lo)
}

// Zero reports whether l is the zero Limit, which means "not set".
func (l Limit) Zero() bool { return l == Limit{} }

// Units is the capacity in units.
func (l Limit) Units() int64 { return l.Capacity * l.Period }

// TimeToFull is the time from empty to full in microseconds, rounded up.
func (l Limit) TimeToFull() int64 { return ceilDiv(l.Units(), l.Count) }

// Times multiplies capacity and refill by k (the learned size of a shared
// address, at least 1). Time to full stays the same. The caller has checked
// with Exact that the largest k fits.
func (l Limit) Times(k int64) Limit {
	l.Capacity *= k
	l.Count *= k
	return l
}

// Tighten divides capacity and refill by div (posture): the capacity is
// rounded up, the refill is scaled exactly, by stretching the period.
func (l Limit) Tighten(div int64) Limit {
	l.Capacity = ceilDiv(l.Capacity, div)
	l.Period *= div
	return l
}

// Share is one instance's part of the limit while the store is gone: capacity
// / n rounded down, but never below MinShare (nor above the limit itself), and
// the refill scaled exactly, by stretching the period. A part so small that it
// would leave the exact range refills as slowly as the range allows.
func (l Limit) Share(n int64) Limit {
	if n <= 1 {
		return l
	}
	c := max(l.Capacity/n, min(MinShare, l.Capacity))
	room := (MaxExact - l.Count) / c / l.Period
	l.Capacity = c
	l.Period *= max(min(n, room), 1)
	return l
}

// String is for people: "20, refill 1 per 3m0s".
func (l Limit) String() string {
	return fmt.Sprintf("%d, refill %d per %s", l.Capacity, l.Count, time.Duration(l.Period)*time.Microsecond)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// ceilDiv returns a / b rounded up, for a >= 0 and b > 0.
func ceilDiv(a, b int64) int64 { return int64((uint64(a) + uint64(b) - 1) / uint64(b)) }
