package detect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// monday is one at midnight.
const monday = 2000 * 7 * day

// count draws a Poisson count.
func count(r *rand.Rand, mean float64) int {
	n, p := 0, 1.0
	for {
		if p *= r.Float64(); p < math.Exp(-mean) {
			return n
		}
		n++
	}
}

// taught is a baseline that has seen five weeks of a site with a fixed scan of
// level and a day of 5 to 35 successes a bin, of which odds fail.
func taught(level, odds float64) *Baseline {
	b := newBaseline()
	for at := int64(monday); at < monday+35*day; at += hour {
		s := swing(at)
		bin := steady(at, level, odds, s)
		for i := range int64(hour / Width) {
			bin.Start = at + i*Width
			b.learn(&bin, true)
		}
	}
	return b
}

func swing(at int64) float64 { return math.Round(20 - 15*math.Cos(2*math.Pi*float64(at%day)/day)) }

// steady is a bin without scatter: half of cold failures are of new networks
// and a tenth of unknown accounts.
func steady(at int64, level, odds, successes float64) Bin {
	f := level + odds*successes
	b := Bin{Start: at, Unknown: int(math.Round(f / 10)), NewNetwork: int(math.Round(f / 2))}
	b.Count[Success], b.Count[Cold], b.Count[Warm] = int(successes), int(math.Round(f)), int(successes/5)
	return b
}

func TestAffineTellsScanFromOdds(t *testing.T) {
	b := taught(12, 0.4)
	f := b.fits[yFailed]
	if math.Abs(f.odds-0.4) > 0.02 {
		t.Errorf("odds %.3f, want 0.4", f.odds)
	}
	for h, level := range f.level {
		if math.Abs(level-12) > 0.8 {
			t.Errorf("hour %d: level %.2f, want 12", h, level)
		}
	}
	// A crowd of six times as many has six times the honest failures, and no more scan.
	if got := b.expect(yFailed, monday, 210); math.Abs(got-96) > 5 {
		t.Errorf("of 210 successes %.1f failures are expected, want 96", got)
	}
	if got := b.Successes(monday + 12*hour); got != 35 {
		t.Errorf("at noon %.1f successes are usual, want 35", got)
	}
}

// TestAffineIsOutvotedByNoBadWeek: one week in five of something else changes nothing.
func TestAffineIsOutvotedByNoBadWeek(t *testing.T) {
	b := newBaseline()
	for at := int64(monday); at < monday+35*day; at += hour {
		level := 12.0
		if at >= monday+14*day && at < monday+21*day {
			level = 80
		}
		bin := steady(at, level, 0.4, swing(at))
		for i := range int64(hour / Width) {
			bin.Start = at + i*Width
			b.learn(&bin, true)
		}
	}
	if got := b.expect(yFailed, monday, 20); math.Abs(got-20) > 3 {
		t.Errorf("%.1f failures are expected of 20 successes, want 20", got)
	}
}

// TestAffineIsNotTaughtAnAttack: who grows it slowly moves what is normal by a
// tenth a day, and no faster.
func TestAffineIsNotTaughtAnAttack(t *testing.T) {
	b := taught(12, 0.4)
	was := b.expect(yFailed, monday, 20)
	for at := int64(monday + 35*day); at < monday+38*day; at += hour {
		bin := steady(at, 500, 0.4, swing(at))
		for i := range int64(hour / Width) {
			bin.Start = at + i*Width
			b.learn(&bin, true)
		}
	}
	if got, most := b.expect(yFailed, monday, 20), was*math.Pow(1+slow, 3)+0.1; got > most {
		t.Errorf("after three days %.1f failures are expected, at most %.1f may be", got, most)
	}
}

// Guesses that come and go with honest people look like odds. Of those, too, no
// more is learned in a day, whichever way.
func TestAffineIsNotTaughtOtherOdds(t *testing.T) {
	for _, odds := range []float64{0.1, 0.8} {
		other := taught(12, odds)
		a := taught(12, 0.4).fits[yFailed]
		was := a.odds
		a.fit(&other.h, yFailed, true, nil)
		if want := clamp(odds, was*(1-slow), was*(1+slow)+1e-4); math.Abs(a.odds-want) > 1e-9 {
			t.Errorf("a day after %.3f, of %.1f: odds of %.3f, want %.3f", was, odds, a.odds, want)
		}
		a.known = false // where nothing is known it is learned at once
		a.fit(&other.h, yFailed, true, nil)
		if math.Abs(a.odds-odds) > 0.05 {
			t.Errorf("at first: odds of %.3f, want %.1f", a.odds, odds)
		}
	}
}

