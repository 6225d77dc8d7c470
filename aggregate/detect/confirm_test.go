package detect

import "testing"

// TestWhatConfirms: two channels of structure, or one with a volume that is
// half-way, and neither without an excess that lasts.
func TestWhatConfirms(t *testing.T) {
	for _, s := range []struct {
		name     string
		channels int
		halfway  bool
		excess   float64 // a bin, of 12 usual failures
		want     bool
	}{
		{"nothing", 0, false, 6, false},
		{"volume half-way alone", 0, true, 6, false},
		{"one channel alone", 1, false, 6, false},
		{"one channel and volume", 1, true, 6, true},
		{"two channels", 2, false, 6, true},
		{"two channels and volume without an excess", 2, true, 0, false},
	} {
		d, at := learnt(t)
		w := d.Watch
		w.volume.two.value, w.volume.ten.value = s.excess, s.excess
		for i := range s.channels {
			w.structure.one[ChannelBreached-Channel(i)].sum.value = 1e6 // far over
		}
		if s.halfway {
			w.volume.fast.value = 0.7 * fastLimit
		}
		b := Bin{Start: at, Taken: 14}
		b.Count[Success], b.Count[Cold] = 40, 12
		r := w.Step(&b, true)
		if r.Confirmed != s.want || r.Suspicious != s.halfway || r.Volume {
			t.Errorf("%s: %+v", s.name, r)
		}
	}
}

// TestAnOutageAddsUpToNothing: what fails because the service behind is down is no
// evidence once it is back.
func TestAnOutageAddsUpToNothing(t *testing.T) {
	d, at := learnt(t)
	for i := range int64(10 * minute / Width) {
		b := Bin{Start: at + i*Width, NotChecked: 200}
		b.Count[Cold], b.NewNetwork, b.Breached = 400, 400, 400
		if r := d.Watch.Step(&b, false); !r.Outage || r.Attack() {
			t.Fatalf("bin %d: %+v", i, r)
		}
	}
	if w := d.Watch; w.volume.fast.value > fastLimit/10 || len(w.structure.over()) > 0 {
		t.Errorf("volume is at %v, structure over in %v", w.volume.fast, w.structure.over())
	}
}

// TestWhatTeaches: calm bins, and while nothing is known any that are no outage's:
// else a site that is attacked from its first day on would never know anything.
func TestWhatTeaches(t *testing.T) {
	for _, s := range []struct {
		name     string
		known    bool
		bin      func(b *Bin)
		halfway  bool
		wantHour bool
	}{
		{"a calm hour", true, func(*Bin) {}, false, true},
		{"an hour half-way to an alarm", true, func(*Bin) {}, true, false},
		{"an attack while it learns", false, func(b *Bin) { b.Count[Cold] = 400 }, false, true},
		{"an outage while it learns", false, func(b *Bin) { b.NotChecked = 400 }, false, false},
	} {
		w, at := NewWatch(), int64(monday)
		if s.known {
			d, from := learnt(t)
			w, at = d.Watch, from
		}
		at += hour - mod(at, hour)
		for i := range int64(2 * hour / Width) {
			b := Bin{Start: at + i*Width, Taken: 14}
			b.Count[Success], b.Count[Cold] = 40, 12
			s.bin(&b)
			if s.halfway {
				w.volume.fast.value = 0.7 * fastLimit
			}
			w.Step(&b, false)
		}
		if _, ok := w.base.h.at(at / hour); ok != s.wantHour {
			t.Errorf("%s: learnt is %v", s.name, ok)
		}
	}
}
