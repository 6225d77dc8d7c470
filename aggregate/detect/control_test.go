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
	much      = Reading{Expected: 70, Attempts: 500, Gate: 125, Recent: 150, Excess: 150, Lasting: 150, Volume: true}
	huge      = Reading{Expected: 70, Attempts: 500, Gate: 125, Recent: 500, Excess: 500, Lasting: 500, Volume: true}
	quietOne  = Reading{Expected: 70, Attempts: 500, Gate: 125, Recent: 60, Excess: 60, Lasting: 60, Structure: []Channel{ChannelNetwork, ChannelBreached}, Confirmed: true}
	undecided = Reading{Expected: 70, Attempts: 500, Gate: 125, Recent: 30, Excess: 30, Lasting: 30, Volume: true}
)

// lasting is so large an excess that is no alarm by itself.
func lasting(n float64) Reading {
	return with(undecided, func(r *Reading) { r.Volume, r.Recent, r.Excess, r.Lasting = false, n, n, n })
}

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
		{"structure alone goes up when waiting does not impress it", []story{{1, quietOne, false, 0, Critical}}},
		{"what has just begun and is overwhelming is asked", []story{{1, with(undecided, func(r *Reading) { r.Rising = 500 }), false, 0, Critical}}},
		{"what goes on undecided stays", []story{{60, undecided, false, 0, Elevated}}},
		{"right guesses are asked", []story{{1, much, false, 0, High}, {1, much, false, 5, Critical}}},
		{"right guesses alone are nobody's business", []story{{10, nothing, false, 50, Calm}}},
		{"a few groups are tightened instead", []story{{30, huge, true, 0, Calm}}},
		{"an outage tightens nothing", []story{{30, with(huge, func(r *Reading) { r.Outage = true }), false, 0, Calm}}},
		{"a crowd tightens nothing", []story{{30, with(huge, func(r *Reading) { r.Surge = true }), false, 0, Calm}}},
		{"an attack in a crowd does", []story{{2, with(huge, func(r *Reading) { r.Surge, r.Confirmed = true, true }), false, 0, Critical}}},
		{"who is learning does nothing", []story{{30, with(huge, func(r *Reading) { r.Learning = true }), false, 0, Calm}}},
		{"it is held, and let go in two steps", []story{
			{5, huge, false, 0, Critical}, {9, nothing, false, 0, Critical}, {1, nothing, false, 0, Elevated},
			{3, nothing, false, 0, Elevated}, {1, nothing, false, 0, Calm}}},
		{"a pause of nine minutes changes nothing", []story{
			{10, huge, false, 0, Critical}, {9, nothing, false, 0, Critical}, {10, huge, false, 0, Critical}, {9, nothing, false, 0, Critical}}},
		{"who comes back is held twice as long", []story{
			{5, huge, false, 0, Critical}, {30, nothing, false, 0, Calm}, {5, huge, false, 0, Critical},
			{19, nothing, false, 0, Critical}, {1, nothing, false, 0, Elevated}}},
		{"after a day it is the first time again", []story{
			{5, huge, false, 0, Critical}, {25 * 60, nothing, false, 0, Calm}, {5, huge, false, 0, Critical}, {10, nothing, false, 0, Elevated}}},
		{"who comes back while it is let go is asked at once", []story{
			{5, huge, false, 0, Critical}, {11, nothing, false, 0, Elevated}, {1, huge, false, 0, Critical}, {9, nothing, false, 0, Critical}}},
		{"nearly half of an attack holds", []story{{5, huge, false, 0, Critical}, {120, lasting(210), false, 0, Critical}}},
		{"a third of a burst is an attack", []story{
			{2, with(huge, func(r *Reading) { r.Recent, r.Excess, r.Lasting = 2000, 2000, 2000 }), false, 0, Critical},
			{13, with(huge, func(r *Reading) { r.Recent, r.Excess, r.Lasting = 700, 700, 700 }), false, 0, Critical}}},
		{"a third does not", []story{{5, huge, false, 0, Critical}, {10, lasting(160), false, 0, Elevated}}},
		{"what a confirmed attack was not made of does not hold it", []story{{2, quietOne, false, 0, Critical}, {10, lasting(45), false, 0, Elevated}}},
		{"what it was made of does", []story{{2, quietOne, false, 0, Critical}, {30, with(lasting(45), func(r *Reading) { r.Structure = quietOne.Structure }), false, 0, Critical}}},
		{"what is over in the last minute is over", []story{
			{5, huge, false, 0, Critical}, {10, with(huge, func(r *Reading) { r.Recent = 100 }), false, 0, Elevated}}},
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

// TestControlWaitsHalfAMinute: strangers wait before they are asked, where what is
// seen is sure and not overwhelming.
func TestControlWaitsHalfAMinute(t *testing.T) {
	var c Control
	for i, want := range []Level{High, High, High, Critical} {
		r := with(quietOne, func(r *Reading) { r.At = monday + int64(i)*Width })
		if d := c.Step(&r, false, 0); d.Level != want {
			t.Errorf("after %d bins the level is %v, want %v", i+1, d.Level, want)
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