func TestBaselineLearnsForAWeekFirst(t *testing.T) {
	b := newBaseline()
	if !b.Learning() || b.expect(yFailed, monday, 10) != 10*priorOdds || b.expect(yCold, monday, 10) != 10*priorOdds {
		t.Errorf("learning %v, expects %v and %v of 10", b.Learning(), b.expect(yFailed, monday, 10), b.expect(yCold, monday, 10))
	}
	for at := int64(monday); at < monday+7*day+2*hour; at += Width {
		bin := Bin{Start: at}
		if b.learn(&bin, true); b.Learning() != (at < monday+7*day) {
			t.Fatalf("after %d hours learning is %v", (at-monday)/hour, b.Learning())
		}
	}
}

// TestHistoryKeepsNoHalfHours: of an hour that was mostly an alarm nothing is learnt.
func TestHistoryKeepsNoHalfHours(t *testing.T) {
	var h history
	for i := range int64(2 * hour / Width) {
		b := Bin{Start: monday + i*Width}
		h.add(&b, 1, &[ys]float64{}, i%3 == 0)
	}
	if _, ok := h.at(monday / hour); ok {
		t.Error("an hour with a third of calm was kept")
	}
}

func TestCusumForgets(t *testing.T) {
	c := cusum{limit: 5}
	for range 1000 {
		c.add(3)
	}
	if c.value != most*5 {
		t.Errorf("%v, want no more than %v", c.value, most*5)
	}
	for range 6 {
		c.add(-1)
	}
	if c.value != 0 || c.over() {
		t.Errorf("%v after as many steps down", c.value)
	}
	c.add(-1)
	if c.value != 0 {
		t.Errorf("%v, below zero", c.value)
	}
}

func TestVolume(t *testing.T) {
	// Everything a bin: 40 successes of which a tenth fail beside a scan of 8.
	for _, s := range []struct {
		name   string
		extra  float64
		within int // bins; 0: never, in a day
	}{
		{"nothing", 0, 0},
		{"under the gate", 8, 0}, // 48 a minute, of 312 attempts: sure, and too small
		{"half as many attempts again", 26, 12},
		{"twice the attempts", 52, 5},
		{"four times", 156, 3},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		v := newVolume()
		for range 3 * hour / Width {
			v.step(float64(count(r, 12)), float64(count(r, 40)), 8, 0.1, true)
		}
		found := 0
		for i := range int(day / Width) {
			if v.alarm(v.step(float64(count(r, 12+s.extra)), float64(count(r, 40)), 8, 0.1, true)) {
				found = i + 1
				break
			}
		}
		if found > s.within || (found == 0) != (s.within == 0) {
			t.Errorf("%s: alarm after %d bins, want %d", s.name, found, s.within)
		}
	}
}

// TestVolumeCountsNoCrowd: ten times the people make ten times the honest
// failures, and that is all.
func TestVolumeCountsNoCrowd(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	v := newVolume()
	for i := range int(6 * hour / Width) {
		people := 40.0
		if i > 720 && i < 1080 {
			people = 400
		}
		if z := v.step(float64(count(r, 8+people/10)), float64(count(r, people)), 8, 0.1, true); v.alarm(z) {
			t.Fatalf("alarm in bin %d with %.0f people", i, people)
		}
	}
}

// TestVolumeLearnsNoAttackAway: the offset follows a rise of a third, which
// may be the site's own, and stays where it is while something is added up.
func TestVolumeLearnsNoAttackAway(t *testing.T) {
	v := newVolume()
	for range 24 * hour / Width {
		v.step(13, 40, 8, 0.1, true)
	}
	if off := v.drift.value / v.sum.value; off < 0.05 || off > 0.1 {
		t.Errorf("after a day of a twelfth more the offset is %.3f", off)
	}
	was := v.drift.value
	for range 24 * hour / Width {
		v.step(60, 40, 8, 0.1, true)
	}
	if v.drift.value > was+2 {
		t.Errorf("an attack moved the offset from %.2f to %.2f", was, v.drift.value)
	}
}

