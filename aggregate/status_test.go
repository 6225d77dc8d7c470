package aggregate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// TestTheStatusIsWhatWasPublished holds what operators see beside what was set and
// published in an attack and after it.
func TestTheStatusIsWhatWasPublished(t *testing.T) {
	w, at := learnedDetection(t, DetectionConfig{Realm: "shop"})
	if s := w.Status(); s.Learning || s.Level != detect.Calm || s.Expected < 60 || len(s.Open) != 0 {
		t.Fatalf("before: %+v", s)
	}
	found, known := map[FindingCount]uint64{}, map[string]bool{}
	level, changes := keys.Normal, [detect.Levels]uint64{}
	count := func(acts []Act) {
		for _, a := range acts {
			if a.Control != nil && a.Control.Posture != level {
				level = a.Control.Posture
				changes[level]++
			}
			for _, b := range a.Findings {
				var f Finding
				if err := json.Unmarshal(b, &f); err != nil {
					t.Fatal(err)
				}
				state := f.State
				if state == "open" && known[f.ID] {
					state = "update"
				}
				known[f.ID] = true
				found[FindingCount{f.What, state}]++
			}
		}
	}
	acts, at := quiet(w, at, 10*60*keys.Second, everywhere, 60)
	count(acts)
	during := w.Status()
	if during.Level != detect.Level(level) || level == keys.Normal || during.Open["distributed_guessing"] != 1 || during.Excess < 100 {
		t.Errorf("at %s: %+v", level, during)
	}
	if len(found) < 2 || found[FindingCount{"distributed_guessing", "update"}] == 0 {
		t.Errorf("found %v", found)
	}
	acts, _ = quiet(w, at, 3*60*60*keys.Second, nil, 0)
	count(acts)
	after := w.Status()
	if d := cmp.Diff(found, after.Found); d != "" {
		t.Errorf("published, counted: %s", d)
	}
	if after.Changes != changes || after.Level != detect.Calm || len(after.Open) != 0 || after.Excess > 20 {
		t.Errorf("set %v; after: %+v", changes, after)
	}
}

// TestWhatAnEarlierReaderCountedStays: what is now is the present reader's to say.
func TestWhatAnEarlierReaderCountedStays(t *testing.T) {
	k := FindingCount{"spray", "open"}
	was := RealmStats{Watch: WatchStatus{Level: detect.High, Excess: 9, Networks: 2, Open: map[string]int{"spray": 1},
		Found: map[FindingCount]uint64{k: 3}, Changes: [detect.Levels]uint64{0, 1, 2, 0}}}.ended()
	want := WatchStatus{Learning: true, Found: map[FindingCount]uint64{k: 3}, Changes: [detect.Levels]uint64{0, 1, 2, 0}}
	if d := cmp.Diff(want, was.Watch); d != "" {
		t.Error(d)
	}
	is := sum(was, RealmStats{Watch: WatchStatus{Level: detect.Elevated, Found: map[FindingCount]uint64{k: 1}}}).Watch
	want = WatchStatus{Level: detect.Elevated, Found: map[FindingCount]uint64{k: 4}, Changes: want.Changes}
	if d := cmp.Diff(want, is); d != "" {
		t.Error(d)
	}
}
