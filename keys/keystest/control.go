package keystest

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/guardd/guardd/keys"
)

// controls holds what aggregators and operators set of a realm to: later wins,
// whoever comes first, and neither takes the other's away.
func controls(t *testing.T, s Subject, _ keys.Space) {
	st, ok := s.(keys.ControlStore)
	if !ok {
		t.Skip("keeps no documents")
	}
	const now = 1_800_000_000 * keys.Second
	ctx, spaces := t.Context(), keys.NewSpaces("control-"+unique(), 3)
	at := func(n int64) int64 { return now + n*keys.Second }
	state := func(shard int) keys.State {
		t.Helper()
		b, err := st.Get(ctx, spaces[shard].State())
		if err != nil {
			t.Fatal(err)
		}
		return keys.DecodeState(b)
	}
	base := keys.Limit{Capacity: 300, Count: 1, Period: 10}
	part, err := base.Sub(3)
	if err != nil {
		t.Fatal(err)
	}
	high := &keys.Control{Epoch: at(1), Posture: keys.High, Until: at(900), Baseline: base}
	for i, step := range []struct {
		c         *keys.Control
		now       int64
		set       bool
		effective keys.Posture
		epoch     int64
	}{
		{high, at(1), true, keys.High, at(1)},
		{high, at(2), true, keys.High, at(1)}, // as it is
		{&keys.Control{Epoch: at(1), Posture: keys.Critical, Until: at(900)}, at(2), false, keys.High, at(1)},
		{&keys.Control{Epoch: at(0), Posture: keys.Normal}, at(2), false, keys.High, at(1)},
		{&keys.Control{Epoch: at(3), Posture: keys.Elevated, Until: at(900), Baseline: base}, at(3), true, keys.Elevated, at(3)},
		{high, at(4), false, keys.Elevated, at(3)},
		// The clock was an hour ahead, and is set back.
		{&keys.Control{Epoch: at(3600), Posture: keys.High, Until: at(4500), Baseline: base}, at(3600), true, keys.High, at(3600)},
		{&keys.Control{Epoch: at(10), Posture: keys.Normal, Until: at(11), Baseline: base}, at(10), true, keys.Normal, at(10)},
	} {
		set, err := spaces.SetControl(ctx, st, step.c, step.now)
		if err != nil || set != step.set {
			t.Errorf("step %d: set is %v (%v)", i, set, err)
		}
		for shard := range spaces {
			if s := state(shard); s.Effective(step.now) != step.effective || s.Epoch != step.epoch || s.Baseline != part {
				t.Errorf("step %d, shard %d: %+v", i, shard, s)
			}
		}
	}

	pin := func(s keys.State) (keys.State, bool) { s.Pin, s.PinUntil = keys.Critical, at(500); return s, true }
	if _, err := spaces.ChangeState(ctx, st, pin); err != nil {
		t.Fatal(err)
	}
	later := &keys.Control{Epoch: at(11), Posture: keys.Elevated, Until: at(900)}
	if set, err := spaces.SetControl(ctx, st, later, at(11)); !set || err != nil {
		t.Errorf("set is %v (%v) under a pin", set, err)
	}
	for shard := range spaces {
		s := state(shard)
		if s.Effective(at(12)) != keys.Critical || s.Effective(at(501)) != keys.Elevated || !s.Baseline.Zero() {
			t.Errorf("shard %d: %+v", shard, s)
		}
	}

	for name, c := range map[string]keys.Control{
		"no epoch":         {Posture: keys.High},
		"ahead":            {Epoch: at(11 + 301)},
		"no posture":       {Epoch: at(12), Posture: keys.Critical + 1},
		"a large baseline": {Epoch: at(12), Baseline: keys.Limit{Capacity: keys.MaxBaseline + 1, Count: 1, Period: 1}},
	} {
		if _, err := spaces.SetControl(ctx, st, &c, at(11)); !errors.Is(err, keys.ErrAsk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	small := keys.Control{Epoch: at(12), Baseline: keys.Limit{Capacity: 29, Count: 1, Period: 10}}
	if _, err := spaces.SetControl(ctx, st, &small, at(12)); !errors.Is(err, keys.ErrSubBucket) || state(0).Epoch != at(11) {
		t.Errorf("a baseline that is too small for the shards: %v, and then %+v", err, state(0))
	}
}

// suspects, networks and passwords, are set by a later control only, in every shard, and let go.
func suspects(t *testing.T, s Subject, _ keys.Space) {
	st, ok := s.(keys.ControlStore)
	if !ok {
		t.Skip("keeps no documents")
	}
	const now = 1_800_000_000 * keys.Second
	ctx, spaces := t.Context(), keys.NewSpaces("suspects-"+unique(), 2)
	network := netip.MustParsePrefix("203.0.113.0/24")
	set := func(epoch, until int64, want bool) {
		t.Helper()
		got, err := spaces.SetControl(ctx, st, &keys.Control{Epoch: epoch, Suspects: map[netip.Prefix]int64{network: until},
			Tags: map[string]int64{sheetTag: until}}, now)
		if got != want || err != nil {
			t.Errorf("set is %v (%v)", got, err)
		}
	}
	asks := func(at int64, want bool) {
		t.Helper()
		for shard, names := range spaces {
			for i, key := range []string{1: names.Suspect(network), 2: names.SuspectTag(sheetTag)} {
				if key == "" {
					continue
				}
				a, ans := simpleAsk(simple(t, 10, untilEmpty), names), keys.Answer{}
				a.Now, a.SuspectKeys[i] = at, key
				if err := s.Take(ctx, &a, &ans); err != nil {
					t.Fatal(err)
				}
				if got := ans.Causes&keys.BySuspect != 0; got != want {
					t.Errorf("shard %d asks suspect %s: %v", shard, key, got)
				}
			}
		}
	}
	asks(now, false)
	set(now-9, now+keys.Second*60, true)
	asks(now+1, true)
	set(now-10, now-1, false)
	asks(now+2, true)
	asks(now+keys.Second*60, false)
	set(now-8, now-1, true)
	asks(now+3, false)
}

// laterWins has many aggregators set a realm at once, some of them behind: what
// is left in every shard is the latest's, and no shard ever goes back.
func laterWins(t *testing.T, s Subject, _ keys.Space) {
	st, ok := s.(keys.ControlStore)
	if !ok {
		t.Skip("keeps no documents")
	}
	const now = 1_800_000_000 * keys.Second
	const writers, each = 8, 12
	ctx, spaces := t.Context(), keys.NewSpaces("later-"+unique(), 2)
	var latest atomic.Int64
	together(t, writers, func(i int) (bool, error) {
		for n := range each {
			c := &keys.Control{Epoch: now + int64((n*5+i*7)%60), Posture: keys.Posture(n % 4), Until: now + keys.Day}
			set, err := spaces.SetControl(ctx, st, c, now)
			for errors.Is(err, keys.ErrBusy) {
				set, err = spaces.SetControl(ctx, st, c, now)
			}
			if err != nil {
				return false, err
			}
			for was := latest.Load(); set && c.Epoch > was && !latest.CompareAndSwap(was, c.Epoch); {
				was = latest.Load()
			}
			b, err := st.Get(ctx, spaces[0].State())
			if err != nil {
				return false, err
			}
			if s := keys.DecodeState(b); set && s.Epoch < c.Epoch {
				t.Errorf("set to %d, and then there is %d", c.Epoch-now, s.Epoch-now)
			}
		}
		return true, nil
	})
	for shard := range spaces {
		b, err := st.Get(ctx, spaces[shard].State())
		if s := keys.DecodeState(b); err != nil || s.Epoch != latest.Load() {
			t.Errorf("shard %d ends with %d, not %d (%v)", shard, s.Epoch-now, latest.Load()-now, err)
		}
	}
}
