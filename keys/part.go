package keys

import "math/bits"

// PartOf is n x parts / whole, rounded down, for n >= 0 and 0 <= parts <= whole:
// the product may be more than an int64 holds.
func PartOf(n, parts, whole int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(parts))
	q, _ := bits.Div64(hi, lo, uint64(whole)) // hi < whole, since parts <= whole and n < 2^63
	return int64(q)
}

// Part is parts of whole of the limit, for 1 <= parts <= whole: the capacity rounded
// down, the refill scaled exactly by stretching the period. So parts that together
// are the whole never grant more than it. ErrCapacity when less than a token would
// be left, ErrInexact when the stretched period leaves the exact range.
func (l Limit) Part(parts, whole int64) (Limit, error) {
	g := gcd(parts, whole)
	parts, whole = parts/g, whole/g
	c := gcd(l.Count, whole)
	p := gcd(parts, l.Period)
	over, count := bits.Mul64(uint64(l.Count/c), uint64(parts/p))
	more, period := bits.Mul64(uint64(l.Period/p), uint64(whole/c))
	part := Limit{Capacity: PartOf(l.Capacity, parts, whole), Count: int64(count), Period: int64(period)}
	switch {
	case part.Capacity < 1:
		return Limit{}, ErrCapacity
	case over != 0 || more != 0 || count > uint64(MaxExact) || period > uint64(MaxExact) || !part.Exact():
		return Limit{}, ErrInexact
	}
	return part, nil
}