func TestSpreadIsOfTheMiddle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := newSpread(360)
	for i := range 360 * 60 {
		z := r.NormFloat64() * math.Sqrt(3)
		if i%10 == 0 {
			z = 50 // says nothing
		}
		s.add(z)
	}
	if f := s.factor(); f < 2.5 || f > 4.2 {
		t.Errorf("factor %.2f, want about 3", f)
	}
}

// TestStructure: of 12 failures a bin half are of new networks and a tenth of
// unknown accounts. What the site's own mix gives says nothing for weeks; an
// attack of a third shows in both.
func TestStructure(t *testing.T) {
	base := taught(4, 0.4)
	r := rand.New(rand.NewPCG(7, 8))
	run := func(bins int, network, unknown float64, stop bool) (int, []Channel) {
		s := newStructure()
		for i := range bins {
			b := Bin{Start: monday + int64(i)*Width}
			b.Count[Success] = 20
			n := count(r, 12)
			b.Count[Cold] = n
			for range n {
				b.NewNetwork += one(r.Float64() < network)
				b.Unknown += one(r.Float64() < unknown)
			}
			s.step(&b, base, true)
			if list := s.over(); len(list) >= 2 || len(list) > 0 && !stop {
				return i + 1, list
			}
		}
		return 0, nil
	}
	if i, list := run(int(7*day/Width), 0.5, 0.1, false); i != 0 {
		t.Errorf("%v over in bin %d without anything", list, i)
	}
	i, list := run(int(hour/Width), 0.70, 0.40, true)
	if i == 0 || i > 60 || len(list) != 2 || list[0] != ChannelUnknown || list[1] != ChannelNetwork {
		t.Errorf("%v over after %d bins, want unknown accounts and new networks within 60", list, i)
	}
}

// TestStructureLeavesOutWhoSolves: while strangers are asked, whoever solves what
// they are asked is honest. A crowd of them says nothing, and hides nothing.
func TestStructureLeavesOutWhoSolves(t *testing.T) {
	base := taught(4, 0.4)
	r := rand.New(rand.NewPCG(17, 18))
	run := func(bins int, guesses, network float64) int {
		s := newStructure()
		for i := range bins {
			b := Bin{Start: monday + int64(i)*Width}
			b.Count[Success] = 20
			honest, others := count(r, 12), count(r, guesses)
			b.Count[Unsolved], b.Solved = honest+others, honest
			for range honest {
				b.NewNetwork += one(r.Float64() < 0.5)
			}
			for range others {
				b.NewNetwork += one(r.Float64() < network)
			}
			s.step(&b, base, true)
			if len(s.over()) > 0 {
				return i + 1
			}
		}
		return 0
	}
	if i := run(int(3*hour/Width), 6, 0.5); i != 0 {
		t.Errorf("people who solve what they are asked are an attack in bin %d", i)
	}
	if i := run(int(hour/Width), 12, 0.8); i == 0 || i > 60 {
		t.Errorf("an attack among as many who solve is seen in bin %d, want within 60", i)
	}
}

// TestStructureIsNotBluntedByItsFirstDay: how far everything was off while nothing
// was known is not how much it scatters. It once made the channels' limits
// twenty times as high for months.
func TestStructureIsNotBluntedByItsFirstDay(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	w := NewWatch()
	for i := range int64(9 * day / Width) {
		b := Bin{Start: monday + i*Width}
		b.Count[Success], b.Count[Cold] = 20+int(i/8640%5), count(r, 12)
		for range b.Count[Cold] {
			b.NewNetwork += one(r.Float64() < 0.5)
			b.Unknown += one(r.Float64() < 0.2)
			b.NewAccount += one(r.Float64() < 0.6)
			b.Breached += one(r.Float64() < 0.4)
			b.UA[r.IntN(4)]++
		}
		w.Step(&b, false)
	}
	for i := range w.structure.one {
		if f := w.structure.one[i].spread.factor(); f > 2 {
			t.Errorf("%v: a factor of %.1f", Channel(i), f)
		}
	}
	for i := range w.structure.ua[:4] {
		if f := w.structure.ua[i].spread.factor(); f > 2 {
			t.Errorf("user agent %d: a factor of %.1f", i, f)
		}
	}
}

