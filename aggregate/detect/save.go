package detect

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"math"
)

// saved is what a Watch has learnt, for its successor: four weeks are not to be
// learnt again after a restart. What it was adding up is not in it: that comes
// again with the bins that are read again.
type saved struct {
	V       int
	Last    int64 // the latest hour; of the one that was open nothing is kept
	Hours   []savedHour
	Fits    []savedFit
	Success []float32
	Days    int64 // hours that were seen

	Drift, Sum, Successes float64
	Volume                float64
	Structure, UA         []float64
}

type savedHour struct {
	Hour int64
	X    float32
	Y    []float32
}

type savedFit struct {
	Odds  float64
	Level []float32
	Known bool
}

// savedVersion changes when the order of what a bin is known by does.
const savedVersion = 1

// Save returns what w has learnt, some 100 KiB after four weeks.
func (w *Watch) Save() []byte {
	b := w.base
	s := saved{V: savedVersion, Last: b.h.last, Days: b.hours,
		Drift: w.volume.drift.value, Sum: w.volume.sum.value, Successes: w.volume.successes.value, Volume: w.volume.spread.value}
	for i := range b.h.ring {
		if h := &b.h.ring[i]; h.hour != 0 {
			s.Hours = append(s.Hours, savedHour{h.hour, float32(h.x), narrow(h.y[:])})
		}
	}
	for i := range b.fits {
		s.Fits = append(s.Fits, savedFit{b.fits[i].odds, narrow(b.fits[i].level[:]), b.fits[i].known})
	}
	s.Success = narrow(b.success[:])
	for i := range w.structure.one {
		s.Structure = append(s.Structure, w.structure.one[i].spread.value)
	}
	for i := range w.structure.ua {
		s.UA = append(s.UA, w.structure.ua[i].spread.value)
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(s); err != nil {
		panic(err) // of numbers only, into memory
	}
	return out.Bytes()
}

// maxSaved is more than Save ever makes.
const maxSaved = 1 << 20

// Load makes the Watch that Save was told of. The error says why data is no
// such thing; begin anew then.
func Load(data []byte) (*Watch, error) {
	if len(data) > maxSaved {
		return nil, fmt.Errorf("%d bytes are more than a baseline has", len(data))
	}
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&s); err != nil {
		return nil, fmt.Errorf("not a saved baseline: %w", err)
	}
	if s.V != savedVersion {
		return nil, fmt.Errorf("a baseline of version %d, and this program knows %d", s.V, savedVersion)
	}
	w := NewWatch()
	if len(s.Fits) != len(w.base.fits) || len(s.Success) != hoursOfWeek ||
		len(s.Structure) != len(w.structure.one) || len(s.UA) != len(w.structure.ua) {
		return nil, errors.New("a saved baseline of another shape")
	}
	b := w.base
	b.h.last, b.hours = s.Last, s.Days
	for _, h := range s.Hours {
		if len(h.Y) != ys || h.Hour <= 0 {
			return nil, errors.New("a saved baseline with an hour of another shape")
		}
		to := &b.h.ring[h.Hour%remembered]
		to.hour, to.x = h.Hour, sane(float64(h.X))
		widen(to.y[:], h.Y)
	}
	for i, f := range s.Fits {
		if len(f.Level) != hoursOfWeek {
			return nil, errors.New("a saved baseline with a level of another shape")
		}
		b.fits[i].odds, b.fits[i].known = sane(f.Odds), f.Known
		widen(b.fits[i].level[:], f.Level)
	}
	widen(b.success[:], s.Success)
	w.volume.drift = started(w.volume.drift, s.Drift)
	w.volume.sum = started(w.volume.sum, s.Sum)
	w.volume.successes = started(w.volume.successes, s.Successes)
	w.volume.spread.value = sane(s.Volume)
	for i, v := range s.Structure {
		w.structure.one[i].spread.value = sane(v)
	}
	for i, v := range s.UA {
		w.structure.ua[i].spread.value = sane(v)
	}
	return w, nil
}

func started(e ewma, v float64) ewma {
	e.value, e.started = sane(v), true
	return e
}

// sane keeps what is not a number from poisoning every later sum.
func sane(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

func widen(to []float64, v []float32) {
	for i := range v {
		to[i] = sane(float64(v[i]))
	}
}
