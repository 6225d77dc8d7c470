package plans

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestPeriods: where a period begins and ends, on both sides of the moment.
func TestPeriods(t *testing.T) {
	for _, s := range []struct {
		per            Per
		zone           string
		anchor         int
		at, start, end string
	}{
		{PerMonth, "UTC", 1, "2026-11-30T23:59:59.999999Z", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{PerMonth, "UTC", 1, "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{PerMonth, "UTC", 15, "2026-01-14T23:59:59Z", "2025-12-15T00:00:00Z", "2026-01-15T00:00:00Z"},
		{PerMonth, "UTC", 15, "2026-01-15T00:00:00Z", "2026-01-15T00:00:00Z", "2026-02-15T00:00:00Z"},
		// A month without such a day begins on its last, and the next has it again.
		{PerMonth, "UTC", 31, "2026-01-31T00:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{PerMonth, "UTC", 31, "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{PerMonth, "UTC", 31, "2026-03-30T12:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{PerMonth, "UTC", 31, "2026-04-30T12:00:00Z", "2026-04-30T00:00:00Z", "2026-05-31T00:00:00Z"},
		{PerMonth, "UTC", 29, "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-29T00:00:00Z"},
		{PerMonth, "UTC", 30, "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z"},
		{PerMonth, "UTC", 30, "2026-03-01T12:00:00Z", "2026-02-28T00:00:00Z", "2026-03-30T00:00:00Z"},
		{PerMonth, "UTC", 31, "2100-02-28T12:00:00Z", "2100-02-28T00:00:00Z", "2100-03-31T00:00:00Z"}, // no leap year
		// The customer's midnight, and months as long as his clocks make them.
		{PerMonth, "Europe/Berlin", 1, "2026-02-28T23:00:00Z", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z"},
		{PerMonth, "America/Los_Angeles", 1, "2026-12-01T07:59:59Z", "2026-11-01T07:00:00Z", "2026-12-01T08:00:00Z"},
		{PerDay, "UTC", 1, "2026-12-31T12:00:00Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{PerDay, "Europe/Berlin", 1, "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{PerDay, "Europe/Berlin", 1, "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		// Clocks that are put forward, or back, over midnight itself.
		{PerDay, "America/Santiago", 1, "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"},
		{PerDay, "America/Santiago", 1, "2026-09-06T03:59:59Z", "2026-09-05T04:00:00Z", "2026-09-06T04:00:00Z"},
		{PerDay, "Asia/Amman", 1, "2021-10-29T12:00:00Z", "2021-10-28T21:00:00Z", "2021-10-29T22:00:00Z"},
		{PerDay, "America/Havana", 1, "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, s.at)
		if err != nil {
			t.Fatal(err)
		}
		c := Calendar{s.per, zone(t, s.zone), s.anchor}
		start, end := c.Period(at)
		if got := [2]string{start.UTC().Format(time.RFC3339Nano), end.UTC().Format(time.RFC3339Nano)}; got != [2]string{s.start, s.end} {
			t.Errorf("%s in %s, anchor %d, at %s: %s, want %s to %s", s.per, s.zone, s.anchor, s.at, got, s.start, s.end)
		}
	}
}

// TestPeriodsFollowOneAnother: every moment is in one period, and that in no other.
func TestPeriodsFollowOneAnother(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/Santiago", "America/Havana", "Asia/Beirut", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		z, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		c := Calendar{rapid.SampledFrom([]Per{PerMonth, PerDay}).Draw(t, "per"), z, rapid.IntRange(1, 31).Draw(t, "anchor")}
		at := time.Unix(rapid.Int64Range(1.5e9, 2.5e9).Draw(t, "at"), 0)
		start, end := c.Period(at)
		if at.Before(start) || !at.Before(end) || !start.Before(end) {
			t.Fatalf("%v is not from %v to %v", at, start, end)
		}
		for _, in := range []time.Time{start, end.Add(-time.Microsecond)} {
			if s, e := c.Period(in); !s.Equal(start) || !e.Equal(end) {
				t.Fatalf("%v is in %v to %v, and not in %v to %v", in, s, e, start, end)
			}
		}
		if s, _ := c.Period(end); !s.Equal(end) {
			t.Fatalf("the next begins %v, not %v", s, end)
		}
		if s, e := c.Period(start.Add(-time.Microsecond)); !e.Equal(start) {
			t.Fatalf("the one before is %v to %v, and does not end %v", s, e, start)
		}
	})
}
