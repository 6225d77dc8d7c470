package sim

import (
	"os"
	"slices"
	"testing"

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
)

// tap keeps the bins that a watch is given.
type tap struct {
	aggregate.Watch
	all *[]detect.Bin
}

func (t tap) Bin(b *detect.Bin) aggregate.Act {
	*t.all = append(*t.all, *b)
	return t.Watch.Bin(b)
}

func sumOf(all []detect.Bin) (sum detect.Bin) {
	for i := range all {
		sum.Add(&all[i])
	}
	return sum
}

// scatter is how much more the counts of five minutes scatter around their
// hour's share than if each failure had the property by itself.
func scatter(all []detect.Bin, of func(*detect.Bin) int) float64 {
	const five, hours = 5 * minute / detect.Width, hour / detect.Width
	sum, n := 0.0, 0.0
	for ; len(all) >= hours; all = all[hours:] {
		whole := sumOf(all[:hours])
		p := float64(of(&whole)) / float64(max(1, whole.Failed()))
		for at := 0; at < hours; at += five {
			part := sumOf(all[at : at+five])
			failed := float64(part.Failed())
			if v := failed * p * (1 - p); v > 0.5 {
				d := float64(of(&part)) - failed*p
				sum, n = sum+d*d/v*hours/(hours-five), n+1
			}
		}
	}
	return sum / max(n, 1)
}

// agentScatter is the scatter of the user agents that many have.
func agentScatter(all []detect.Bin) float64 {
	sum, often := 0.0, []string{"app", "chrome", "safari"}
	for _, c := range often {
		i := slices.Index(classes, c)
		sum += scatter(all, func(b *detect.Bin) int { return b.UA[i] })
	}
	return sum / float64(len(often))
}

// TestBothLevelsAgree runs the same site attempt by attempt, through the guard,
// the twin and the aggregator, and as bins, and compares what detection is fed
// with: two hours, or a whole week with GUARDD_SOAK; and half an hour in which a
// crowd comes, which is other people than usual.
func TestBothLevelsAgree(t *testing.T) {
	long := int64(2 * hour)
	if os.Getenv("GUARDD_SOAK") != "" {
		long = week
	}
	for _, x := range []struct {
		s    Scenario
		long int64
	}{{Scenario{Name: "nothing"}, long}, {Scenario{Name: string(FlashCrowd), Case: FlashCrowd}, hour}} {
		t.Run(x.s.Name, func(t *testing.T) {
			t.Parallel()
			bothLevelsAgree(t, x.s, x.long)
		})
	}
}

func bothLevelsAgree(t *testing.T, s Scenario, long int64) {
	const perDay = 200_000
	var all []detect.Bin
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: perDay, Seed: seeds + 3, Before: long / 2, During: long / 4, After: long / 4,
		Learnt: Learn(perDay, seeds+3), tap: func(w aggregate.Watch) aggregate.Watch { return tap{w, &all} }}
	score, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// One a week is what may be.
	alarms := 0
	for _, k := range score.Campaigns {
		if k.Level > detect.Calm {
			t.Logf("without an attack the posture rose to %v: %s", k.Level, k.Text(func(a string) string { return a }))
			alarms++
		}
	}
	if most := int(long / week); alarms > most {
		t.Errorf("%d alarms, want at most %d", alarms, most)
	}
	if alarms == 0 && score.Posture >= 0 {
		t.Error("people were suspects")
	}
	// The same hours of the week in bins, over many seeds: one alone drifts.
	var bins detect.Bin
	var agents float64
	const times = 8
	when := newRandom(seeds+3, 31)
	begin := Start + int64(when.IntN(5))*day + int64(when.between(8, 15)*float64(hour))
	for i := range int64(times) {
		g := NewBins(perDay, seeds+20+i, begin/detect.Width*detect.Width, false)
		if s.Case != "" {
			span := NewSpan(newRandom(seeds+3, 32), s.Case, begin+c.Before)
			span.To = min(span.To, begin+long)
			g.spans = []Span{span}
		}
		var one []detect.Bin
		for range all {
			one = append(one, g.Next())
		}
		b := sumOf(one)
		bins.Add(&b)
		agents += agentScatter(one) / times
	}
	by := sumOf(all)
	loose := 0.6 // a few hours hold few people
	if long >= week {
		loose = 0.25
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
		{"repeats a success", share(by.Count[detect.Repeat], by.Count[detect.Success]), share(bins.Count[detect.Repeat], bins.Count[detect.Success]), 0.25},
		// By event what scans with sprayed passwords is refused before it takes any.
		{"tokens a success", share(by.Taken+by.Count[detect.Unsolved]-by.Solved, by.Count[detect.Success]), share(bins.Taken, bins.Count[detect.Success]), 0.25},
		{"unknown accounts", share(by.Unknown, by.Count[detect.Cold]), share(bins.Unknown, bins.Count[detect.Cold]), 0.25},
		{"new networks", share(by.NewNetwork, by.Failed()), share(bins.NewNetwork, bins.Failed()), 0.25},
		{"each account once", share(by.NewAccount, by.Count[detect.Cold]), share(bins.NewAccount, bins.Count[detect.Cold]), 0.1},
		{"leaked passwords", share(by.Breached, by.Failed()), share(bins.Breached, bins.Failed()), 0.25},
		{"scatter of user agents", agentScatter(all), agents, loose},
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

// TestTheBackgroundSolvesNothing: what scans all day is nobody who would look at
// a picture; taken for a person who does, each of its guesses counts twice.
func TestTheBackgroundSolvesNothing(t *testing.T) {
	w, err := newWorld(Config{Policy: escalation.DefaultPolicy(), Seed: 1, Solvers: 1})
	if err != nil {
		t.Fatal(err)
	}
	asked := &escalation.Verdict{Action: escalation.ActionCaptcha, Challenge: &escalation.Challenge{Kind: escalation.KindCaptcha}}
	for range 50 {
		if v, err := w.asked(t.Context(), &login{scan: true}, &escalation.Attempt{}, asked); v != nil || err != nil {
			t.Fatalf("it goes on: %v, %v", v, err)
		}
	}
	// A person does: this token is nobody's, which only who solves it is told.
	for range 50 {
		if _, err := w.asked(t.Context(), &login{}, &escalation.Attempt{}, asked); err != nil {
			return
		}
	}
	t.Error("nobody solves anything")
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
