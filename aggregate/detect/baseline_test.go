package detect

import (
	"math"
	"testing"
)

// hours shows b an hour's bins, all the same, for each hour of so many days.
func hours(b *Baseline, from int64, days int, of func(at int64) Bin) (next int64) {
	at := from
	for ; at < from+int64(days)*day; at += hour {
		bin := of(at)
		for i := range int64(hour / Width) {
			bin.Start = at + i*Width
			b.learn(&bin, true)
		}
	}
	return at
}

func near(t *testing.T, what string, got, want, off float64) {
	t.Helper()
	if math.Abs(got-want) > off || math.IsNaN(got) {
		t.Errorf("%s: %.2f, want %.2f", what, got, want)
	}
}

const saturday = monday + 5*day

// TestBaselineKnowsTheWeekend: what is usual on a weekday is not on a weekend, once
// both were seen often enough.
func TestBaselineKnowsTheWeekend(t *testing.T) {
	b := newBaseline()
	hours(b, monday, 28, func(at int64) Bin {
		s, scan := swing(at), 12.0
		if at >= monday+5*day && (at-monday)%(7*day) >= 5*day {
			s, scan = s+20, 40
		}
		return steady(at, scan, 0.4, s)
	})
	for at, want := range map[int64]float64{monday: 12, saturday: 40} {
		near(t, "failures beside successes", b.expect(yFailed, at+12*hour, 0), want, 1.5)
		near(t, "successes at noon", b.Successes(at+12*hour), 35+float64((want-12)/28*20), 0.01)
	}
}

// TestBaselineBorrowsOtherDays until each hour of the week was seen twice: one bad
// Wednesday is outvoted, and of a Sunday that is yet to come something is known.
func TestBaselineBorrowsOtherDays(t *testing.T) {
	b := newBaseline()
	hours(b, monday, 5, func(at int64) Bin {
		level := 12.0
		if at >= monday+2*day && at < monday+3*day {
			level = 80
		}
		return steady(at, level, 0.4, swing(at))
	})
	for _, d := range []int64{2, 6} {
		near(t, "failures beside successes", b.expect(yFailed, monday+d*day+12*hour, 0), 12, 1.5)
		near(t, "successes at noon", b.Successes(monday+d*day+12*hour), 35, 0.01)
	}
}

// TestAffineNeedsPairs that differ, and enough of them: else what is noise would be
// taken for odds, and a crowd for an attack or the other way round.
func TestAffineNeedsPairs(t *testing.T) {
	for name, s := range map[string]struct {
		days int
		of   func(at int64) Bin
	}{
		"successes that hardly differ": {4, func(at int64) Bin {
			n := at / hour * 7 % 5
			return Bin{Count: [Classes]int{Success: 20 + int(n%2), Cold: 4 + 3*int(n)}}
		}},
		"one odd hour": {2, func(at int64) Bin {
			b := Bin{Count: [Classes]int{Success: 20, Cold: 6}}
			if at == monday+day+13*hour {
				b.Count = [Classes]int{Success: 2, Cold: 90}
			}
			return b
		}},
	} {
		b := newBaseline()
		hours(b, monday, s.days, s.of)
		b.fits[yFailed].fit(&b.h, yFailed, false, nil)
		near(t, name, b.fits[yFailed].odds, priorOdds, 0)
	}
}

// TestAffineIsNeverBelowNothing: where more fail when fewer are in (who guesses does
// it at night) a crowd does not make failures that would be less than none.
func TestAffineIsNeverBelowNothing(t *testing.T) {
	b := newBaseline()
	hours(b, monday, 10, func(at int64) Bin {
		return Bin{Count: [Classes]int{Success: int(swing(at)), Cold: 40 - int(swing(at))}}
	})
	near(t, "odds", b.fits[yFailed].odds, 0, 0)
	// And at hours at which nobody fails the level is none.
	b = newBaseline()
	hours(b, monday, 10, func(at int64) Bin {
		bin := steady(at, 0, 0.4, swing(at))
		if at%day/hour >= 10 && at%day/hour < 14 {
			bin.Count[Cold] = 0
		}
		return bin
	})
	near(t, "failures at noon", b.expect(yFailed, monday+12*hour, 10), 4, 0.3)
}

