package shed

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys/shed/shedtest"
)

const ms, second = int64(1000), int64(1_000_000)

// load is requests that come to a backend behind a Limiter at so many a second.
type load struct {
	t       *testing.T
	l       *Limiter
	b       *shedtest.Backend
	r       *rand.Rand
	asked   [3]int
	served  [3]int
	late    int // served after two seconds: nobody waits so long
	longest int64
}

func newLoad(t *testing.T, c Config, workers int) *load {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &load{t: t, l: l, b: &shedtest.Backend{Workers: workers}, r: rand.New(rand.NewPCG(1, 2))}
}

// run sends perSecond requests of 10 ms (or what needs says) for a while; a fifth
// are critical, a fifth background.
func (w *load) run(perSecond int, seconds int64, needs func() (int64, string)) {
	w.asked, w.served, w.late, w.longest = [3]int{}, [3]int{}, 0, 0
	if needs == nil {
		needs = func() (int64, string) { return 8*ms + w.r.Int64N(4*ms), "" }
	}
	end := w.b.Now() + seconds*second
	for {
		next := w.b.Now() + int64(w.r.ExpFloat64()*float64(second)/float64(perSecond))
		if next > end {
			break
		}
		w.b.Run(next)
		p := Priority([]int{0, 1, 1, 1, 2}[w.r.IntN(5)])
		w.asked[p]++
		if !w.l.Begin(p) {
			continue
		}
		begun := w.b.Now()
		n, of := needs()
		w.b.Do(n, func(now int64) {
			w.l.End(now, now-begun, of, Done)
			w.served[p]++
			w.longest = max(w.longest, now-begun)
			if now-begun > 2*second {
				w.late++
			}
		})
	}
	w.b.Run(end)
}

func (w *load) all() (asked, served int) {
	for p := range w.asked {
		asked, served = asked+w.asked[p], served+w.served[p]
	}
	return asked, served
}

// Twice as much as a backend can do: it does nearly all that it can, nobody waits
// long, and critical requests are served though they alone are a fifth of all.
func TestUnderOverloadTheBackendWorksAndCriticalTrafficIsServed(t *testing.T) {
	w := newLoad(t, Config{}, 16) // 1600 a second
	w.run(3200, 10, nil)          // finds its limit
	w.run(3200, 30, nil)
	_, served := w.all()
	if least := 1600 * 30 * 85 / 100; served < least {
		t.Errorf("%d served of %d that could be", served, 1600*30)
	}
	if w.longest > 100*ms {
		t.Errorf("one took %d ms of 10", w.longest/ms)
	}
	if lost := w.asked[Critical] - w.served[Critical]; lost*100 > w.asked[Critical] {
		t.Errorf("%d of %d critical requests were turned away", lost, w.asked[Critical])
	}
	if w.served[Background]*w.asked[Normal] > w.served[Normal]*w.asked[Background] {
		t.Errorf("background %d of %d, normal %d of %d", w.served[Background], w.asked[Background], w.served[Normal], w.asked[Normal])
	}
	s := w.l.Stats()
	if s.Turned[Background] == 0 || s.Turned[Normal] == 0 || s.Limit < 16 || s.Limit > 64 {
		t.Errorf("%+v", s)
	}
}

// Below what it can do nobody is turned away, but background requests in a burst.
func TestBelowCapacityNobodyIsTurnedAway(t *testing.T) {
	w := newLoad(t, Config{First: 40}, 16)
	w.run(800, 60, nil)
	if s := w.l.Stats(); s.Turned[Critical]+s.Turned[Normal] != 0 || int(s.Turned[Background])*200 > w.asked[Background] || s.Limit < 20 {
		t.Errorf("%+v", s)
	}
}

// The limit does not grow without load: what few requests show says nothing of
// what many would do.
func TestTheLimitDoesNotGrowWithoutLoad(t *testing.T) {
	w := newLoad(t, Config{First: 50}, 16)
	w.run(20, 600, nil)
	if s := w.l.Stats(); s.Limit != 50 {
		t.Errorf("%+v", s)
	}
	w.run(1500, 5, nil)
	before := w.l.Stats().Limit
	w.run(5, 600, nil)
	if after := w.l.Stats().Limit; after > before {
		t.Errorf("the limit grew from %d to %d", before, after)
	}
}

