package sim

import (
	"os"
	"strconv"
	"testing"

	"github.com/guardd/guardd/aggregate/detect"
)

// seeds is the first of those that figures are measured on.
var seeds = func() int64 {
	if os.Getenv("GUARDD_SEEDS") == "tuning" {
		return 0
	}
	return Reporting
}()

// weeks of the false alarms; the claim is of 26.
func weeks(t *testing.T) int {
	if s := os.Getenv("GUARDD_WEEKS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("GUARDD_WEEKS is %q", s)
		}
		return n
	}
	return 4
}

// TestFalseAlarms: with flash crowds, resets, outages, offices and stale
// applications. At most one a week, at 1M a day and more at most a quarter, and
// none in an outage.
func TestFalseAlarms(t *testing.T) {
	for _, s := range []struct {
		perDay, most float64
	}{{75_000, 1}, {750_000, 1}, {1_200_000, 0.25}} {
		t.Run(strconv.Itoa(int(s.perDay)), func(t *testing.T) {
			t.Parallel()
			n := weeks(t)
			alarms, up := FalseAlarms(s.perDay, seeds+1, n, nil)
			perWeek := float64(len(alarms)) / float64(n)
			t.Logf("%.2f false alarms a week in %d weeks, up %.3f %% of the time", perWeek, n, 100*float64(up)*float64(detect.Width)/float64(n)/float64(week))
			for _, a := range alarms {
				t.Logf("%v", a)
				if a.InOutage() {
					t.Errorf("an outage tightened: %v", a)
				}
			}
			if perWeek > s.most {
				t.Errorf("%.2f false alarms a week, at most %v", perWeek, s.most)
			}
		})
	}
}

// TestAttacksAreFound holds detection to its figures, in bins.
func TestAttacksAreFound(t *testing.T) {
	stuffing, _ := AttackNamed("stuffing-8000x4")
	slow, _ := AttackNamed("low-and-slow")
	canary, _ := AttackNamed("canary")
	const perDay = 750_000
	learnt := Learn(perDay, seeds+1)
	half := map[string]int64{}
	for _, s := range []struct {
		name     string
		a        Attack
		p50, p95 int64 // seconds
	}{
		{"+50 %", stuffing.At(0.5), 60, 120},
		{"+100 %", stuffing.At(1), 60, 120},
		{"+300 %", stuffing.At(3), 45, 45},
		{"low-and-slow", slow, 1800, 1800},
		{"canary", canary.At(1), 72, 144},
	} {
		times, err := InBins(perDay, learnt, s.a, seeds+101, 40)
		if err != nil {
			t.Fatal(err)
		}
		p50, p95 := Quantile(times.Found, 0.5)/second, Quantile(times.Found, 0.95)/second
		half[s.name] = p50
		// One of twenty may take longer: what scans in the background can look like
		// the attack going on, for as long as it does.
		relaxed := Quantile(times.Relaxed, 0.95)
		if relaxed > 30*minute {
			t.Errorf("%s: one of twenty was back to normal only %d min after its end", s.name, relaxed/minute)
		}
		if times.Early > 4 {
			t.Errorf("%s: only %d of 40 runs began calm", s.name, len(times.Found))
		}
		t.Logf("%s at %.0f a minute: found within %d s (half) and %d s (95 %%) in %d runs, normal again after %d min (95 %%)",
			s.name, s.a.PerMinute(perDay/1440.0), p50, p95, len(times.Found), relaxed/minute)
		if p50 > s.p50 || p95 > s.p95 {
			t.Errorf("%s: found within %d s and %d s, want %d and %d", s.name, p50, p95, s.p50, s.p95)
		}
	}
	if a, b := half["+100 %"], half["canary"]; float64(b) >= 1.2*float64(a) {
		t.Errorf("with sign-ins of his own an attacker is found within %d s, without within %d", b, a)
	}
}

// TestOnOffHoldsTheLevel: the second wave finds the level where the first left it.
func TestOnOffHoldsTheLevel(t *testing.T) {
	const perDay = 750_000
	a, _ := AttackNamed("on-off")
	w, err := detect.Load(Learn(perDay, seeds))
	if err != nil {
		t.Fatal(err)
	}
	s := &Site{Bins: NewBins(perDay, seeds+5, Start+10*hour, false), Watch: w}
	s.Run(hour)
	from := s.Bins.at
	s.Bins.Attack(a, from, from+2*hour)
	s.Run(10 * minute)
	top := s.Control.Level()
	if top != detect.Critical {
		t.Fatalf("after the first ten minutes the level is %v", top)
	}
	for s.Bins.at < from+2*hour {
		if _, _, d := s.Step(); d.Level != top {
			t.Fatalf("%d min after the beginning the level is %v", (s.Bins.at-from)/minute, d.Level)
		}
	}
}
