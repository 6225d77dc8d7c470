package keys_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
)

var quick = keys.BreakerConfig{Failures: 3, Window: 1000, Interval: 100, Successes: 2}

func TestBreakerScoreSheet(t *testing.T) {
	type row struct {
		at   int64
		pass bool
		then keys.Result
		open bool
	}
	const w, f, v = keys.Worked, keys.Failed, keys.Void
	for name, rows := range map[string][]row{
		"opens after failures in a row": {{0, true, f, false}, {1, true, f, false}, {2, true, f, true}, {3, false, 0, true}},
		"a success between them counts them anew": {{0, true, f, false}, {1, true, f, false}, {2, true, w, false}, {3, true, f, false},
			{4, true, f, false}, {5, true, f, true}},
		"failures far apart are none in a row":      {{0, true, f, false}, {1, true, f, false}, {1002, true, f, false}, {1003, true, f, false}, {1004, true, f, true}},
		"who hangs up opens nothing":                {{0, true, v, false}, {1, true, v, false}, {2, true, v, false}, {3, true, v, false}},
		"one probe an interval, two in a row close": {{0, true, f, false}, {0, true, f, false}, {0, true, f, true}, {99, false, 0, true}, {100, true, w, true}, {101, false, 0, true}, {199, false, 0, true}, {200, true, w, false}, {201, true, w, false}},
		"a failing probe begins the row anew":       {{0, true, f, false}, {0, true, f, false}, {0, true, f, true}, {100, true, w, true}, {200, true, f, true}, {300, true, w, true}, {400, true, w, false}},
		"a probe that says nothing changes nothing": {{0, true, f, false}, {0, true, f, false}, {0, true, f, true}, {100, true, w, true}, {200, true, v, true}, {300, true, w, false}},
		"closed it takes as many failures again":    {{0, true, f, false}, {0, true, f, false}, {0, true, f, true}, {100, true, w, true}, {200, true, w, false}, {201, true, f, false}, {202, true, f, false}, {203, true, f, true}},
		"a clock that steps back costs a probe":     {{5000, true, f, false}, {5000, true, f, false}, {5000, true, f, true}, {10, true, w, true}, {11, false, 0, true}, {110, true, w, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b := keys.NewBreaker(quick)
			for i, r := range rows {
				p, ok := b.Ask(r.at)
				if ok != r.pass {
					t.Fatalf("row %d: let through %v", i, ok)
				}
				if ok {
					b.Tell(p, r.at, r.then)
				}
				if b.Open() != r.open {
					t.Fatalf("row %d: open %v", i, b.Open())
				}
			}
		})
	}
}

func TestBreakerSaysWhenTheNextProbeIs(t *testing.T) {
	b := keys.NewBreaker(quick)
	for range 3 {
		p, _ := b.Ask(7)
		b.Tell(p, 7, keys.Failed)
	}
	for at, want := range map[int64]int64{7: 100, 57: 50, 107: 0, 500: 0} {
		if n := b.Next(at); n != want {
			t.Errorf("at %d: %d, want %d", at, n, want)
		}
	}
}

// Of all callers at one moment one is let through, and while it has not come
// back nobody is, whatever the time.
func TestHalfOpenAdmitsExactlyOneProbeUnderConcurrency(t *testing.T) {
	b := keys.NewBreaker(quick)
	for range 3 {
		p, _ := b.Ask(0)
		b.Tell(p, 0, keys.Failed)
	}
	for round := range int64(200) {
		now := 1_000 * (round + 1)
		var let atomic.Int64
		var pass keys.Pass
		var all sync.WaitGroup
		for i := range int64(16) {
			all.Go(func() {
				if p, ok := b.Ask(now + 100*i); ok {
					let.Add(1)
					pass = p
				}
			})
		}
		all.Wait()
		if let.Load() != 1 {
			t.Fatalf("round %d: %d probes at once", round, let.Load())
		}
		b.Tell(pass, now, keys.Failed)
	}
}

