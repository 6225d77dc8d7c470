package sim

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
)

// TestQuantilesAreOfAllRuns: of forty, two may take longer than 95 % do; and of none
// nothing is known.
func TestQuantilesAreOfAllRuns(t *testing.T) {
	var forty []int64
	for i := range int64(40) {
		forty = append(forty, i)
	}
	for _, s := range []struct {
		of    []int64
		share float64
		want  int64
	}{{nil, 0.5, Never}, {[]int64{7}, 0.95, 7}, {forty, 0.5, 20}, {forty, 0.95, 38}, {forty, 1, 39}, {[]int64{3, Never}, 0.95, Never}} {
		if got := Quantile(s.of, s.share); got != s.want {
			t.Errorf("%v of %d: %d, want %d", s.share, len(s.of), got, s.want)
		}
	}
}

// TestTimesAreUntilItIsInForce: late events are waited for ten seconds and what is to
// be set is written within one. What was never found, or never let go, is not left
// out; what was up before says nothing.
func TestTimesAreUntilItIsInForce(t *testing.T) {
	var got Times
	for _, f := range []Finding{{After: 20 * second, Relaxed: 600 * second}, {After: -1, Relaxed: 0}, {After: 40 * second, Relaxed: -1}, {Early: true}} {
		got.add(f)
	}
	if !slices.Equal(got.Found, []int64{31 * second, Never, 51 * second}) || !slices.Equal(got.Relaxed, []int64{600 * second, 0, Never}) || got.Early != 1 {
		t.Errorf("%+v", got)
	}
}

// TestInBinsIsOfEachSeed, sorted; and an attack is found with the end of the bin that
// raised the level.
func TestInBinsIsOfEachSeed(t *testing.T) {
	const perDay, first, n = 75_000, 400, 4
	learnt := Learn(perDay, 1)
	a, _ := AttackNamed("stuffing-8000x4")
	a = a.At(1)
	times, err := InBins(perDay, learnt, a, first, n)
	if err != nil {
		t.Fatal(err)
	}
	var want Times
	for seed := int64(first); seed < first+n; seed++ {
		w, err := detect.Load(learnt)
		if err != nil {
			t.Fatal(err)
		}
		at := Start + int64(newRandom(seed, 7).Float64()*week)/detect.Width*detect.Width
		s := &Site{Bins: NewBins(perDay, seed, at, false), Watch: w}
		s.Run(hour)
		if s.Control.Level() > detect.Calm {
			want.Early++
			continue
		}
		s.Bins.Attack(a, at+hour, at+2*hour)
		f := Finding{After: -1, Relaxed: -1}
		for i := int64(1); i <= hour/detect.Width; i++ {
			if s.Step(); f.After < 0 && s.Control.Level() > detect.Calm {
				f.After = i * detect.Width
			}
		}
		for i := int64(0); i <= 4*hour/detect.Width && f.Relaxed < 0; i++ {
			if s.Control.Level() == detect.Calm {
				f.Relaxed = i * detect.Width
			}
			s.Step()
		}
		want.add(f)
	}
	slices.Sort(want.Found)
	slices.Sort(want.Relaxed)
	if !slices.Equal(times.Found, want.Found) || !slices.Equal(times.Relaxed, want.Relaxed) || times.Early != want.Early {
		t.Errorf("%+v, want %+v", times, want)
	}
	if len(slices.Compact(slices.Clone(times.Found))) < 2 {
		t.Errorf("all seeds are one: %v", times.Found)
	}
}

