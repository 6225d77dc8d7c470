package detect

import (
	"math"
	"math/rand/v2"
	"testing"
)

// accustomed has seen three hours of a site with a scan of 8 and 40 successes a
// bin, of which a tenth fail; each bin was the same.
func accustomed() *volume {
	v := newVolume()
	for range 3 * hour / Width {
		v.step(12, 40, 8, 0.1, true)
	}
	return &v
}

// TestVolumeIsImpressedByNoOneBin: a table that was imported, or a reader that
// counts what had waited, is no attack. What lasts is.
func TestVolumeIsImpressedByNoOneBin(t *testing.T) {
	v := accustomed()
	for i := range 60 {
		failed := 12.0
		if i == 3 {
			failed = 5000
		}
		if z := v.step(failed, 40, 8, 0.1, false); v.alarm(z) {
			t.Fatalf("alarm %d bins after the one", i-3)
		}
	}
}

// TestVolumeIsHiddenByNoBurstOfSignIns: an attacker who signs in with a thousand
// accounts of his own in one bin takes five steps back at most of what was added up
// against him, and teaches nobody that fewer fail.
func TestVolumeIsHiddenByNoBurstOfSignIns(t *testing.T) {
	v := accustomed()
	for range 12 {
		v.step(52, 40, 8, 0.1, false)
	}
	was := v.fast.value
	if v.step(52, 2000, 8, 0.1, false); was < fastLimit || v.fast.value < was-4-fastStep {
		t.Errorf("from %.1f it fell to %.1f", was, v.fast.value)
	}
	v = accustomed()
	was = v.drift.value
	if v.step(12, 2000, 8, 0.1, true); v.drift.value < was-0.05 {
		t.Errorf("the offset's deviation went from %.3f to %.3f", was, v.drift.value)
	}
}

// TestVolumeLearnsOnlyFromCalm: not while there is an alarm, and not while either
// CUSUM is on to something.
func TestVolumeLearnsOnlyFromCalm(t *testing.T) {
	for _, s := range []struct {
		name       string
		fast, slow float64 // of their limits
		calm, want bool
	}{
		{"calm", 0, 0, true, true}, {"a little", 0.2, 0.2, true, true},
		{"an alarm", 0, 0, false, false}, {"fast", 0.5, 0, true, false}, {"slow", 0, 0.5, true, false},
	} {
		v := accustomed()
		v.fast.value, v.slow.value = s.fast*fastLimit, s.slow*slowLimit
		was := v.drift.value
		if v.step(13, 40, 8, 0.1, s.calm); (v.drift.value != was) != s.want {
			t.Errorf("%s: learnt is %v", s.name, v.drift.value != was)
		}
	}
}

// TestVolumeGetsUsed to what lasts for hours, within bounds, and to how much counts scatter.
func TestVolumeGetsUsed(t *testing.T) {
	v, z := accustomed(), size{}
	for range day / Width {
		z = v.step(13, 40, 8, 0.1, true)
	}
	if z.excess > 0.3 || math.Abs(z.expected-13) > 0.1 {
		t.Errorf("after a day of 13 a bin %.2f are expected, and %.2f are beyond", z.expected, z.excess)
	}
	for drift, want := range map[float64]float64{1e9: 18, -1e9: 10.2} {
		v.drift.value = drift
		if z := v.step(12, 40, 8, 0.1, false); math.Abs(z.expected-want) > 0.1 {
			t.Errorf("%.1f are expected, want %.1f", z.expected, want)
		}
	}
	v = accustomed()
	for i := range day / Width {
		v.step(12+8*float64(i%2*2-1), 40, 8, 0.1, true)
	}
	// 8 from the middle each time is 2.3 of a Poisson's standard deviations.
	if f := v.spread.factor(); f < 7 || f > 13 {
		t.Errorf("counts of 4 and 20 scatter by a factor of %.1f", f)
	}
}

