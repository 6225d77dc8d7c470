package aggregate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// TestAgingRemembersAsLongAsItSays compares with a plain list of when each
// fingerprint was last added.
func TestAgingRemembersAsLongAsItSays(t *testing.T) {
	const span = 1000
	gap := func(r *rand.Rand) int64 { // mostly small, at times longer than all that is remembered
		if r.IntN(300) == 0 {
			return r.Int64N(3 * span)
		}
		return r.Int64N(9)
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, last := newAging(span, 1<<20), map[uint64]int64{}
		for now := int64(1); now < 20_000; now += gap(r) {
			f := fingerprint(r.Uint64N(400))
			at, known := last[f]
			switch n := a.add(now, f); {
			case known && now-at < span && n == 0:
				t.Fatalf("seed %d: forgotten %d after it came", seed, now-at)
			case n > 0 && (!known || now-at > 2*span+9):
				t.Fatalf("seed %d: still known %d after it came (%v)", seed, now-at, known)
			}
			last[f] = now
			if r.IntN(50) == 0 {
				a.forget(now, f)
				delete(last, f)
				if a.get(now, f) != 0 {
					t.Fatalf("seed %d: not forgotten", seed)
				}
			}
		}
	}
	a := newAging(span, 100)
	for i := range uint64(1000) {
		a.add(1, fingerprint(i))
	}
	if a.young.n+a.old.n > 200 || a.overfull == 0 || a.get(1, fingerprint(999)) != 1 {
		t.Errorf("%d and %d are remembered, room is for 100 each; cut short %d times", a.young.n, a.old.n, a.overfull)
	}
	for range 300 {
		a.add(2, 7)
	}
	if a.get(2, 7) != maxCount {
		t.Errorf("counts to %d", a.get(2, 7))
	}
}

// TestSequencesTellRepeatsAndGaps reads numbers in disorder, some twice and some
// never, against a plain set.
func TestSequencesTellRepeatsAndGaps(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		upto := r.Uint64N(3) * 50
		first := upto + 1 + r.Uint64N(3)*20
		var order []uint64
		for n := first; n < first+400; n++ {
			for range max(r.IntN(8)-4, 0) + r.IntN(2) {
				order = append(order, n)
			}
		}
		for i := range order { // not far: a publisher repeats a batch
			j := min(i+r.IntN(100), len(order)-1)
			order[i], order[j] = order[j], order[i]
		}
		s, seen, high := newSequence(order[0], upto), map[uint64]bool{}, upto
		for _, n := range order {
			if got := s.take(n); got == seen[n] {
				t.Fatalf("seed %d: %d is fresh: %v", seed, n, got)
			}
			seen[n] = true
			high = max(high, n)
			missing := uint64(0)
			for n := upto + 1; n <= high; n++ {
				if !seen[n] {
					missing++
				}
			}
			if s.missing != missing {
				t.Fatalf("seed %d, after %d: %d are missing, not %d", seed, n, s.missing, missing)
			}
		}
	}
	s := newSequence(1, 0)
	s.take(1)
	if s.take(1 << 40); s.missing != 1<<40-2 || s.take(1<<40) || s.take(2) || !s.take(1<<40-1) {
		t.Errorf("after a leap %d are missing", s.missing)
	}
	if s := newSequence(700, 699); !s.take(700) || !s.take(650) || s.missing != 0 {
		t.Errorf("where nobody knows what came before, %d are missing", s.missing)
	}
}

func address(s string) keys.Address { return keys.AddressOf(netip.MustParseAddr(s)) }

func TestSizesOfSharedAddresses(t *testing.T) {
	const week, hour = sizeHours, sizeHour
	office, home, cafe, bar := address("192.0.2.1"), address("192.0.2.2"), address("198.51.100.1"), address("198.51.100.2")
	six := func(i int) keys.Address { return address(fmt.Sprintf("2001:db8:1:%x::1", i)) }
	s, now := newSizes(1<<20), uint32(1000)
	k := func(a keys.Address, wide bool) int64 {
		p := placeOf(a)
		if wide {
			p, _ = wideOf(p)
		}
		return s.k(p, wide)
	}
	want := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s: k is %d, not %d", what, got, want)
		}
	}
	in := func(from, to uint64, a keys.Address) {
		for i := from; i < to; i++ {
			s.signedIn(fingerprint(i), placeOf(a), now)
		}
	}
	want("nobody", k(office, false), 1)
	in(0, 49, office)
	want("49 accounts", k(office, false), 1)
	in(0, 49, office)
	in(49, 50, office)
	want("50 accounts, most of them twice", k(office, false), 2)
	in(50, 1100, office)
	want("1100 accounts", k(office, false), keys.MaxK)
	in(0, 100, home)
	in(0, 100, cafe)
	in(0, 100, bar)
	want("a second address", k(home, false), 4)
	want("a third", k(cafe, false), 4)
	want("a fourth of the same accounts", k(bar, false), 1)

	// What has not been used for a week makes room.
	now += week - 1
	in(0, 30, office)
	in(0, 100, bar)
	want("within the week", k(bar, false), 1)
	now++
	in(0, 100, bar)
	want("after it", k(bar, false), 4)
	for i := range sizeParts {
		s.encode(i, int64(now)*hour)
	}
	want("the office, of which 30 have come back", k(office, false), 1)
	in(100, 130, office)
	want("and 30 more", k(office, false), 2)

	// A /48 counts an account once; an IPv4 address has none.
	for i := range 100 {
		in(5000, 5030, six(i))
	}
	want("30 accounts in a /48", k(six(0), true), 1)
	in(5030, 5060, six(7))
	want("30 more", k(six(3), true), 2)
	want("one of its /64", k(six(0), false), 1)
	if _, ok := wideOf(placeOf(office)); ok {
		t.Error("an IPv4 address has a /48")
	}
}

