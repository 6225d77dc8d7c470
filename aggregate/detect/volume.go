package detect

import "math"

// The volume channel's numbers, from the study that the design rests on: ten
// runs over four variants of its own generator.
const (
	fastStep, fastLimit = 1.0, 20.0 // standard deviations, over bins
	slowStep, slowLimit = 1.0, 8.0  // over slowBins of them
	slowBins            = 30        // 5 minutes
	// unsure is how far an expectation may be off, of itself: what drifts within
	// hours is no attack. It keeps large realms, whose counts scatter little, quiet:
	// with 0.20 what scans in the background alarmed a site of 200,000 logins a day
	// 0.8 times a week, one of 1.2 million 0.23 times; with 0.30 they are 0.18 and
	// 0.10, and guesses of 12 % of all attempts are found some 20 s later at one of
	// 750,000 (of 75,000: after 15 minutes, not 12).
	unsure = 0.30
	// A CUSUM over this share of its limit is on to something: the offset does
	// not learn it away.
	onto = 0.3
	// The offset follows what lasts for hours, within these shares of what is expected.
	offsetLeast, offsetMost = -0.15, 0.50
)

// The gate is the practical size below which an excess is not worth anybody's
// trouble, however sure one is of it: a minute, and of expected attempts.
const (
	gateLeast = 10.0
	gateShare = 0.25
)

// volume watches how many cold failures there are beyond what is expected.
type volume struct {
	fast, slow cusum
	successes  ewma // 10 minutes
	one        ewma // excess a bin, over so many minutes
	two, ten   ewma
	drift, sum ewma // of the offset: deviation and expectation, 3 hours
	spread     spread

	d5, v5, m5 float64 // of the slow CUSUM's step
	n5         int

	rise  float64 // excess since the fast CUSUM left zero
	rises int     // bins since
}

func newVolume() volume {
	return volume{fast: cusum{limit: fastLimit}, slow: cusum{limit: slowLimit},
		successes: newEWMA(10 * minute), one: newEWMA(minute), two: newEWMA(2 * minute), ten: newEWMA(10 * minute),
		drift: newEWMA(3 * hour), sum: newEWMA(3 * hour), spread: newSpread(360)}
}

// size is what the channel says of a bin, everything a bin.
type size struct {
	expected float64 // cold failures
	attempts float64 // successes and cold failures that are expected
	recent   float64 // excess of the last minute
	excess   float64 // of the last two minutes
	lasting  float64 // of the last ten
	rising   float64 // since the fast CUSUM began to rise; 0: not yet known
	gate     float64
}

// risen is how many bins make the size of what has just begun known.
const risen = 3

// step takes a bin's cold failures. level and odds are the baseline's; calm
// says that the last bin was, so that the offset may learn.
func (v *volume) step(failed, successes, level, odds float64, calm bool) size {
	s := max(v.successes.add(successes), 1.0*Width/minute)
	expected := level + odds*successes
	off := 0.0
	if v.sum.value > 0 {
		off = clamp(v.drift.value/v.sum.value, offsetLeast, offsetMost)
	}
	d := failed - expected*(1+off)

	poisson := odds*s + odds*odds*s + level
	usual := level + odds*s
	sd := math.Sqrt(v.spread.factor()*poisson + unsure*unsure*usual*usual)
	sd = max(sd, 0.5)
	v.fast.add(clamp(d/sd, -4, 8) - fastStep)
	rising := v.since(d)
	v.slowly(d, v.spread.factor()*poisson, unsure*usual)

	if calm && v.fast.share() < onto && v.slow.share() < onto {
		v.drift.add(clamp(failed-expected, -3*sd, 3*sd))
		v.sum.add(expected)
		v.spread.add(d / math.Sqrt(max(poisson, 0.1)))
	}
	z := size{expected: usual * (1 + off), recent: v.one.add(d), excess: v.two.add(d), lasting: v.ten.add(d), rising: rising}
	z.attempts = s + z.expected
	z.gate = max(gateLeast*Width/minute, gateShare*z.attempts)
	return z
}

// since is the mean excess since the fast CUSUM left zero: where it is sure that
// something has begun, how large that is must not be averaged with the time
// before, which would cost an attack of twice the traffic half a minute.
func (v *volume) since(d float64) float64 {
	if v.fast.value == 0 {
		v.rise, v.rises = 0, 0
		return 0
	}
	v.rise, v.rises = v.rise+d, v.rises+1
	if v.rises < risen {
		return 0
	}
	return v.rise / float64(v.rises)
}

// slowly gathers five minutes for the slow CUSUM.
func (v *volume) slowly(d, variance, unsure float64) {
	v.d5 += d
	v.v5 += variance
	v.m5 += unsure
	if v.n5++; v.n5 < slowBins {
		return
	}
	sd := max(math.Sqrt(v.v5+v.m5*v.m5), 1)
	v.slow.add(clamp(v.d5/sd, -4, 8) - slowStep)
	v.d5, v.v5, v.m5, v.n5 = 0, 0, 0, 0
}

// suspicious: either CUSUM is half-way.
func (v *volume) suspicious() bool { return v.fast.share() >= 0.5 || v.slow.share() >= 0.5 }

// alarm: either CUSUM is over, and the excess is of a size that matters.
func (v *volume) alarm(z size) bool {
	return (v.fast.over() || v.slow.over()) && z.excess >= z.gate || v.fast.over() && z.rising >= z.gate
}
