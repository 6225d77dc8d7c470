package detect

// cusum adds up what is above what was expected, and forgets what is below: it
// finds small changes that last, which no threshold on one bin would (Page 1954).
type cusum struct {
	limit float64
	value float64
}

// most is how far over its limit the sum is held to, so that the longest attack
// is forgotten within a part of the time that it took to be seen.
const most = 1.2

// add takes one step.
func (c *cusum) add(v float64) { c.value = clamp(c.value+v, 0, most*c.limit) }

func (c *cusum) over() bool { return c.value >= c.limit }

// share is how far it is: 1 at the limit.
func (c *cusum) share() float64 { return c.value / c.limit }