func TestSizesAreWrittenWhenTheyChangeAndBeforeTheyLapse(t *testing.T) {
	s, at := newSizes(1<<20), int64(1_800_000_000)*keys.Second
	ip := address("2001:db8:1:2::3")
	due := func() (all string) {
		for _, d := range s.due(ip, at) {
			all += fmt.Sprint(d.prefix, " ", d.k, " ", (d.until-at)/keys.Day, ";")
		}
		return all
	}
	in := func(n uint64) {
		for i := range n {
			s.signedIn(fingerprint(i), placeOf(ip), hourOf(at))
		}
	}
	const both2 = "2001:db8:1:2::/64 2 3;2001:db8:1::/48 2 3;"
	for i, step := range []struct {
		accounts uint64
		later    int64
		due      string
	}{
		{49, 0, ""},
		{50, 0, both2},
		{50, keys.Day - 1, ""},
		{50, 1, both2}, // a day old
		{75, 1, strings.ReplaceAll(both2, " 2 3", " 3 3")},
		{0, 0, ""},
		{0, 4 * keys.Day, strings.ReplaceAll(both2, " 2 3", " 3 3")}, // lapsed
	} {
		at += step.later
		in(step.accounts)
		if got := due(); got != step.due {
			t.Errorf("step %d: due is %q, not %q", i, got, step.due)
		}
	}
	at += 8 * keys.Day
	for i := range sizeParts {
		s.encode(i, at)
	}
	if got := due(); got != "" {
		t.Errorf("after it lapsed: %q", got)
	}
	in(100)
	due()
	at += 2 * keys.Day
	for i := range uint64(70) { // the others are gone from here
		s.drop(s.part(fingerprint(i)), fingerprint(i), s.part(fingerprint(i)).accounts[fingerprint(i)])
	}
	if got := due(); got != strings.ReplaceAll(both2, " 2 3", " 1 3") {
		t.Errorf("when it is one person again: %q", got)
	}
}

