package plans

import (
	"fmt"
	"time"
)

// Per is what a quota counts by.
type Per string

const (
	// PerMonth: a calendar month from the anchor's day on. The default.
	PerMonth Per = "month"
	// PerDay: a calendar day.
	PerDay Per = "day"
)

// Calendar is where the periods of a quota begin.
type Calendar struct {
	Per    Per
	Zone   *time.Location
	Anchor int // of PerMonth: the day of the month, 1 to 31
}

// Period is the one that holds at: it begins at start, and the next at end. A month
// that has no such day begins on its last one, and the next has it again: of anchor
// 31 are 31 January, 28 or 29 February, 31 March. Where clocks are put forward over
// midnight, the day begins when they are.
func (c *Calendar) Period(at time.Time) (start, end time.Time) {
	at = at.In(c.Zone)
	y, m, d := at.Date()
	if c.Per == PerDay {
		return c.midnight(y, m, d), c.midnight(y, m, d+1)
	}
	if start = c.month(y, m); at.Before(start) {
		return c.month(y, m-1), start
	}
	return start, c.month(y, m+1)
}

// month is when the period of that month begins; m may be 0 or 13.
func (c *Calendar) month(y int, m time.Month) time.Time {
	last := time.Date(y, m+1, 0, 12, 0, 0, 0, time.UTC)
	return c.midnight(last.Year(), last.Month(), min(c.Anchor, last.Day()))
}

// midnight is the first moment of a day. Where it is one that clocks leave out,
// time.Date says one an hour before or after; where they have it twice, the first.
func (c *Calendar) midnight(y int, m time.Month, d int) time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, c.Zone)
	noon := time.Date(y, m, d, 12, 0, 0, 0, c.Zone)
	for day := noon.Day(); t.Day() != day; {
		t = t.Add(time.Minute) // at most an hour or two, and once in a period
	}
	for t.Add(-time.Minute).Day() == noon.Day() {
		t = t.Add(-time.Minute)
	}
	return t
}

// calendarOf is a quota's. Compile has checked it.
func (r *Rule) calendarOf() Calendar {
	c := Calendar{PerMonth, time.UTC, 1}
	if r.Per != nil {
		c.Per = *r.Per
	}
	if r.Anchor != nil {
		c.Anchor = int(*r.Anchor)
	}
	if r.Zone != nil {
		if z, err := time.LoadLocation(*r.Zone); err == nil {
			c.Zone = z
		}
	}
	return c
}

// checkQuota is check for what a rule of kind Quota is made of.
func (r *Rule) checkQuota(at string, faults *Faults) {
	if r.Capacity < 1 || r.Capacity > MaxQuota {
		faults.add(at+".capacity", fmt.Sprintf("must be from 1 to %d tokens", int64(MaxQuota)))
	}
	r.bare(at, faults, "refill")
	if r.Per != nil && *r.Per != PerMonth && *r.Per != PerDay {
		faults.add(at+".per", fmt.Sprintf("must be %s or %s, not %q", PerMonth, PerDay, *r.Per))
	}
	if r.Anchor != nil && (*r.Anchor < 1 || *r.Anchor > 31) {
		faults.add(at+".anchor", fmt.Sprintf("must be a day of the month, from 1 to 31, not %d", *r.Anchor))
	}
	if r.Anchor != nil && r.Per != nil && *r.Per == PerDay {
		faults.add(at+".anchor", "does not go with per day")
	}
	if r.Zone != nil {
		if _, err := time.LoadLocation(*r.Zone); err != nil || *r.Zone == "Local" {
			faults.add(at+".zone", fmt.Sprintf("must be a zone of time, as Europe/Berlin, not %q", *r.Zone))
		}
	}
}
