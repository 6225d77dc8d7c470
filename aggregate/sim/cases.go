package sim

import "slices"

// Case is something that happens at a site and is no attack.
type Case string

// The cases.
const (
	FlashCrowd       Case = "flash-crowd"
	ResetDay         Case = "reset-day"
	OutageNotChecked Case = "auth-outage"         // the handler says that it could not compare
	OutageFailures   Case = "auth-outage-failing" // the handler reports failures
	OfficeAtNine     Case = "office-at-nine"
	StaleApp         Case = "stale-app"
	CarrierNAT       Case = "carrier-nat"
)

// Span is a case with its time and its strength.
type Span struct {
	Case     Case
	From, To int64
	Factor   float64
}

func (s *Span) on(at int64) bool { return at >= s.From && at < s.To }

// NewSpan draws how long and how strong a case is that begins then.
func NewSpan(r random, c Case, from int64) Span {
	s := Span{Case: c, From: from, Factor: 1}
	minutes := 0.0
	switch c {
	case FlashCrowd:
		s.Factor, minutes = r.between(FlashLeast, FlashMost), r.between(FlashShortest, FlashLongest)
	case ResetDay:
		s.Factor, minutes = r.between(ResetLeast, ResetMost), ResetMinutes
	case OutageNotChecked, OutageFailures:
		minutes = r.between(OutageShortest, OutageLongest)
	case OfficeAtNine:
		minutes = OfficeMinutes
	case StaleApp:
		s.Factor, minutes = StaleDay, 24*60
	case CarrierNAT:
		minutes = CarrierMinutes
	}
	s.To = from + int64(minutes*minute)
	return s
}

// weekOf draws what happens in the week that begins at from.
func weekOf(r random, from int64) []Span {
	var all []Span
	some := func(c Case, times float64) {
		for range r.poisson(times) {
			at := from + int64(r.Float64()*week)
			if c == OfficeAtNine {
				at = from + int64(r.IntN(5))*day + 9*hour - 10*minute
			}
			all = append(all, NewSpan(r, c, at))
		}
	}
	some(FlashCrowd, FlashCrowds)
	some(ResetDay, ResetDays)
	some(OutageNotChecked, Outages/2)
	some(OutageFailures, Outages/2)
	some(OfficeAtNine, Offices)
	some(StaleApp, StaleDays)
	some(CarrierNAT, CarrierNATs)
	slices.SortFunc(all, func(a, b Span) int { return int(a.From/second - b.From/second) })
	return all
}
