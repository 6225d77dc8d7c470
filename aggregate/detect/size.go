package detect

import "math"

// The global tier's size: so many times what strangers usually spend and are
// not given back, for so many minutes at once. It is there for what nothing
// else has seen yet; postures make it small.
const (
	roomy      = 3.0
	sizeLeast  = 10.0 // a minute
	sizeBurst  = 10   // minutes
	sizeMost   = 1e9
	sizeLookup = 2 * hour
)

// Size is a limit for the global tier: capacity, and refill a minute.
type Size struct{ Capacity, PerMinute int64 }

// Size is how large the global tier is to be for the hours that begin at at, with
// so many successes a bin now: a crowd's size is a crowd's. false while it is
// still learnt.
func (b *Baseline) Size(at int64, successes float64) (Size, bool) {
	if b.Learning() || !b.fits[yNet].known {
		return Size{}, false
	}
	most := 0.0
	for t := at; t <= at+sizeLookup; t += hour {
		most = max(most, b.expect(yNet, t, max(successes, b.Successes(t))))
	}
	perMinute := clamp(math.Ceil(roomy*most*minute/Width), sizeLeast, sizeMost)
	return Size{int64(perMinute) * sizeBurst, int64(perMinute)}, true
}
