package detect

// What the baseline knows of each bin: one driver, successes, and what depends on it.
const (
	yFailed = iota // cold failures
	yCold          // those that reached the password
	yUnknown
	yNetwork
	yAccount
	yBreached
	yWarm
	yNet // net spending of the global tier
	yUA  // and the Groups after it
	ys   = yUA + Groups
)

// values are a bin's numbers as the baseline knows them.
func values(b *Bin) (x float64, y [ys]float64) {
	y[yFailed] = float64(b.Failed())
	y[yCold] = float64(b.Count[Cold])
	y[yUnknown] = float64(b.Unknown)
	y[yNetwork] = float64(b.NewNetwork)
	y[yAccount] = float64(b.NewAccount)
	y[yBreached] = float64(b.Breached)
	y[yWarm] = float64(b.Count[Warm])
	y[yNet] = float64(b.Taken - b.Given)
	for i, n := range b.UA {
		y[yUA+i] = float64(n)
	}
	return float64(b.Count[Success]), y
}

// remembered is how many hours the baseline rests on: four weeks, so that each
// hour of the week was seen four times and one bad day is outvoted.
const remembered = 28 * 24

// hourly is the mean bin of an hour's calm part.
type hourly struct {
	hour int64 // since the epoch; 0: nothing
	x    float64
	y    [ys]float64
}

// history gathers calm hours.
type history struct {
	ring [remembered]hourly
	open hourly // sums
	bins int
	last int64 // the latest hour
}

// add takes a bin. turned says that an hour ended; one that a successor is given
// again does not end once more.
func (h *history) add(b *Bin, x float64, y *[ys]float64, calm bool) (turned bool) {
	now := b.Start / hour
	if now != h.open.hour {
		turned = h.last != 0 && now > h.last
		h.last = max(h.last, now)
		h.close()
		h.open, h.bins = hourly{hour: now}, 0
	}
	if calm {
		h.bins++
		h.open.x += x
		for i := range y {
			h.open.y[i] += y[i]
		}
	}
	return turned
}

// close keeps the open hour if half of it was calm: less says little, and an
// attack's edges would be learnt.
func (h *history) close() {
	const half = hour / Width / 2
	if h.bins < half {
		return
	}
	n := float64(h.bins)
	h.open.x /= n
	for i := range h.open.y {
		h.open.y[i] /= n
	}
	h.ring[h.open.hour%remembered] = h.open
}

// at returns the mean bin of an hour within the last four weeks.
func (h *history) at(hr int64) (*hourly, bool) {
	if hr <= 0 {
		return nil, false
	}
	e := &h.ring[hr%remembered]
	return e, e.hour == hr
}