// TestSizesOutliveTheirReader: parts that are written and read again say the same,
// and of two readers that each saw half, both know all.
func TestSizesOutliveTheirReader(t *testing.T) {
	const now = int64(1_800_000_000) * keys.Second
	r := rand.New(rand.NewPCG(1, 3))
	a, b, all := newSizes(1<<20), newSizes(1<<20), newSizes(1<<20)
	var places []uint64
	for i := range 40 {
		places = append(places, placeOf(address(fmt.Sprintf("2001:db8:%x:%x::1", i%5, i))), placeOf(address(fmt.Sprint("192.0.2.", i))))
	}
	for i := range 20_000 {
		account, place := fingerprint(r.Uint64N(3000)), places[min(r.IntN(80), r.IntN(80))]
		// Of one account each reader sees what the others do: the first three win.
		s := []*sizes{a, b}[account>>20%2]
		s.signedIn(account, place, hourOf(now)-uint32(i%20))
		all.signedIn(account, place, hourOf(now)-uint32(i%20))
	}
	same := func(what string, got, want *sizes) {
		t.Helper()
		for _, p := range places {
			w, _ := wideOf(p)
			if got.narrow[p] != want.narrow[p] || got.wide[w] != want.wide[w] {
				t.Errorf("%s: %x has %d accounts, not %d", what, p, got.narrow[p], want.narrow[p])
			}
		}
	}
	merge := func(from, to *sizes) {
		for i := range sizeParts {
			if err := to.merge(from.encode(i, now)); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := newSizes(1 << 20)
	merge(a, again)
	same("read again", again, a)
	merge(b, a)
	merge(a, b)
	same("of both", a, all)
	same("of both, the other", b, all)
	doc := a.encode(3, now)
	for name, bad := range map[string][]byte{"short": doc[:len(doc)-1], "version": append([]byte{9}, doc[1:]...), "one byte": {1}, "level": {1, 99}} {
		if newSizes(9).merge(bad) == nil {
			t.Errorf("%s: taken over", name)
		}
	}
}

// TestSizesOfMoreAccountsThanThereIsRoomFor: which accounts are followed is by
// chance, and what is found is right up to that.
func TestSizesOfMoreAccountsThanThereIsRoomFor(t *testing.T) {
	s, office := newSizes(4000), placeOf(address("192.0.2.1"))
	for i := range uint64(60_000) {
		place := placeOf(address(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)))
		if i%60 == 0 {
			place = office
		}
		s.signedIn(fingerprint(i), place, 1000)
	}
	// 1,000 accounts, of which 1 in 16 is followed: 62.5, give or take 8.
	if k := s.k(office, false); k < 28 || k > keys.MaxK || s.count > 4000 || s.level != 4 {
		t.Errorf("k is %d of 40, %d accounts are followed, 1 in %d", k, s.count, 1<<s.level)
	}
	if n := len(s.narrow); n > 4000 {
		t.Errorf("%d addresses are kept", n)
	}
}

func TestBinsCloseByTheTimeOfEvents(t *testing.T) {
	var b bins
	var closed []int64
	const at0 = 1_800_000_003 * keys.Second // three seconds into a bin
	start := detect.BinStart(at0)
	for i, step := range []struct {
		at     int64 // seconds after the start of at0's bin
		in     int64 // the bin it counts in, in seconds; -1: none
		late   bool
		closed []int64
	}{
		{3, -1, false, nil}, // the first bin is not seen whole
		{9, -1, false, nil},
		{10, 10, false, nil},
		{25, 20, false, nil},
		{19, 10, false, nil}, // late, but in time
		{29, 20, false, nil},
		{30, 30, false, []int64{10}},
		{19, -1, true, nil},
		{5, -1, false, nil}, // of before all bins
		{20, 20, false, nil},
		{75, 70, false, []int64{20, 30, 40, 50}},
		{61, 60, false, nil},
		{75 + 86_500, 86_570, false, nil}, // nothing is known of so long a time
	} {
		closed = nil
		bin, late := b.at(start+step.at*keys.Second, func(b *detect.Bin) { closed = append(closed, (b.Start-start)/keys.Second) })
		in := int64(-1)
		if bin != nil {
			in = (bin.Start - start) / keys.Second
		}
		if i == 12 {
			if len(closed) > 20_000 || closed[0] != 60 || closed[len(closed)-1] > 86_570 {
				t.Errorf("closed %v of a day", closed)
			}
			closed, in = nil, step.in
		}
		if in != step.in || late != step.late || fmt.Sprint(closed) != fmt.Sprint(step.closed) {
			t.Errorf("step %d: in %d, late %v, closed %v; not %d, %v, %v", i, in, late, closed, step.in, step.late, step.closed)
		}
	}
}

// TestARealmOutlivesAClockThatWasAhead: the store's clock was a day ahead, and is set
// back. What comes then counts, and is not taken for late for a day.
func TestARealmOutlivesAClockThatWasAhead(t *testing.T) {
	x, seq := newRealm("default"), uint64(0)
	failure := func(at int64) {
		seq++
		x.take(&Event{V: Version, ID: fmt.Sprint(seq), Instance: "a", Seq: seq, Kind: KindOutcome, Flow: login, Outcome: "failure",
			Time: time.UnixMicro(at), Account: "a", IP: "192.0.2.1"}, nil, at, false)
	}
	const now = 1_800_000_000 * keys.Second
	for i := range int64(10) {
		failure(now + keys.Day + i*10*keys.Second)
	}
	x.classer.asked.overfull = 7
	was := x.now()
	for i := range int64(10) {
		failure(now + i*10*keys.Second)
	}
	is := x.now()
	if is.Late != was.Late || is.Bins < was.Bins+7 || is.Ahead > 0 {
		t.Errorf("%d came late, %d bins were closed, %d were ahead", is.Late-was.Late, is.Bins-was.Bins, is.Ahead)
	}
	if is.Overfull != was.Overfull {
		t.Errorf("a count went from %d to %d", was.Overfull, is.Overfull)
	}
	// One instance's clock is a little ahead: that is nothing.
	mark := x.bins.mark
	failure(mark - aheadMost + keys.Second)
	if x.bins.mark != mark {
		t.Error("a second makes it begin anew")
	}
}

// TestARealmHasABound fills everything that a realm remembers.
func TestARealmHasABound(t *testing.T) {
	measure := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := measure()
	x := newRealm("default")
	x.loaded = sizeParts
	for i := range uint64(500_000) {
		f := fingerprint(i)
		for a := range uint64(placesPerAccount) {
			x.sizes.signedIn(f, fingerprint(i, a), 1000)
		}
		x.classer.successes.add(1, f)
		x.classer.asked.add(1, f)
		x.classer.pending.add(1, f)
		x.classer.yesterday(&Event{Tag: fmt.Sprintf("%016x", i), TagPrev: fmt.Sprintf("%016x", f)})
		if i < 1000 {
			x.fresh(&Event{Instance: fmt.Sprint(i), Seq: 1}, int64(i)+1)
		}
	}
	used := int64(measure()-before) >> 20
	t.Logf("a realm takes %d MiB; %d accounts are followed, %d addresses", used, x.sizes.count, len(x.sizes.narrow))
	if used > 40 {
		t.Errorf("a realm takes %d MiB", used)
	}
	runtime.KeepAlive(x)
}
