package detect

// Before anything is known: failures a success, after the study's prior; and
// how long it takes until what was learnt may have consequences.
const (
	priorOdds = 0.3
	learning  = 7 * 24 // hours
)

// Baseline is what is normal at a realm: an expectation for everything that is
// counted, given the hour of the week and the successes of the bin.
type Baseline struct {
	h       history
	fits    [ys]affine
	success [hoursOfWeek]float64 // mean successes a bin
	hours   int64                // that were seen
	scratch []float64
}

// newBaseline knows nothing but the prior.
func newBaseline() *Baseline {
	b := &Baseline{}
	b.fits[yFailed].odds, b.fits[yCold].odds = priorOdds, priorOdds
	return b
}

// Learning reports whether too little was seen for anything but alerts. What
// counts are hours that were seen: the first login may have been a test of weeks ago.
func (b *Baseline) Learning() bool { return b.hours < learning }

// learn takes a bin; only calm ones teach.
func (b *Baseline) learn(bin *Bin, calm bool) {
	x, y := values(bin)
	if !b.h.add(bin, x, &y, calm) {
		return
	}
	// Anew once a day; while nothing may come of it, every hour costs nothing more.
	if b.hours++; b.hours%24 != 0 {
		return
	}
	for i := range b.fits {
		b.scratch = b.fits[i].fit(&b.h, i, !b.Learning(), b.scratch)
	}
	b.successes()
}

// successes learns how many are usual in each hour of the week.
func (b *Baseline) successes() {
	for s := range int64(hoursOfWeek) {
		seen := b.scratch[:0]
		for _, cycle := range [...]int64{hoursOfWeek, 24} {
			last := b.h.open.hour - mod(b.h.open.hour-s, cycle)
			for hr := last; hr > b.h.open.hour-remembered; hr -= cycle {
				if p, ok := b.h.at(hr); ok {
					seen = append(seen, p.x)
				}
			}
			if len(seen) > 0 {
				break
			}
		}
		b.success[s], b.scratch = median(seen), seen
	}
}

// Expect is how much of y is normal in a bin that begins then with so many
// successes.
func (b *Baseline) expect(y int, at int64, x float64) float64 { return b.fits[y].expect(at, x) }

// Successes is how many are usual in a bin then; 0: not known.
func (b *Baseline) Successes(at int64) float64 { return b.success[mod(at/hour, hoursOfWeek)] }
