package keys_test

import (
	"testing"

	"github.com/guardd/guardd/keys"
)

// An operator's pin and the aggregator's posture are one record, and neither
// takes the other's away.
func TestAPinAndAPostureDoNotOverwriteEachOther(t *testing.T) {
	now := int64(1_800_000_000) * keys.Second
	m := keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return now }})
	spaces := keys.NewSpaces("r", 3)
	change := func(change func(keys.State) (keys.State, bool)) bool {
		t.Helper()
		changed, err := spaces.ChangeState(t.Context(), m, change)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	posture := func(s keys.State) (keys.State, bool) { s.Posture, s.Until = keys.High, now+keys.Day; return s, true }
	pin := func(s keys.State) (keys.State, bool) { s.Pin, s.PinUntil = keys.Normal, now+keys.Day; return s, true }
	release := func(s keys.State) (keys.State, bool) { had := s.PinUntil != 0; s.Pin, s.PinUntil = 0, 0; return s, had }
	state := func(i int) keys.State {
		b, err := m.Get(t.Context(), spaces[i].State())
		if err != nil {
			t.Fatal(err)
		}
		return keys.DecodeState(b)
	}
	for i, step := range []struct {
		change    func(keys.State) (keys.State, bool)
		changed   bool
		effective keys.Posture
		pinned    bool
	}{
		{posture, true, keys.High, false},
		{pin, true, keys.Normal, true},
		{posture, true, keys.Normal, true},
		{release, true, keys.High, false},
		{release, false, keys.High, false},
		{func(keys.State) (keys.State, bool) { return keys.State{}, true }, true, keys.Normal, false},
		{release, false, keys.Normal, false},
	} {
		if changed := change(step.change); changed != step.changed {
			t.Errorf("step %d: changed is %v", i, changed)
		}
		for shard := range spaces {
			if s := state(shard); s.Effective(now) != step.effective || (s.PinUntil > 0) != step.pinned {
				t.Errorf("step %d, shard %d: %+v", i, shard, s)
			}
		}
	}
}
