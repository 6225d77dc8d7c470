package detect

import (
	"bytes"
	"encoding/gob"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSavedWatchGoesOnAsBefore: after a restart a watch says of the same bins
// what it would have said.
func TestSavedWatchGoesOnAsBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	w := NewWatch()
	at := int64(monday)
	next := func(extra float64) Bin {
		s := swing(at)
		b := steady(at, 4, 0.4, s)
		b.Count[Cold] = count(r, 4+0.4*s+extra)
		at += Width
		return b
	}
	for at < monday+9*day {
		b := next(0)
		w.Step(&b, false)
	}
	data := w.Save()
	if len(data) > maxSaved/4 {
		t.Errorf("%d bytes", len(data))
	}
	v, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	if v.Baseline().Learning() {
		t.Error("it learns anew")
	}
	seen := 0
	for i := range 2000 {
		extra := 0.0
		if i > 1000 {
			extra = 60
		}
		b := next(extra)
		x, y := w.Step(&b, false), v.Step(&b, false)
		if x.Volume != y.Volume && i > 20 || x.Expected/y.Expected > 1.02 || y.Expected/x.Expected > 1.02 {
			t.Fatalf("bin %d: %+v before, %+v after the restart", i, x, y)
		}
		if x.Volume {
			seen++
		}
	}
	if seen == 0 {
		t.Error("nothing was to be seen")
	}
}

// TestSavedWatchIsAllThere: nothing of what was learnt is learnt again, however
// often a process is restarted. Odds and levels are fitted once a day of bins: whoever
// forgot how many hours have gone would never fit them where it is restarted daily.
func TestSavedWatchIsAllThere(t *testing.T) {
	w := NewWatch()
	for at := int64(monday); at < monday+8*day+7*hour; at += Width {
		b := steady(at, 4, 0.4, swing(at))
		w.Step(&b, false)
	}
	w.volume.drift.value, w.volume.sum.value, w.volume.successes.value, w.volume.spread.value = 1.5, 70, 33, 2.5
	for i := range w.structure.one {
		w.structure.one[i].spread.value = 3 + float64(i)
	}
	for i := range w.structure.ua {
		w.structure.ua[i].spread.value = 9 + float64(i)
	}
	v, err := Load(w.Save())
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, was, is float64) {
		t.Helper()
		if was == 0 || float32(is) != float32(was) {
			t.Errorf("%s: %v became %v", what, was, is)
		}
	}
	same("hours until it is fitted", float64(w.base.hours), float64(v.base.hours))
	same("deviation", 1.5, v.volume.drift.value)
	same("expectation", 70, v.volume.sum.value)
	same("successes", 33, v.volume.successes.value)
	same("scatter", 2.5, v.volume.spread.value)
	same("scatter of a channel", 4, v.structure.one[1].spread.value)
	same("scatter of a user agent", 11, v.structure.ua[2].spread.value)
	same("usual successes", w.base.Successes(monday+12*hour), v.base.Successes(monday+12*hour))
	for i := range w.base.fits {
		if w.base.fits[i].odds != v.base.fits[i].odds || w.base.fits[i].known != v.base.fits[i].known || !v.base.fits[i].known {
			t.Errorf("fit %d: %v, %v became %v, %v", i, w.base.fits[i].odds, w.base.fits[i].known, v.base.fits[i].odds, v.base.fits[i].known)
		}
	}
}

// TestLoadIsPoisonedByNothing: one number that is none would make every later sum
// none, and no comparison with it ever true: detection would be off for good.
func TestLoadIsPoisonedByNothing(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	w := NewWatch()
	const hr = monday/hour - 5
	w.base.h.ring[hr%remembered] = hourly{hour: hr, x: nan, y: [ys]float64{yCold: inf}}
	w.base.fits[yFailed].odds, w.base.fits[yFailed].level[3] = nan, inf
	w.base.success[4] = inf
	w.volume.drift.value, w.volume.sum.value, w.volume.successes.value, w.volume.spread.value = nan, inf, nan, nan
	w.structure.one[0].spread.value, w.structure.ua[0].spread.value = nan, inf
	v, err := Load(w.Save())
	if err != nil {
		t.Fatal(err)
	}
	h, _ := v.base.h.at(hr)
	for i, n := range []float64{h.x, h.y[yCold], v.base.fits[yFailed].odds, v.base.fits[yFailed].level[3], v.base.success[4],
		v.volume.drift.value, v.volume.sum.value, v.volume.successes.value, v.volume.spread.value, v.structure.one[0].spread.value, v.structure.ua[0].spread.value} {
		if n != 0 {
			t.Errorf("number %d is %v", i, n)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	made := func(change func(*saved)) []byte {
		var s saved
		if err := gob.NewDecoder(bytes.NewReader(NewWatch().Save())).Decode(&s); err != nil {
			t.Fatal(err)
		}
		change(&s)
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for want, data := range map[string][]byte{
		"not a saved baseline":   []byte("what is this"),
		"more than":              make([]byte, maxSaved+1),
		"version 7":              made(func(s *saved) { s.V = 7 }),
		"another shape":          made(func(s *saved) { s.Fits = s.Fits[1:] }),
		"hour of another shape":  made(func(s *saved) { s.Hours = []savedHour{{Hour: 5}} }),
		"an hour of another":     made(func(s *saved) { s.Hours = []savedHour{{Hour: -5, Y: make([]float32, ys)}} }),
		"baseline of another":    made(func(s *saved) { s.Success = append(s.Success, 1) }),
		"of another shape":       made(func(s *saved) { s.Structure = append(s.Structure, 1) }),
		"saved baseline of":      made(func(s *saved) { s.UA = append(s.UA, 1) }),
		"level of another shape": made(func(s *saved) { s.Fits[0].Level = nil }),
	} {
		if _, err := Load(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