// TestVolumeSaysHowMuch: the excess of the last minute, two and ten, what has begun
// just now, and what it is measured against.
func TestVolumeSaysHowMuch(t *testing.T) {
	v, z := accustomed(), size{}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.02*want+0.01 {
			t.Errorf("%s: %.2f, want %.2f", what, got, want)
		}
	}
	for i := range 6 {
		z = v.step(72, 40, 8, 0.1, false)
		near("rising", z.rising, map[bool]float64{false: 60}[i < risen-1])
	}
	near("recent", z.recent, 60*(1-math.Exp(-1)))
	near("excess", z.excess, 60*(1-math.Exp(-0.5)))
	near("lasting", z.lasting, 60*(1-math.Exp(-0.1)))
	near("expected", z.expected, 12)
	near("attempts", z.attempts, 52)
	near("gate", z.gate, gateShare*52)
	for v.fast.value > 0 {
		v.step(0, 40, 8, 0.1, false)
	}
	for range risen {
		z = v.step(42, 40, 8, 0.1, false)
	}
	near("rising again", z.rising, 30)
	v = new(volume)
	*v = newVolume()
	near("gate of a small site", v.step(1, 1, 0.5, 0.1, true).gate, gateLeast*Width/minute)
}

// TestVolumeOfAnEmptyRealm: where nothing is expected and nothing comes nothing is
// said, and five guesses a bin are seen.
func TestVolumeOfAnEmptyRealm(t *testing.T) {
	v := newVolume()
	for range 1000 {
		if z := v.step(0, 0, 0, 0.3, true); v.alarm(z) || v.suspicious() {
			t.Fatal("nothing is an attack")
		}
	}
	for range 6 {
		if v.alarm(v.step(5, 0, 0, 0.3, true)) {
			return
		}
	}
	t.Errorf("it is blind: %+v", v.fast)
}

// TestVolumeSlowly: a small site's counts scatter so much that no bin of a small
// attack says anything. Five minutes do, and are forgotten again.
func TestVolumeSlowly(t *testing.T) {
	v := newVolume()
	v.spread.value = 5
	bins := func(n int, some float64) (first int) {
		for i := range n {
			if z := v.step(some+float64(i%2), 1, 0.5, 0.1, false); first == 0 && v.alarm(z) {
				first = i + 1
			}
		}
		return first
	}
	if bins(10*slowBins, 0); v.slow.value != 0 {
		t.Errorf("of as many as ever %.1f are added up", v.slow.value)
	}
	if first := bins(2*slowBins, 2); first != 2*slowBins || v.fast.over() {
		t.Errorf("alarm in bin %d", first)
	}
	was := v.slow.value
	if bins(3*slowBins, 0); v.slow.value > was-3*slowStep {
		t.Errorf("from %.1f it fell to %.1f in as long again", was, v.slow.value)
	}
}

// TestVolumeAlarms where either CUSUM is over and the size matters; what has just
// begun counts as large as it is.
func TestVolumeAlarms(t *testing.T) {
	for _, s := range []struct {
		fast, slow, excess, rising float64 // of their limits, and of the gate
		want, suspicious           bool
	}{
		{0.4, 0.4, 9, 9, false, false}, {0.6, 0, 9, 9, false, true}, {0, 0.6, 9, 9, false, true},
		{1, 0, 1, 0, true, true}, {0, 1, 1, 0, true, true},
		{1, 1, 0.9, 0.9, false, true}, {1, 0, 0.9, 1, true, true}, {0, 1, 0.9, 1, false, true},
	} {
		v := newVolume()
		v.fast.value, v.slow.value = s.fast*fastLimit, s.slow*slowLimit
		if got := v.alarm(size{excess: s.excess * 7, rising: s.rising * 7, gate: 7}); got != s.want || v.suspicious() != s.suspicious {
			t.Errorf("%+v: alarm %v, suspicious %v", s, got, v.suspicious())
		}
	}
}

// TestSpreadIsWithinBounds: less than a Poisson's and more than twenty of them are
// somebody's mistake, and would make the channels nervous or blind.
func TestSpreadIsWithinBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for scatter, want := range map[float64]float64{0.3: 1, 100: 20} {
		s := newSpread(60)
		for range 6000 {
			s.add(r.NormFloat64() * scatter)
		}
		if f := s.factor(); f != want {
			t.Errorf("scatter of %.1f: a factor of %.1f, want %.0f", scatter, f, want)
		}
		if len(s.seen) >= 60 {
			t.Errorf("%d deviations are kept", len(s.seen))
		}
	}
}

// TestVolumeOfASiteWithoutSignIns: it is taken to have one a minute, which is what
// an attempt there is judged against.
func TestVolumeOfASiteWithoutSignIns(t *testing.T) {
	v := newVolume()
	if z := v.step(0, 0, 0, 0.3, true); math.Abs(z.attempts-1.3*Width/minute) > 1e-9 {
		t.Errorf("%v attempts a bin", z.attempts)
	}
}