// A backend that becomes four times as slow for good is not starved, and one that
// is well again is used again.
func TestABackendThatIsSlowForGoodIsNotStarved(t *testing.T) {
	w := newLoad(t, Config{}, 16)
	w.run(1600, 20, nil)
	w.b.Slow = 4 // 400 a second
	w.run(1600, 30, nil)
	w.run(1600, 30, nil)
	if _, served := w.all(); served < 400*30*7/10 {
		t.Errorf("%d served of %d that could be while it was slow", served, 400*30)
	}
	w.b.Slow = 0
	w.run(1600, 10, nil)
	w.run(1500, 30, nil)
	if asked, served := w.all(); served < asked*85/100 {
		t.Errorf("%d served of %d when it was well again", served, asked)
	}
}

// Requests that always take long are no sign of a queue, where they are of a class
// of their own.
func TestClassesThatTakeDifferentTimes(t *testing.T) {
	mixed := func(w *load, dear int) func() (int64, string) {
		return func() (int64, string) {
			if w.r.IntN(100) < dear {
				return 500*ms + w.r.Int64N(100*ms), "dear"
			}
			return 1 * ms, "cheap"
		}
	}
	w := newLoad(t, Config{First: 40}, 32)
	w.run(500, 10, mixed(w, 1))
	w.run(500, 30, mixed(w, 6)) // six times as many dear ones: 17 workers of 32
	if asked, served := w.all(); served < asked*98/100 {
		t.Errorf("%d served of %d", served, asked)
	}
	for i := range 10 * MaxClasses { // a flood of classes shares one
		w.l.Begin(Critical)
		w.l.End(w.b.Now(), ms, strings.Repeat("x", i), Done)
	}
	if n := len(w.l.classes); n > MaxClasses+1 {
		t.Errorf("%d classes", n)
	}
}

// A backend that fails gets fewer at once; a caller who hangs up says nothing.
func TestFailuresHalveTheLimit(t *testing.T) {
	for r, want := range map[Result]int{Failed: 4, Void: 64} {
		l, err := New(Config{First: 64})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(1000) {
			l.Begin(Critical)
			l.End(second+i*10*ms, ms, "", r)
		}
		if s := l.Stats(); s.Limit != want || s.InFlight != 0 {
			t.Errorf("result %d: %+v, want a limit of %d", r, s, want)
		}
	}
}

// Whatever happens, no more are under way than the limit allows each priority, and
// what has ended makes room.
func TestNoMoreAreUnderWayThanThereIsRoom(t *testing.T) {
	l, err := New(Config{Least: 10, Most: 10, First: 10})
	if err != nil {
		t.Fatal(err)
	}
	let := func(p Priority) (n int) {
		for l.Begin(p) {
			n++
		}
		return n
	}
	if n := let(Background); n != 6 {
		t.Errorf("background: %d", n)
	}
	if n := let(Normal); n != 2 {
		t.Errorf("normal: %d more", n)
	}
	if n := let(Critical); n != 2 {
		t.Errorf("critical: %d more", n)
	}
	l.End(second, ms, "", Done)
	if let(Background) != 0 || let(Normal) != 0 || let(Critical) != 1 {
		t.Error("one has ended: only a critical one has room")
	}
	if s := l.Stats(); s.InFlight != 10 || s.Turned[Critical] != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsWrongWithALimiterIsNamed(t *testing.T) {
	for field, c := range map[string]Config{
		"Least": {Least: -1}, "Most": {Least: 5, Most: 4, First: 5}, "First": {First: 2000}, "Reserve": {Reserve: 0.5}, "Tolerance": {Tolerance: 1}, "Slack": {Slack: -1}, "Window": {Window: -1}, "Samples": {Samples: -1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