// A probe whose maker panicked does not keep the breaker open for ever, and has
// no say any more when it turns up after all.
func TestALostProbeIsGivenUp(t *testing.T) {
	b := keys.NewBreaker(quick)
	for range 3 {
		p, _ := b.Ask(0)
		b.Tell(p, 0, keys.Failed)
	}
	lost, ok := b.Ask(100)
	if !ok {
		t.Fatal("no probe")
	}
	if _, ok := b.Ask(50 * keys.Second); ok {
		t.Error("two probes at once")
	}
	p, ok := b.Ask(61 * keys.Second)
	if !ok {
		t.Fatal("open for ever")
	}
	b.Tell(lost, 61*keys.Second, keys.Failed)
	b.Tell(p, 61*keys.Second, keys.Worked)
	p, _ = b.Ask(62 * keys.Second)
	b.Tell(p, 62*keys.Second, keys.Worked)
	if b.Open() {
		t.Error("open after two probes that worked")
	}
}

// What was begun before it opened, or under an earlier opening, says nothing.
func TestSlowCallsOfAnEarlierTimeAreNotHeard(t *testing.T) {
	b := keys.NewBreaker(quick)
	slow, _ := b.Ask(0)
	for range 3 {
		p, _ := b.Ask(0)
		b.Tell(p, 0, keys.Failed)
	}
	b.Tell(slow, 50, keys.Worked)
	if !b.Open() {
		t.Fatal("closed by a call from before it opened")
	}
	for at := int64(100); at <= 200; at += 100 {
		p, _ := b.Ask(at)
		b.Tell(p, at, keys.Worked)
	}
	for range 3 {
		b.Tell(slow, 201, keys.Failed)
	}
	if b.Open() {
		t.Error("opened by calls from before")
	}
}

// The breaker beside a model of what it promises, over random histories: never
// more than one probe an interval or at once, open only after Failures failures
// with no success between them, closed only after Successes probes in a row.
func TestBreakerKeepsItsPromisesOverAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := keys.NewBreaker(quick)
		var now, lastProbe int64 = 1000, -1000
		type flight struct {
			p     keys.Pass
			probe bool
			flips int
		}
		var flying []flight
		fails, good, flips, probing := 0, 0, 0, false
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 150).Draw(t, "passed")
			if len(flying) > 0 && rapid.Bool().Draw(t, "back") {
				i := rapid.IntRange(0, len(flying)-1).Draw(t, "which")
				f := flying[i]
				flying = append(flying[:i], flying[i+1:]...)
				r := keys.Result(rapid.IntRange(0, 2).Draw(t, "result"))
				was := b.Open()
				b.Tell(f.p, now, r)
				if f.flips != flips {
					// begun before the last flip: it says nothing
				} else if f.probe {
					probing = false
					switch r {
					case keys.Worked:
						good++
					case keys.Failed:
						good = 0
					}
				} else if !was {
					switch r {
					case keys.Worked:
						fails = 0
					case keys.Failed:
						fails++
					}
				}
				switch is := b.Open(); {
				case is && !was && fails < quick.Failures:
					t.Fatalf("opened after %d failures", fails)
				case !is && was && (!f.probe || good < quick.Successes):
					t.Fatalf("closed after %d probes that worked", good)
				case is != was:
					fails, good, probing = 0, 0, false
					flips++
				}
				continue
			}
			was := b.Open()
			p, ok := b.Ask(now)
			switch {
			case !was && !ok:
				t.Fatal("closed, and held a call back")
			case was && ok && (probing || now-lastProbe < quick.Interval):
				t.Fatalf("a probe %d after the last, which is under way: %v", now-lastProbe, probing)
			case was && ok:
				probing, lastProbe = true, now
			}
			if ok {
				flying = append(flying, flight{p, was, flips})
			}
		}
	})
}