// TestLevelsMoveByATenthADay, whichever way; and what stays for weeks is normal at last.
func TestLevelsMoveByATenthADay(t *testing.T) {
	for _, level := range []float64{1, 60} {
		other := taught(level, 0.4)
		a := taught(12, 0.4).fits[yFailed]
		was := a.level
		a.fit(&other.h, yFailed, true, nil)
		for s := range a.level {
			near(t, "a day later", a.level[s], clamp(level, was[s]*(1-slow)-1e-3, was[s]*(1+slow)+1e-3), 1e-9)
		}
	}
	b := taught(12, 0.4)
	at, was := int64(monday+35*day), b.expect(yFailed, monday, 20)
	first := was
	for range 24 {
		at = hours(b, at, 1, func(at int64) Bin { return steady(at, 60, 0.4, swing(at)) })
		is := b.expect(yFailed, monday, 20)
		if is > was*(1+slow)+0.1 {
			t.Errorf("from %.1f to %.1f in a day", was, is)
		}
		was = is
	}
	if was < 1.3*first {
		t.Errorf("after three weeks of 68 a bin %.1f are expected, %.1f were", was, first)
	}
}

// TestSizeIsThreeTimesWhatStrangersSpend in the busiest of the hours to come, for
// ten minutes; of what was given back nobody has spent anything.
func TestSizeIsThreeTimesWhatStrangersSpend(t *testing.T) {
	spending := func(at int64) Bin {
		s := int(swing(at))
		return Bin{Count: [Classes]int{Success: s, Cold: 3 * s}, Taken: 2 * s, Given: s}
	}
	b := newBaseline()
	at := hours(b, monday, 6, spending)
	if _, ok := b.Size(at, 10); ok {
		t.Error("a size is known while it is learnt")
	}
	hours(b, at, 3, spending)
	perMinute := func(a float64) int64 { return int64(math.Ceil(roomy * a * minute / Width)) }
	for _, s := range []struct {
		hour      int64
		successes float64
		want      int64
	}{
		{9, 0, perMinute(34)},     // of the morning: 11 o'clock has 34
		{9, 100, perMinute(100)},  // a crowd's
		{12, 10, perMinute(35)},   // fewer than ever
		{19, 0, perMinute(16.25)}, // of the evening: the first hour
	} {
		got, ok := b.Size(monday+s.hour*hour, s.successes)
		if !ok || math.Abs(float64(got.PerMinute-s.want)) > 0.04*float64(s.want) || got.Capacity != sizeBurst*got.PerMinute {
			t.Errorf("at %d with %.0f successes: %+v, want %d a minute", s.hour, s.successes, got, s.want)
		}
	}
	b = newBaseline()
	at = hours(b, monday, 8, func(int64) Bin { return Bin{} })
	if got, ok := b.Size(at, 0); !ok || got.PerMinute != sizeLeast {
		t.Errorf("where nobody spends anything: %+v, %v", got, ok)
	}
}

// TestBaselineKnowsEachCountByItself: no two are taken for one another.
func TestBaselineKnowsEachCountByItself(t *testing.T) {
	b := Bin{Count: [Classes]int{Success: 1, Warm: 2, Cold: 30, Repeat: 4, Unsolved: 5}, Solved: 3, NotChecked: 6, Taken: 70, Given: 8,
		Unknown: 9, NewNetwork: 10, NewAccount: 11, Breached: 12, UA: [Groups]int{13, 14, Groups - 1: 15}}
	x, y := values(&b)
	want := [ys]float64{yFailed: 32, yCold: 30, yUnknown: 9, yNetwork: 10, yAccount: 11, yBreached: 12, yWarm: 2, yNet: 62,
		yUA: 13, yUA + 1: 14, yUA + Groups - 1: 15}
	if x != 1 || y != want {
		t.Errorf("%v, %v, want %v", x, y, want)
	}
}

// TestHistoryIsOfCalmBins: an hour's mean is that of its calm part; of an hour that
// was seen in part only, or four weeks ago, nothing is known.
func TestHistoryIsOfCalmBins(t *testing.T) {
	var h history
	for i := range int64(hour / Width) {
		n := 6.0
		if i%3 == 0 {
			n = 100
		}
		h.add(&Bin{Start: monday + i*Width}, n, &[ys]float64{yFailed: 2 * n}, i%3 != 0)
	}
	const hr = monday / hour
	h.add(&Bin{Start: monday + hour}, 1, &[ys]float64{}, true)
	if p, ok := h.at(hr); !ok || p.x != 6 || p.y[yFailed] != 12 {
		t.Errorf("the hour's mean is %v, %v", p, ok)
	}
	h.add(&Bin{Start: monday + 2*hour}, 1, &[ys]float64{}, true)
	if _, ok := h.at(hr + 1); ok {
		t.Error("one bin is taken for an hour")
	}
	if _, ok := h.at(hr + remembered); ok {
		t.Error("four weeks later it is taken for that hour")
	}
}
