package detect

import (
	"cmp"
	"math"
	"slices"
)

const (
	second = 1_000_000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// ewma is an exponentially weighted mean of one value a bin.
type ewma struct {
	keep, value float64
	started     bool
}

// newEWMA forgets within so many microseconds; it is stepped once a Width.
func newEWMA(within int64) ewma { return ewma{keep: math.Exp(-Width / float64(within))} }

func (e *ewma) add(v float64) float64 {
	if !e.started {
		e.started, e.value = true, v
	}
	e.value = e.keep*e.value + (1-e.keep)*v
	return e.value
}

// median sorts v and returns its middle; 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	n := len(v) / 2
	if len(v)%2 == 1 {
		return v[n]
	}
	return (v[n-1] + v[n]) / 2
}

func clamp(v, least, most float64) float64 { return max(least, min(v, most)) }

// thinning is the part of a full table that is dropped at once: to look for the
// one least entry each time would let a flood of newcomers pay for a walk
// through the whole table with every guess.
const thinning = 8

// least returns the keys of the part of m that weighs least; of equals those
// that come first by compare, so that the same events always leave the same behind.
func least[K comparable, V any](m map[K]V, weight func(V) int64, compare func(a, b K) int) []K {
	type entry struct {
		key    K
		weight int64
	}
	all := make([]entry, 0, len(m))
	for k, v := range m {
		all = append(all, entry{k, weight(v)})
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.weight, b.weight), compare(a.key, b.key)) })
	keys := make([]K, 0, len(all)/thinning+1)
	for _, e := range all[:min(len(all), len(all)/thinning+1)] {
		keys = append(keys, e.key)
	}
	return keys
}
