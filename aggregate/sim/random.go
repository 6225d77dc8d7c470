package sim

import (
	"math"
	"math/rand/v2"
)

// random draws what the generator needs.
type random struct{ *rand.Rand }

// newRandom returns the stream of a seed and a purpose: what one part draws
// changes nothing for another.
func newRandom(seed int64, purpose uint64) random {
	return random{rand.New(rand.NewPCG(uint64(seed), purpose))}
}

// enough is from which mean on a normal distribution stands in for a counting
// one; below it the difference would show in the tails that alarms live on.
const enough = 60

// poisson draws a count of that mean.
func (r random) poisson(mean float64) int {
	if mean <= 0 {
		return 0
	}
	if mean > enough {
		return r.normal(mean, mean)
	}
	n, p, limit := 0, 1.0, math.Exp(-mean)
	for {
		if p *= r.Float64(); p < limit {
			return n
		}
		n++
	}
}

// scattered draws a count of that mean whose variance is Dispersion times it:
// a negative binomial, as a Poisson count of a gamma mean.
func (r random) scattered(mean float64) int {
	if mean <= 0 {
		return 0
	}
	// Gamma of shape mean/(Dispersion-1) has the variance that is missing.
	const extra = Dispersion - 1
	return r.poisson(r.gamma(mean/extra) * extra)
}

// gamma draws of that shape and scale 1 (Marsaglia and Tsang 2000).
func (r random) gamma(shape float64) float64 {
	if shape < 1 {
		return r.gamma(shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// of draws how many of n have a property of that chance.
func (r random) of(n int, p float64) int {
	switch {
	case n <= 0 || p <= 0:
		return 0
	case p >= 1:
		return n
	case float64(n)*min(p, 1-p) > enough:
		return min(r.normal(float64(n)*p, float64(n)*p*(1-p)), n)
	}
	k := 0
	for range n {
		if r.Float64() < p {
			k++
		}
	}
	return k
}

func (r random) normal(mean, variance float64) int {
	return max(0, int(math.Round(mean+math.Sqrt(variance)*r.NormFloat64())))
}

// between draws evenly.
func (r random) between(least, most float64) float64 { return least + (most-least)*r.Float64() }

// drift is a factor that wanders around 1: the logarithm is an
// Ornstein-Uhlenbeck process.
type drift struct{ sd, keep, at float64 }

// newDrift wanders by sd and forgets within hours; step is seconds.
func newDrift(r random, sd, hours, step float64) drift {
	return drift{sd: sd, keep: math.Exp(-step / 3600 / hours), at: sd * r.NormFloat64()}
}

func (d *drift) next(r random) float64 {
	d.at = d.keep*d.at + d.sd*math.Sqrt(1-d.keep*d.keep)*r.NormFloat64()
	return math.Exp(d.at - d.sd*d.sd/2)
}