// TestByEventIsOfEachSeed, and what nobody watches is never found.
func TestByEventIsOfEachSeed(t *testing.T) {
	const perDay = 20_000
	s, _ := ScenarioNamed("stuffing-8000x4")
	c := Config{Policy: escalation.DefaultPolicy(), PerDay: perDay, Volume: 6, Learnt: Learn(perDay, 1)}
	times, err := s.ByEvent(t.Context(), c, 500, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := times.Found; len(f)+times.Early != 3 || len(f) < 2 || f[0] < 1 || f[len(f)-1] > 5*minute || !slices.IsSorted(f) || f[0] == f[len(f)-1] {
		t.Errorf("%+v", times)
	}
	c.Static = true
	if times, err := s.ByEvent(t.Context(), c, 500, 1, nil); err != nil || !slices.Equal(times.Found, []int64{Never}) {
		t.Errorf("with nobody watching: %+v, %v", times, err)
	}
}

// TestAlarmsInOutages: either kind, until an hour after its end.
func TestAlarmsInOutages(t *testing.T) {
	g := &Bins{}
	for i, c := range []Case{OutageNotChecked, OutageFailures, FlashCrowd} {
		g.spans = append(g.spans, Span{Case: c, From: int64(i) * day, To: int64(i)*day + hour})
	}
	for at, want := range map[int64]bool{0: true, 2*hour - 1: true, 2 * hour: false, day - 1: false, day: true, day + 90*minute: true, 2 * day: false} {
		if a := (Alarm{During: g.during(at)}); a.InOutage() != want {
			t.Errorf("after %d min: %v", at/minute, a)
		}
	}
}

// TestAWorldIsAcquainted before anything is counted: devices and places are known,
// an office is many people, networks and accounts of before are not new.
func TestAWorldIsAcquainted(t *testing.T) {
	w, _ := emptyWorld(t, Config{PerDay: 20_000, Before: 5 * minute, During: 5 * minute, After: 5 * minute})
	w.from = Start + hour
	w.to = w.from + 5*minute
	q, p := w.plan(Scenario{Name: string(OutageNotChecked), Case: OutageNotChecked}, w.from-5*minute, w.to+5*minute)
	if len(w.outages) != 1 || w.outages[0].From != w.from || w.to != w.outages[0].To || w.to > Start+hour+10*minute || w.down(w.from) != OutageNotChecked {
		t.Errorf("outages %+v, until %d", w.outages, w.to-w.from)
	}
	w.outages = nil
	if err := w.acquaint(t.Context(), q, p, w.from-5*minute); err != nil {
		t.Fatal(err)
	}
	if s := w.score; s.Honest != 0 || s.New != 0 || len(s.Minutes) != 0 || s.FirstChallenge != -1 || s.Posture != -1 || s.Relaxed != -1 {
		t.Errorf("the score begins with %+v", s)
	}
	home := 0
	for _, l := range q.list {
		if l.device && l.who != nil {
			if home++; l.who.device == "" {
				t.Fatalf("%s has no device", l.account)
			}
		}
	}
	if home == 0 {
		t.Error("nobody is at home")
	}
	office := keys.AddressOf(officeAddress(0))
	doc, err := w.store.Get(t.Context(), keys.NewSpaces(realmName, 1)[0].K(office.Counted()))
	if k := keys.K(doc, w.clock); err != nil || k != keys.MaxK {
		t.Errorf("an office is %d people, %v", k, err)
	}
	if err := w.watch(detect.NewWatch().Save(), p); err != nil {
		t.Fatal(err)
	}
	for ip, known := range map[string]bool{homeAddress(3).String(): true, officeAddress(0).String(): true, scanAddress(7 << 8).String(): true, "160.1.2.3": false} {
		s := detect.Sight{At: w.from, Class: detect.Cold, Account: ip, Wide: keys.AddressOf(netip.MustParseAddr(ip)).Wide()}
		if w.detector.See(&s); s.NewNetwork == known {
			t.Errorf("%s: new is %v", ip, s.NewNetwork)
		}
	}
	for i, guesses := range []int{1, 5} {
		if w.found(&detect.Campaign{ID: "a", Guesses: guesses}); len(w.score.Campaigns) != 1 || w.score.Campaigns[0].Guesses != guesses {
			t.Errorf("told %d times of one: %+v", i+1, w.score.Campaigns)
		}
	}
}
