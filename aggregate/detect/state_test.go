package detect

import (
	"bytes"
	"encoding/gob"
	"maps"
	"math"
	"reflect"
	"testing"
)

// TestARestoredDetectorChangesNothingByItself: whoever takes over in the middle of
// an attack knows the level with its times, the suspects, and the campaigns. Only
// bins that are counted in a row are counted anew.
func TestARestoredDetectorChangesNothingByItself(t *testing.T) {
	d := New(1)
	d.Control = Control{level: High, since: monday + 1, sign: monday + 2, hold: 12 * minute, peak: 77, left: monday - hour,
		stepped: true, confirmed: true}
	for v, i := reflect.ValueOf(d.Control), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "severe" {
			t.Errorf("Control.%s is not looked at here", name)
		}
	}
	d.suspects[from("198.51.100.7")] = monday + minute
	d.tags["0123456789abcdef"] = monday + day
	k := d.Campaigns.of(distributed, "", monday, monday+5)
	k.Guesses, k.Level, k.Done = 12, High, []Action{{monday, "posture high"}}
	e, err := Restore(2, d.Save())
	if err != nil {
		t.Fatal(err)
	}
	if e.Control != d.Control {
		t.Errorf("%+v became %+v", d.Control, e.Control)
	}
	if !maps.Equal(e.suspects, d.suspects) || !maps.Equal(e.tags, d.tags) {
		t.Errorf("suspects %v and %v became %v and %v", d.suspects, d.tags, e.suspects, e.tags)
	}
	k.counted = k.Last
	if got := e.Campaigns.open[distributed+" "]; got == nil || !reflect.DeepEqual(got, k) {
		t.Errorf("%+v became %+v", k, got)
	}
	// It was quiet for longer than the hold meanwhile: it comes down, and no more.
	if r := e.Step(&Bin{Start: monday + 14*minute}); r.Level != Elevated {
		t.Errorf("the level is %v after a quiet quarter of an hour", r.Level)
	}
}

func TestRestoreRefuses(t *testing.T) {
	changed := func(change func(*keptState)) []byte {
		var s keptState
		if err := gob.NewDecoder(bytes.NewReader(New(1).Save())).Decode(&s); err != nil {
			t.Fatal(err)
		}
		change(&s)
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(s); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"too much":           make([]byte, maxState+1),
		"another version":    changed(func(s *keptState) { s.V++ }),
		"no level":           changed(func(s *keptState) { s.Level = Critical + 1 }),
		"no network":         changed(func(s *keptState) { s.Suspects = []keptSuspect{{"somewhere", 1}} }),
		"a baseline of none": changed(func(s *keptState) { s.Watch = nil }),
	} {
		if d, err := Restore(1, data); err == nil {
			t.Errorf("%s was taken: %v", name, d)
		}
	}
	if d, err := Restore(1, changed(func(s *keptState) { s.Peak = math.NaN() })); err != nil || d.Control.peak != 0 {
		t.Errorf("a peak that is no number: %v, %v", d.Control.peak, err)
	}
	d, err := Restore(1, changed(func(s *keptState) { s.Campaigns = map[string]*Campaign{"b": {What: "nothing known"}} }))
	if err != nil || len(d.Campaigns.open) != 0 {
		t.Errorf("campaigns that nobody knows: %v, %v", d, err)
	}
}
