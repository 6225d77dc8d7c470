package detect

import (
	"strings"
	"testing"
)

// story is readings of one kind for some time.
type story struct {
	minutes int
	r       Reading
	scoped  bool
	taken   int
	want    Level // at the end
}

var (
	nothing   = Reading{Expected: 70, Attempts: 500, Gate: 125}
	much      = Reading{Expected: 70, Attempts: 500, Gate: 125, Excess: 150, Lasting: 150, Volume: true}
	huge      = Reading{Expected: 70, Attempts: 500, Gate: 125, Excess: 500, Lasting: 500, Volume: true}
	quietOne  = Reading{Expected: 70, Attempts: 500, Gate: 125, Excess: 60, Lasting: 60, Structure: []Channel{ChannelNetwork, ChannelBreached}, Confirmed: true}
	undecided = Reading{Expected: 70, Attempts: 500, Gate: 125, Excess: 30, Lasting: 30, Volume: true}
)

func with(r Reading, change func(*Reading)) Reading { change(&r); return r }

func TestControl(t *testing.T) {
	for _, s := range []struct {
		name string
		told []story
	}{
		{"calm stays calm", []story{{60, nothing, false, 0, Calm}}},
		{"too much is halved", []story{{1, undecided, false, 0, Elevated}}},
		{"much too much waits", []story{{1, much, false, 0, High}}},
		{"overwhelming is asked", []story{{1, huge, false, 0, Critical}}},
		{"structure alone goes up when waiting does not impress it", []story{{1, quietOne, false, 0, High}, {2, quietOne, false, 0, Critical}}},
		{"what goes on undecided stays", []story{{60, undecided, false, 0, Elevated}}},
		{"right guesses are asked", []story{{1, much, false, 0, High}, {1, much, false, 5, Critical}}},
		{"right guesses alone are nobody's business", []story{{10, nothing, false, 50, Calm}}},
		{"a few groups are tightened instead", []story{{30, huge, true, 0, Calm}}},
		{"an outage tightens nothing", []story{{30, with(huge, func(r *Reading) { r.Outage = true }), false, 0, Calm}}},
		{"a crowd tightens nothing", []story{{30, with(huge, func(r *Reading) { r.Surge = true }), false, 0, Calm}}},
		{"an attack in a crowd does", []story{{2, with(huge, func(r *Reading) { r.Surge, r.Confirmed = true, true }), false, 0, Critical}}},
		{"who is learning does nothing", []story{{30, with(huge, func(r *Reading) { r.Learning = true }), false, 0, Calm}}},
		{"it is held, and let go in steps", []story{
			{5, huge, false, 0, Critical}, {11, nothing, false, 0, Critical}, {2, nothing, false, 0, High},
			{4, nothing, false, 0, Elevated}, {4, nothing, false, 0, Calm}}},
		{"a pause of ten minutes changes nothing", []story{
			{10, huge, false, 0, Critical}, {10, nothing, false, 0, Critical}, {10, huge, false, 0, Critical}, {10, nothing, false, 0, Critical}}},
		{"who comes back is held twice as long", []story{
			{5, huge, false, 0, Critical}, {30, nothing, false, 0, Calm}, {5, huge, false, 0, Critical},
			{22, nothing, false, 0, Critical}, {3, nothing, false, 0, High}}},
		{"after a day it is the first time again", []story{
			{5, huge, false, 0, Critical}, {25 * 60, nothing, false, 0, Calm}, {5, huge, false, 0, Critical}, {14, nothing, false, 0, High}}},
		{"a third of an attack holds", []story{{5, huge, false, 0, Critical}, {120, with(undecided, func(r *Reading) { r.Volume, r.Excess, r.Lasting = false, 160, 160 }), false, 0, Critical}}},
	} {
		var c Control
		at := int64(monday)
		for i, part := range s.told {
			for range int64(part.minutes) * minute / Width {
				at += Width
				part.r.At = at
				c.Step(&part.r, part.scoped, part.taken)
			}
			if c.Level() != part.want {
				t.Errorf("%s: after part %d the level is %v, want %v", s.name, i+1, c.Level(), part.want)
			}
		}
	}
}

func TestControlSaysWhy(t *testing.T) {
	var c Control
	for i := range int64(3) {
		r := with(huge, func(r *Reading) { r.At, r.Structure = monday+i*Width, []Channel{ChannelBreached} })
		d := c.Step(&r, false, 7)
		for _, want := range []string{"500 cold failures a minute", "breached_passwords", "7 guesses were right"} {
			if !strings.Contains(d.Reason, want) {
				t.Errorf("%q does not say %q", d.Reason, want)
			}
		}
		if d.Changed != (i == 0 || i == 2) {
			t.Errorf("step %d: changed is %v", i, d.Changed)
		}
	}
}
