package detect

import (
	"bytes"
	"encoding/gob"
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
		"level of another shape": made(func(s *saved) { s.Fits[0].Level = nil }),
	} {
		if _, err := Load(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
