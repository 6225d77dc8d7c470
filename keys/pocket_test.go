package keys_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
)

func TestDemandIsOfTheLastWindow(t *testing.T) {
	var d keys.Demand
	for _, x := range []struct{ at, add, want int64 }{
		{0, 0, 0}, {1000, 5, 5}, {50_000, 5, 10}, {99_999, 1, 11},
		{100_000, 2, 11},      // the last whole window has more
		{150_000, 20, 22},     // and now the one that runs
		{299_999, 1, 22},      // the next
		{300_000, 0, 1},       //
		{1_000_000, 0, 0},     // quiet
		{1_000_001, 7, 7},     // and again
		{1_099_999, 0, 7},     //
		{1_100_001, 0, 7},     //
		{1_200_001, 0, 0},     //
		{1_200_002, 1e9, 1e9}, // a crowd counts at once
	} {
		d.Add(x.at, x.add)
		if got := d.PerWindow(x.at); got != x.want {
			t.Errorf("at %d: %d, want %d", x.at, got, x.want)
		}
	}
}

func TestTermsOfALease(t *testing.T) {
	terms := keys.LeaseTerms{Above: 100, Most: 500, Life: keys.Second}
	for _, x := range []struct {
		perWindow int64
		leases    bool
		want      bool
	}{{9, false, false}, {10, false, true}, {5, true, true}, {4, true, false}, {0, true, false}} {
		if terms.Busy(x.perWindow, x.leases) != x.want {
			t.Errorf("%+v", x)
		}
	}
	for _, x := range []struct{ held, demand, need, want int64 }{
		{0, 100, 1, 100}, {0, 1000, 1, 500}, {450, 1000, 0, 50}, {500, 1000, 0, 0}, {0, 3, 9, 9}, {0, 0, 700, 700}, // one request may need more
	} {
		if got := terms.Want(x.held, x.demand, x.need); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	if !terms.Low(12, 100) || terms.Low(13, 100) || !terms.Low(62, 10_000) || terms.Low(63, 10_000) {
		t.Error("low is an eighth of a window, or of the most")
	}
}

func TestKnownSaysWhenToAskAgain(t *testing.T) {
	l := keys.Limit{Capacity: 100, Count: 1, Period: 10_000} // a token in 10 ms
	slow := keys.Limit{Capacity: 100, Count: 1, Period: keys.Day}
	for name, x := range map[string]struct {
		in                          keys.Limit
		left, wanted, got           int64
		nextLeast, nextMost, wait10 int64
	}{
		"had all that was wanted":   {l, 50 * l.Period, 10, 10, 0, 0, 0},
		"had less":                  {l, 0, 10, 5, keys.ShortPause * 3 / 4, keys.ShortPause * 5 / 4, 100_000},
		"is full before the pause":  {l, 99 * l.Period, 200, 1, 10_000, 10_000, 10_000},
		"has no token for a while":  {slow, 0, 10, 0, keys.Second, keys.Second, 10 * keys.Day},
		"has one after a short day": {slow, keys.Day - 200_000, 10, 0, 200_000, 200_000, 9*keys.Day + 200_000},
	} {
		for turn := range uint64(60_000) {
			if turn > 3 && turn < 59_990 {
				continue
			}
			var k keys.Known
			k.Learn(7, x.in, x.left, x.wanted, x.got, turn)
			if next := k.Next - 7; next < x.nextLeast || next > x.nextMost {
				t.Errorf("%s: asked again after %d, not %d to %d", name, next, x.nextLeast, x.nextMost)
			}
			if wait := k.Wait(7, 10); wait != x.wait10 {
				t.Errorf("%s: 10 tokens after %d, not %d", name, wait, x.wait10)
			}
		}
	}
	var none keys.Known
	if none.Wait(7, 1) != 0 || none.Units(7, l) != l.Units() {
		t.Error("nothing is known of it: it is full, and can be asked")
	}
}

// Whatever is put, spent, unspent and dropped, no token is made or lost: those that
// were put are spent, held, dropped or counted as lost.
func TestAPocketKeepsItsTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p keys.Pocket
		var now, put, spent, dropped int64
		type part struct {
			from keys.Spent
			n    int64
		}
		var parts []part
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				h := keys.Hold{ID: [16]byte{byte(n)}, In: keys.Limit{Capacity: 1, Count: 1, Period: 1}, Stamp: now, Tokens: rapid.Int64Range(1, 20).Draw(t, "tokens"),
					Ends: now + rapid.Int64Range(1, 50).Draw(t, "life")}
				p.Put(h)
				put += h.Tokens
			case 1:
				if held := p.Held(now); held > 0 {
					n := rapid.Int64Range(1, held).Draw(t, "n")
					parts = append(parts, part{p.Spend(n), n})
					spent += n
				}
			case 2:
				if i := len(parts) - 1; i >= 0 {
					ok := p.Unspend(now, parts[i].from, parts[i].n)
					if ok != (now < parts[i].from.Ends) {
						t.Fatalf("put back: %t, at %d of %d", ok, now, parts[i].from.Ends)
					}
					if ok {
						spent -= parts[i].n
					}
					parts = parts[:i]
				}
			case 3:
				for _, h := range p.Drop(now + rapid.Int64Range(0, 30).Draw(t, "before")) {
					dropped += h.Left
				}
			default:
				now += rapid.Int64Range(0, 20).Draw(t, "time")
			}
			if held := p.Held(now); held < 0 || put != spent+held+dropped+p.Lost {
				t.Fatalf("%d put are not %d spent, %d held, %d dropped and %d lost", put, spent, held, dropped, p.Lost)
			}
		}
		now += 100
		if p.Held(now) != 0 {
			t.Fatalf("%d are held after their end", p.Held(now))
		}
	})
}
