package keys

import "math/bits"

// This file is the arithmetic of one bucket. It is pure: time is an argument.
// redisstore/bucket.lua is the same arithmetic in doubles; keystest's vectors
// hold both to the same numbers.

// Spent brings the spent units of one limit to the present. spent was counted
// against units (the capacity in units at that time) and elapsed microseconds
// have passed since.
//
// When the capacity changed, the spent *fraction* is kept, rounded against the
// caller: an upgrade locks nobody out, a downgrade is no free burst, and
// changing a capacity back and forth gains nothing.
//
// Elapsed x count is computed in two limbs, so an idle
// bucket cannot overflow (Bucket4j #51: 12 idle hours went negative).
func (l Limit) Spent(spent, units, elapsed int64) int64 {
	spent = rescaleUp(spent, units, l.Units())
	// Not by division: it took a tenth of a decision.
	if hi, back := bits.Mul64(uint64(elapsed), uint64(l.Count)); hi == 0 && back < uint64(spent) {
		return spent - int64(back)
	}
	return 0
}

// Back returns how many units so many tokens taken elapsed microseconds ago still
// cost now: the tokens, less what refill may have repaid since. old is the
// limit in force when they were taken; l the one in force now. It is 0 when the
// time to full has changed since, because then nobody can say what refill has
// repaid; otherwise it is rescaled like Spent, but rounded down.
func (l Limit) Back(old Limit, tokens, elapsed int64) int64 {
	units := min(tokens, old.Capacity) * old.Period
	if elapsed >= ceilDiv(units, old.Count) || !sameRatio(old.Units(), old.Count, l.Units(), l.Count) {
		return 0
	}
	return mulDiv(units-elapsed*old.Count, l.Units(), old.Units(), false)
}

// whole is how many units so many tokens of an older limit are now, as a share of
// its capacity, rounded down.
func (l Limit) whole(old Limit, tokens int64) int64 {
	return mulDiv(min(tokens, old.Capacity)*old.Period, l.Units(), old.Units(), false)
}

// elapsed returns the time since stamp and the stamp to store. Time never runs
// backwards: a stamp in the future stays, and nothing has elapsed. One ahead
// of now by more than longest (the longest time to full of the tier) cannot
// come from a clock that stepped back a little: it is a broken clock, and
// keeping it would refuse the caller until that day comes; now is taken,
// nothing is forgiven, and broken is true.
func elapsed(stamp, now, longest int64) (passed, newStamp int64, broken bool) {
	switch {
	case stamp <= now:
		return now - stamp, now, false
	case stamp-now > longest:
		return 0, now, true
	default:
		return 0, stamp, false
	}
}

// rescaleUp converts spent units of a capacity of from units into units of a
// capacity of to, rounded up, never above to.
func rescaleUp(spent, from, to int64) int64 {
	if from == to {
		return min(spent, to)
	}
	if spent >= from {
		return to
	}
	return mulDiv(spent, to, from, true)
}

// mulDiv returns a x b / c, rounded up or down, for 0 <= a <= c <= MaxExact
// and 0 <= b <= MaxExact, c > 0. The product has up to 106 bits: two limbs.
func mulDiv(a, b, c int64, up bool) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, r := bits.Div64(hi, lo, uint64(c))
	if up && r > 0 {
		q++
	}
	return int64(q)
}

// sameRatio reports whether a/b == c/d exactly, for positive arguments.
func sameRatio(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(d))
	h2, l2 := bits.Mul64(uint64(c), uint64(b))
	return h1 == h2 && l1 == l2
}
