package sim

import (
	"os"
	"testing"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// tap sums the bins that a watch is given.
type tap struct {
	aggregate.Watch
	sum *detect.Bin
	n   *int
}

func (t tap) Bin(b *detect.Bin) aggregate.Act {
	*t.n++
	t.sum.Add(b)
	return t.Watch.Bin(b)
}

// TestBothLevelsAgree runs the same site attempt by attempt, through the guard,
// the twin and the aggregator, and as bins, and compares what detection is fed
// with: a tenth of a day, or a whole week with GUARDD_SOAK.
func TestBothLevelsAgree(t *testing.T) {
	const perDay = 200_000
	long := int64(2 * hour)
	if os.Getenv("GUARDD_SOAK") != "" {
		long = week
	}
	var by detect.Bin
	n := 0
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: perDay, Seed: seeds + 3, Before: long / 2, During: long / 4, After: long / 4,
		Learnt: Learn(perDay, seeds+3), tap: func(w aggregate.Watch) aggregate.Watch { return tap{w, &by, &n} }}
	s := Scenario{Name: "nothing"}
	score, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if score.Posture >= 0 || score.Top > keys.Normal {
		t.Errorf("without an attack the posture rose to %v", score.Top)
	}
	// The same hours of the week in bins, over many seeds: one alone drifts.
	var bins detect.Bin
	const times = 8
	when := newRandom(seeds+3, 31)
	begin := Start + int64(when.IntN(5))*day + int64(when.between(8, 15)*float64(hour))
	for i := range int64(times) {
		g := NewBins(perDay, seeds+20+i, begin/detect.Width*detect.Width, false)
		for range n {
			b := g.Next()
			bins.Add(&b)
		}
	}
	share := func(a, b int) float64 { return float64(a) / float64(max(b, 1)) }
	for _, x := range []struct {
		what  string
		event float64
		bin   float64
		off   float64 // how far they may be apart, of the latter
	}{
		{"successes", float64(by.Count[detect.Success]), float64(bins.Count[detect.Success]) / times, 0.25},
		{"cold failures a success", share(by.Failed(), by.Count[detect.Success]), share(bins.Failed(), bins.Count[detect.Success]), 0.25},
		{"warm failures a success", share(by.Count[detect.Warm], by.Count[detect.Success]), share(bins.Count[detect.Warm], bins.Count[detect.Success]), 0.4},
		{"tokens taken a success", share(by.Taken, by.Count[detect.Success]), share(bins.Taken, bins.Count[detect.Success]), 0.25},
		{"unknown accounts", share(by.Unknown, by.Failed()), share(bins.Unknown, bins.Failed()), 0.25},
		{"new networks", share(by.NewNetwork, by.Failed()), share(bins.NewNetwork, bins.Failed()), 0.35},
		{"each account once", share(by.NewAccount, by.Count[detect.Cold]), share(bins.NewAccount, bins.Count[detect.Cold]), 0.1},
		{"leaked passwords", share(by.Breached, by.Failed()), share(bins.Breached, bins.Failed()), 0.25},
	} {
		t.Logf("%s: %.3f by event, %.3f in bins", x.what, x.event, x.bin)
		if x.event < x.bin*(1-x.off) || x.event > x.bin*(1+x.off) {
			t.Errorf("%s: %.3f by event, %.3f in bins", x.what, x.event, x.bin)
		}
	}
	if s := share(score.New, score.Honest); s < 0.10 {
		t.Errorf("%.3f of honest logins are on unknown devices, want a tenth", s)
	}
}

// TestStuffingIsStopped, at a site of a tenth of the size that figures are given
// for, attempt by attempt: with detection hardly a guess is served once it was
// seen, nobody is locked out, nobody known is asked, and it ends. Without
// detection nearly all are served.
func TestStuffingIsStopped(t *testing.T) {
	const perDay = 75_000
	s, err := ScenarioNamed("stuffing-8000x4")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: perDay, Volume: 2, Seed: seeds + 4, Learnt: Learn(perDay, seeds+4),
		Before: hour / 2, During: hour / 2, After: hour}
	with, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	c.Static = true
	without, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("with detection: %d of %d guesses served, %d of %d after %d s; %d of %d honest logins asked; normal %d min after the end",
		with.Served, with.Guesses, with.ServedAfter, with.GuessesAfter, with.Posture/second, with.Challenged, with.Honest, with.Relaxed/minute)
	t.Logf("limits alone: %d of %d served, %d of %d honest logins asked", without.Served, without.Guesses, without.Challenged, without.Honest)
	switch {
	case with.Posture < 0 || with.Posture > 120*second:
		t.Errorf("detected after %d s", with.Posture/second)
	case float64(with.ServedAfter) > 0.05*float64(with.GuessesAfter):
		t.Errorf("%d of %d guesses were served after that", with.ServedAfter, with.GuessesAfter)
	case with.LockedOut > 0 || with.KnownAsked > 0:
		t.Errorf("%d locked out, %d known ones asked", with.LockedOut, with.KnownAsked)
	case with.Relaxed < 0 || with.Relaxed > 30*minute:
		t.Errorf("normal again after %d min", with.Relaxed/minute)
	case float64(without.Served) < 0.9*float64(without.Guesses):
		t.Errorf("without detection %d of %d guesses were served", without.Served, without.Guesses)
	}
	if with.Guesses < 2500 {
		t.Errorf("%d guesses", with.Guesses)
	}
}

// TestRunsAreASeedsOwn: a run can be run again.
func TestRunsAreASeedsOwn(t *testing.T) {
	s, _ := ScenarioNamed("hammer")
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: 20_000, Seed: 5, Learnt: Learn(20_000, 5),
		Before: 10 * minute, During: 10 * minute, After: 10 * minute}
	a, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	a.Campaigns, b.Campaigns = nil, nil
	if x, y := *a, *b; x.Guesses != y.Guesses || x.Served != y.Served || x.Challenged != y.Challenged || x.Honest != y.Honest || x.Posture != y.Posture {
		t.Errorf("two runs of one seed: %+v, %+v", x, y)
	}
	c.Seed = 6
	if d, err := s.Run(t.Context(), c); err != nil || d.Honest == a.Honest && d.Guesses == a.Guesses {
		t.Errorf("another seed makes the same: %v", err)
	}
}
