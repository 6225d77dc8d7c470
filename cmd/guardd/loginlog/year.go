package loginlog

import (
	"io"
	"slices"
	"strings"
	"time"
)

// Syslog's classic time has no year. This file finds it: a log's years follow
// from one another (roll), and the first one is the latest that puts no line
// in the future (LatestYear).

// stamp is the time in front of a syslog line, as far as it was written.
type stamp struct {
	time.Time
	complete bool // with year and zone; otherwise both are made up
}

const classic = "Jan _2 15:04:05"

// isoLayouts are the complete times: rsyslog's and journalctl's.
var isoLayouts = []string{time.RFC3339, "2006-01-02T15:04:05Z0700"}

// cutStamp splits a syslog line after its time and the blank behind it. A
// priority ("<38>") in front is dropped.
func cutStamp(line string) (st stamp, rest string, ok bool) {
	if prio, after, ok := strings.Cut(line, ">"); ok && len(prio) <= 4 && strings.HasPrefix(prio, "<") {
		line = after
	}
	if len(line) > 0 && line[0] >= '0' && line[0] <= '9' {
		word, rest, _ := strings.Cut(line, " ")
		for _, layout := range isoLayouts {
			if t, err := time.Parse(layout, word); err == nil {
				return stamp{t, true}, rest, true
			}
		}
		return st, "", false
	}
	for _, n := range [...]int{len(classic), len(classic) - 1} { // "Mar 7": some pad, some do not
		if len(line) <= n || line[n] != ' ' {
			continue
		}
		if t, err := time.Parse(classic, line[:n]); err == nil {
			return stamp{t, false}, line[n+1:], true
		}
	}
	return st, "", false
}

// time completes a stamp; ok is false where there is no such time.
func (p *SSHD) time(st stamp) (time.Time, bool) {
	if st.complete {
		return st.Time, inRange(st.Time)
	}
	return in(st.Time, p.year+p.roll.year(st.Time), p.zone)
}

// in puts a time without a year into one; ok is false on 29 February of a
// common year.
func in(t time.Time, year int, zone *time.Location) (time.Time, bool) {
	at := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone)
	return at, inRange(at) && !(isLeapDay(t) && !isLeap(year))
}

func isLeapDay(t time.Time) bool { return t.Month() == time.February && t.Day() == 29 }

func isLeap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

// roll follows a log over New Year. It counts in days of a year of 12 x 31 of
// them, so that it needs no year to begin with.
type roll struct {
	begun  bool
	latest int // the latest day so far
}

const rollYear = 12 * 31

// year returns how many years after the first line's this time is.
//
// Logs are not quite in order: lines of several daemons cross, and "auth.log*"
// puts the newer file first. So a date counts as the next year's only when it
// lies more than half a year back, and as the year's before only when that is
// less than a month back.
func (r *roll) year(t time.Time) int {
	day := (int(t.Month())-1)*31 + t.Day() - 1
	if !r.begun {
		r.begun, r.latest = true, day
	}
	year := r.latest / rollYear
	switch d := day - r.latest%rollYear; {
	case d < -rollYear/2:
		year++
	case d > rollYear-31:
		year--
	}
	r.latest = max(r.latest, year*rollYear+day)
	return year
}

// LatestYear reads a syslog once and returns the latest year of its first line
// that puts no line after now and every 29 February into a leap year. Lines
// with complete times do not matter. Times are of the zone.
func LatestYear(lines *Lines, now time.Time, zone *time.Location) (int, error) {
	var r roll
	var leaps []int      // years after the first that have a 29 February
	var last time.Time   // the latest time
	lastYear := -1 << 30 // and its year after the first
	for {
		line, err := lines.Next()
		if err == io.EOF {
			break
		} else if err == errLong {
			continue
		} else if err != nil {
			return 0, err
		}
		st, _, ok := cutStamp(string(line[:min(len(line), 64)]))
		if !ok || st.complete {
			continue
		}
		y := r.year(st.Time)
		if y > lastYear || y == lastYear && st.After(last) {
			lastYear, last = y, st.Time
		}
		if isLeapDay(st.Time) && !slices.Contains(leaps, y) {
			leaps = append(leaps, y)
		}
	}
	if !r.begun {
		return now.In(zone).Year(), nil
	}
	return latestYear(last, lastYear, leaps, now, zone), nil
}

func latestYear(last time.Time, lastYear int, leaps []int, now time.Time, zone *time.Location) int {
	past := func(y int) bool {
		at := time.Date(y+lastYear, last.Month(), last.Day(), last.Hour(), last.Minute(), last.Second(), 0, zone)
		return !at.After(now)
	}
	latest := now.In(zone).Year() + 1 - lastYear
	for !past(latest) {
		latest--
	}
	for y := latest; y > latest-9; y-- { // leap years are at most 8 apart
		if !slices.ContainsFunc(leaps, func(l int) bool { return !isLeap(y + l) }) {
			return y
		}
	}
	return latest // leap days in two years running: those of one are unparsed
}
