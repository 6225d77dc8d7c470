package detect

// affine is what one number of a bin is expected to be: a level of the hour of
// the week, which is what does not depend on honest people (a scan does not
// grow when users flock in), plus odds times successes, which count honest
// people because few guesses are right (Herley and Schechter, NDSS 2019). A
// plain share of failures would call every quiet night an attack.
type affine struct {
	odds  float64
	level [hoursOfWeek]float64
	known bool
}

const hoursOfWeek = 7 * 24

// slow is how much odds and levels may change in a day once they are known: who
// grows an attack by a little a day must not teach that it is normal.
const slow = 0.10

// lags are the distances in hours of the pairs whose slopes are compared: far
// enough apart that successes differ, near enough that the levels do not.
var lags = [...]int64{3, 5, 7, 9, 11, 13}

// differs is by how much successes of a pair must, or its slope is noise.
const differs = 0.30

// fit learns from h. held: keep within slow of what was known. scratch is
// reused.
func (a *affine) fit(h *history, i int, held bool, scratch []float64) []float64 {
	held = held && a.known
	slopes := scratch[:0]
	for hr := h.open.hour - remembered + 1; hr < h.open.hour; hr++ {
		p, ok := h.at(hr)
		if !ok {
			continue
		}
		for _, lag := range lags {
			q, ok := h.at(hr + lag)
			if !ok {
				continue
			}
			d := q.x - p.x
			if max(d, -d) <= differs*max(p.x, q.x) {
				continue
			}
			slopes = append(slopes, (q.y[i]-p.y[i])/d)
		}
	}
	if len(slopes) >= 24 {
		odds := max(0, median(slopes)) // Theil and Sen's: half of the pairs may be anything
		if held {
			odds = clamp(odds, a.odds*(1-slow), a.odds*(1+slow)+1e-4)
		}
		a.odds = odds
	}
	for s := range int64(hoursOfWeek) {
		var level float64
		if level, slopes = a.levelOf(h, i, s, slopes); held {
			was := a.level[s]
			level = clamp(level, was*(1-slow)-1e-3, was*(1+slow)+1e-3)
		}
		a.level[s] = level
	}
	a.known = true
	return slopes
}

// levelOf is the median of what is left in the slot and its neighbours; until
// two weeks were seen, in the hour of any day.
func (a *affine) levelOf(h *history, i int, slot int64, scratch []float64) (float64, []float64) {
	rest := scratch[:0]
	take := func(cycle int64) {
		rest = rest[:0]
		last := h.open.hour - mod(h.open.hour-slot, cycle)
		for hr := last; hr > h.open.hour-remembered; hr -= cycle {
			for d := int64(-1); d <= 1; d++ {
				if p, ok := h.at(hr + d); ok {
					rest = append(rest, p.y[i]-a.odds*p.x)
				}
			}
		}
	}
	if take(hoursOfWeek); len(rest) < 6 {
		take(24)
	}
	return max(0, median(rest)), rest
}

// expect is the number at that time, given successes.
func (a *affine) expect(at int64, x float64) float64 {
	return a.level[mod(at/hour, hoursOfWeek)] + a.odds*x
}
