package keys

// Threshold says at what share of a limit's capacity left a rung begins, in
// ten-thousandths (70 % = 7000, at most 10000); or Empty, or Never.
type Threshold uint16

const (
	// Never means that the limit does not lead to this rung. (Zero would be
	// a trap: "at 0 %" is almost Empty.)
	Never Threshold = 0xFFFF
	// Empty means that less than one attempt's tokens are left.
	Empty Threshold = 0xFFFE
)

// thresholdScale is the denominator of a Threshold.
const thresholdScale = 10000

// Units returns the largest number of units left at which the rung has begun:
// floor(capacity x share), or just under need for Empty, or -1 for Never.
// need is the attempt's cost in units (at least one token). The split at the
// denominator keeps every product below 2^53, and is exact: with u = 10000h+r,
// floor(u x t / 10000) = h x t + floor(r x t / 10000).
func (t Threshold) Units(l Limit, need int64) int64 {
	switch t {
	case Never:
		return -1
	case Empty:
		return need - 1
	}
	u := l.Units()
	return u/thresholdScale*int64(t) + u%thresholdScale*int64(t)/thresholdScale
}

// Steps are the shares at which the rungs of one limit begin.
type Steps struct{ Delay, Captcha, Verify Threshold }

// NoSteps leads nowhere: the limit only counts.
var NoSteps = Steps{Never, Never, Never}

// Rung is the highest rung that has begun with left units left, and under the
// threshold of Delay the whole tokens below it (0 at the threshold itself),
// which is the exponent of the wait. What is not enough for the attempt begins
// every rung that the limit leads to: a last rung at 20 % of three tokens would
// otherwise let guesses through that nothing is left to be counted by.
func (s Steps) Rung(l Limit, left, need int64) (r Rung, below int64) {
	switch {
	case left <= s.Verify.begins(l, need):
		return Verify, 0
	case left <= s.Captcha.begins(l, need):
		return Captcha, 0
	}
	if at := s.Delay.begins(l, need); left <= at {
		return Delay, (at - left) / l.Period
	}
	return Allow, 0
}

// begins is Units, but where there is a threshold never below just under need.
func (t Threshold) begins(l Limit, need int64) int64 {
	if t == Never {
		return -1
	}
	return max(t.Units(l, need), need-1)
}

// Relief is how long it takes in microseconds, when nobody takes from it
// meanwhile, until a limit with so many units left asks one guess for nothing.
func (s Steps) Relief(l Limit, left int64) int64 {
	first := int64(-1)
	for _, t := range [...]Threshold{s.Delay, s.Captcha, s.Verify} {
		first = max(first, t.begins(l, l.Period))
	}
	if left > first || l.Zero() {
		return 0
	}
	return ceilDiv(min(first+1, l.Units())-left, l.Count)
}
