package detect

// An outage of the authentication behind, and a surge of honest people, look
// like attacks to who only counts failures. Neither is answered: asking people
// for more would help nobody.
const (
	// Successes under this share of what is usual are a collapse.
	collapse = 0.5
	// Warm failures over this multiple of what is expected: it is everybody who
	// fails, and no attacker has everybody's devices.
	everybody = 2.0
	// Outcomes without a comparison over this share of all say it themselves.
	unchecked = 0.2
	// aftermath is how long people go on trying after it.
	aftermath = 5 * minute
	// Successes over this multiple of what is usual are a surge. No attacker can
	// make one: an account counts once an hour.
	surging = 1.6
	// A crowd comes rarely, and fails up to so many times as often for it.
	clumsy = 2.5
)

// outage tells the two.
type outage struct {
	in, warm, wantWarm, none, failed ewma // a minute each
	until                            int64
}

func newOutage() outage {
	m := newEWMA(minute)
	return outage{in: m, warm: m, wantWarm: m, none: m, failed: m}
}

// step takes a bin and says whether there is an outage, or was just now, and
// whether successes surge.
func (o *outage) step(b *Bin, base *Baseline) (down, surge bool) {
	usual := base.Successes(b.Start)
	in := o.in.add(float64(b.Count[Success]))
	warm := o.warm.add(float64(b.Count[Warm]))
	// By what is usual: there are no successes to go by.
	want := o.wantWarm.add(base.expect(yWarm, b.Start, usual))
	none := o.none.add(float64(b.NotChecked))
	failed := o.failed.add(float64(b.Failed()))

	switch attempts := in + warm + none + failed; {
	case attempts > 1 && none >= unchecked*attempts,
		usual > 0.5 && in < collapse*usual && warm > everybody*want && warm > 0.5:
		o.until = b.Start + aftermath
	}
	surge = usual > 0 && in >= surging*usual &&
		failed-base.fits[yFailed].level[mod(b.Start/hour, hoursOfWeek)] <= clumsy*base.fits[yFailed].odds*in
	return b.Start < o.until, surge
}
