package main

import (
	"math"
	"slices"
)

// median of xs, which is not changed; NaN of none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	if m := len(s) / 2; len(s)%2 == 1 {
		return s[m]
	} else {
		return (s[m-1] + s[m]) / 2
	}
}

// ratios divides round by round: what slowed a whole round down slowed both
// sides, so it drops out.
func ratios(of, base []float64) []float64 {
	r := make([]float64, min(len(of), len(base)))
	for i := range r {
		r[i] = of[i] / base[i]
	}
	return r
}

// spread is the largest over the smallest: 1 where nothing varies.
func spread(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	return slices.Max(xs) / slices.Min(xs)
}

// quantile is the value that a share q of xs is at or below, by nearest rank.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	return s[min(max(int(math.Ceil(q*float64(len(s))))-1, 0), len(s)-1)]
}

// floorVaries is how far a floor may vary between rounds before a run says more
// about the machine's other work than about its subjects.
const floorVaries = 2

// verdict holds a figure against its two targets.
func verdict(x float64, r *row) string {
	reaches := func(target float64) bool {
		if r.higher {
			return x >= target
		}
		return x <= target
	}
	switch {
	case math.IsNaN(x):
		return "not measured"
	case r.report:
		return "reported"
	case reaches(r.aim):
		return "aim"
	case reaches(r.must):
		return "must"
	}
	return "missed"
}
