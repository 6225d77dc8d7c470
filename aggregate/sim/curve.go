package sim

import "math"

const (
	second = 1_000_000
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	week   = 7 * day
)

// monday is one at midnight: the epoch was a Thursday.
const monday = 4 * day

// curve is honest logins at that moment over the week's mean.
func curve(at int64) float64 { return shape(at) / meanShape }

func shape(at int64) float64 {
	into := float64(mod(at-monday, week)) / hour
	swing := (1 - math.Cos(2*math.Pi*(math.Mod(into, 24)-QuietestHour)/24)) / 2
	s := NightShare + (1-NightShare)*math.Pow(swing, 0.8)
	if into >= 5*24 {
		s *= WeekendShare
	}
	return s
}

// meanShape is the week's mean of shape.
var meanShape = func() (sum float64) {
	const step = 10 * minute
	for at := int64(0); at < week; at += step {
		sum += shape(at)
	}
	return sum * step / week
}()

func mod(a, m int64) int64 { return ((a % m) + m) % m }