func TestOutageAndSurge(t *testing.T) {
	base := taught(4, 0.4)
	noon := int64(monday + 12*hour) // 35 successes, 7 warm failures, 18 cold ones
	for _, s := range []struct {
		name        string
		b           Bin
		down, surge bool
	}{
		{"as ever", Bin{Count: [Classes]int{Success: 35, Warm: 7, Cold: 18}}, false, false},
		{"not checked", Bin{Count: [Classes]int{Success: 20, Warm: 4, Cold: 9}, NotChecked: 15}, true, false},
		{"everybody fails", Bin{Count: [Classes]int{Success: 2, Warm: 40, Cold: 40}}, true, false},
		{"an attack that drowns the site", Bin{Count: [Classes]int{Success: 10, Warm: 5, Cold: 900}}, false, false},
		{"a night at noon", Bin{Count: [Classes]int{Success: 5, Warm: 1, Cold: 6}}, false, false},
		{"a crowd", Bin{Count: [Classes]int{Success: 200, Warm: 40, Cold: 150}}, false, true},
		{"half a day's people, who fail as ever", Bin{Count: [Classes]int{Success: 15, Warm: 7, Cold: 18}}, false, false},
		{"everybody mistypes and gets in", Bin{Count: [Classes]int{Success: 35, Warm: 40, Cold: 40}}, false, false},
		{"an attack in a crowd", Bin{Count: [Classes]int{Success: 200, Warm: 40, Cold: 600}}, false, false},
	} {
		o := newOutage()
		var down, surge bool
		for i := range int64(30) {
			s.b.Start = noon + i*Width
			down, surge = o.step(&s.b, base)
		}
		if down != s.down || surge != s.surge {
			t.Errorf("%s: outage %v, surge %v", s.name, down, surge)
		}
	}
}

// TestOutageHasAnAftermath: people go on trying for a while.
func TestOutageHasAnAftermath(t *testing.T) {
	base, o := taught(4, 0.4), newOutage()
	at := int64(monday + 12*hour)
	for range 12 {
		o.step(&Bin{Start: at, NotChecked: 100}, base)
		at += Width
	}
	calm := Bin{Count: [Classes]int{Success: 35, Warm: 7, Cold: 18}}
	until := int64(0)
	for range 120 {
		calm.Start = at
		if down, _ := o.step(&calm, base); down {
			until = at
		}
		at += Width
	}
	if after := until - (monday + 12*hour + 12*Width); after < aftermath || after > 2*aftermath {
		t.Errorf("the outage lasts %d s after its end", after/second)
	}
}

// TestOutageOfASmallSite: one outcome that was not compared, or one failure at home,
// at a site where next to nothing happens says nothing; nor does a crowd where it is
// not known how many are usual.
func TestOutageOfASmallSite(t *testing.T) {
	small := taught(4, 0.4)
	noon := int64(monday + 12*hour)
	for h := range small.success {
		small.success[h] = 0.3
	}
	unwarm := taught(4, 0.4)
	unwarm.fits[yWarm] = affine{}
	for _, s := range []struct {
		name  string
		base  *Baseline
		quiet int
		b     Bin
	}{
		{"one not checked", small, 90, Bin{NotChecked: 3}},
		{"some at home fail", small, 0, Bin{Count: [Classes]int{Warm: 5}}},
		{"one at home fails", unwarm, 90, Bin{Count: [Classes]int{Warm: 1}}},
		{"nothing is known", newBaseline(), 0, Bin{Count: [Classes]int{Success: 50}}},
	} {
		o := newOutage()
		for i := range int64(s.quiet) {
			o.step(&Bin{Start: noon + (i-100)*Width}, s.base)
		}
		s.b.Start = noon
		if down, surge := o.step(&s.b, s.base); down || surge {
			t.Errorf("%s: outage %v, surge %v", s.name, down, surge)
		}
	}
	// What scans all day does not hide that a crowd fails no more often than it may.
	o, base := newOutage(), taught(60, 0.1)
	if _, surge := o.step(&Bin{Start: noon, Count: [Classes]int{Success: 200, Cold: 90}}, base); !surge {
		t.Error("a crowd beside a scan is no surge")
	}
}
