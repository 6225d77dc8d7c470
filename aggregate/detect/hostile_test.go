package detect

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
)

// hosts are addresses of a network each.
func hosts(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1}), 32)
}

// TestSuspectsMakeRoomForWhoActsNow: who has as many networks or passwords suspected
// as there is room for does not have his next one overlooked, and fills no memory.
func TestSuspectsMakeRoomForWhoActsNow(t *testing.T) {
	d := New(1)
	k := d.Campaigns.of(distributed, "", monday, monday)
	for n := range 2 * suspectsMost {
		d.suspect(hosts(n), monday+int64(n), k)
	}
	for n := range 2 * tagsMost {
		d.suspectTag(strconv.Itoa(n), monday+int64(n))
	}
	bad := from("198.51.100.7")
	for i := range manyAccounts {
		d.See(&Sight{At: monday + minute, Class: Cold, Account: strconv.Itoa(i), Source: bad, Wide: wide(bad), Tag: "spring"})
	}
	if d.suspects[bad] == 0 || len(d.suspects) > suspectsMost {
		t.Errorf("the one who acts now is a suspect until %d, of %d", d.suspects[bad], len(d.suspects))
	}
	if d.tags["spring"] == 0 || len(d.tags) > tagsMost {
		t.Errorf("his password is one until %d, of %d", d.tags["spring"], len(d.tags))
	}
	for n := range suspectsMost / 2 {
		if d.suspects[hosts(2*suspectsMost-1-n)] == 0 || d.tags[strconv.Itoa(2*tagsMost-1-n)] == 0 {
			t.Fatal("one of the latest before him made room, and older ones did not")
		}
	}
}

// TestWhatComesLateShortensNothing: an instance that was cut off tells hours later
// what it has seen.
func TestWhatComesLateShortensNothing(t *testing.T) {
	d := New(1)
	bad := from("198.51.100.7")
	for _, at := range []int64{monday + 3*hour, monday} {
		for i := range 2 * manyAccounts {
			d.See(&Sight{At: at, Class: Cold, Account: fmt.Sprint(at, i), Source: bad, Wide: wide(bad), Tag: "spring"})
		}
	}
	if got := d.suspects[bad]; got != monday+3*hour+suspectFor {
		t.Errorf("the network is a suspect for %d s after the last sign", (got-monday-3*hour)/second)
	}
	if got := d.tags["spring"]; got != monday+3*hour+tagFor {
		t.Errorf("the password is a suspect for %d s after the last sign", (got-monday-3*hour)/second)
	}
	for _, k := range d.Campaigns.Take() {
		if k.Last != monday+3*hour {
			t.Errorf("%s: the last sign was %d s before the last", k.What, (monday+3*hour-k.Last)/second)
		}
	}
	var c dayCount
	c.add(monday + 30*hour)
	c.add(monday + 5*hour)
	if n := c.sum((monday+30*hour)/hour, 24); n != 1 {
		t.Errorf("%d of one within a day", n)
	}
}

// TestWhoComesBackIsAnotherCampaign: each is closed once, under an id of its own,
// also where he is found by what he did since the morning.
func TestWhoComesBackIsAnotherCampaign(t *testing.T) {
	s, c := NewSources(1), NewCampaigns()
	bad := from("198.51.100.7")
	at := int64(monday)
	opened, closed := map[string]int64{}, map[string]int{}
	for i := range 3 * manyAccounts {
		if f, ok := s.See(&Sight{At: at, Class: Cold, Account: strconv.Itoa(i), Source: bad, Wide: wide(bad)}); ok {
			c.find(&f)
		}
		if at += second; i == 2*manyAccounts {
			at += 3 * hour
		}
		c.tidy(at)
		for _, k := range c.Take() {
			opened[k.ID] = k.Start
			closed[k.ID] += one(k.End != 0)
		}
	}
	c.tidy(at + 2*hour)
	for _, k := range c.Take() {
		closed[k.ID]++
	}
	if len(opened) != 2 {
		t.Errorf("%d campaigns, want 2", len(opened))
	}
	for id, n := range closed {
		if n != 1 {
			t.Errorf("%s was closed %d times", id, n)
		}
	}
	if start := slices.Max(slices.Collect(maps.Values(opened))); start < monday+3*hour {
		t.Errorf("the second began %d s after the first", (start-monday)/second)
	}
	for n := range 4 * campaignsOpen {
		c.of(spraying, strconv.Itoa(n), at, at)
		c.close(spraying+" "+strconv.Itoa(n), at)
	}
	if len(c.closed) > campaignsOpen {
		t.Errorf("%d that have ended are remembered", len(c.closed))
	}
}

// TestWhatIsReadAgainIsCountedOnce: a successor is given the last hour again.
func TestWhatIsReadAgainIsCountedOnce(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	_, _, at = play(d, r, at, 60, nil)
	attack := func(_, i int) (Sight, bool) {
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: hosts(r.IntN(1 << 16)), Tag: "spring", Stranger: true}, i < 60
	}
	_, _, end := play(d, r, at, 60, attack)
	want := map[string]int{}
	for _, k := range d.Campaigns.Open(9) {
		want[k.What] = k.Guesses
	}
	if len(want) != 2 || want[distributed] < 2000 || want[spraying] < 2000 {
		t.Fatalf("guesses of each campaign: %v", want)
	}
	e, err := Restore(2, d.Save())
	if err != nil {
		t.Fatal(err)
	}
	play(e, r, at-60*Width, 60, nil)
	play(e, r, at, 60, attack)
	for _, k := range e.Campaigns.Open(9) {
		if k.Guesses != want[k.What] {
			t.Errorf("%s: %d guesses became %d", k.What, want[k.What], k.Guesses)
		}
	}
	play(e, r, end, 6, attack)
	for _, k := range e.Campaigns.Open(9) {
		if k.Guesses < want[k.What]+300 {
			t.Errorf("%s: of another minute nothing is counted", k.What)
		}
	}
}

// TestLearningTakesAWeekOfBins: the first login may have been a test of a month ago,
// and a successor that crashes every minute is given the same hour again and again.
func TestLearningTakesAWeekOfBins(t *testing.T) {
	b := newBaseline()
	b.learn(&Bin{Start: monday - 30*day}, true)
	for range 2 * learning {
		b.learn(&Bin{Start: monday - hour}, true)
		b.learn(&Bin{Start: monday}, true)
	}
	if !b.Learning() {
		t.Error("two hours were a week")
	}
	for h := range int64(learning) {
		b.learn(&Bin{Start: monday + h*hour}, true)
	}
	if b.Learning() {
		t.Error("a week was none")
	}
}

// TestALevelThatHasLapsedIsNotSetAgain by a successor that comes a day later.
func TestALevelThatHasLapsedIsNotSetAgain(t *testing.T) {
	for away, want := range map[int64]Level{-hour: Critical, minute: Critical, lapse - Width: Critical, lapse + Width: Calm, 3 * day: Calm} {
		d := New(1)
		d.Control = Control{level: Critical, since: monday - hour, sign: monday - minute, hold: holdMost, peak: 77}
		d.last = monday
		e, err := Restore(2, d.Save())
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Step(&Bin{Start: monday + away}); r.Level != want {
			t.Errorf("after %d s without a bin the level is %v, want %v", away/second, r.Level, want)
		}
	}
}

// TestAClockThatIsSetBack by a day leaves no level, suspect or campaign in force until
// it is as late again, and nothing that is not a number.
func TestAClockThatIsSetBack(t *testing.T) {
	d, at := learnt(t)
	r := rand.New(rand.NewPCG(1, 1))
	everywhere := func(_, i int) (Sight, bool) {
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: hosts(r.IntN(1 << 16)), Stranger: true}, i < 60
	}
	if last, _, _ := play(d, r, at+day, 60, everywhere); last.Level != Critical {
		t.Fatalf("the level is %v", last.Level)
	}
	d.suspect(from("198.51.100.9"), at+day, &Campaign{})
	last, _, at := play(d, r, at, 40*6, nil)
	if last.Level != Calm || len(last.Suspects) > 0 {
		t.Errorf("40 minutes after the clock was set back the level is %v, suspects are %v", last.Level, last.Suspects)
	}
	if last, _, at = play(d, r, at, 10, nil); len(d.Campaigns.open) > 0 {
		t.Errorf("%d campaigns are open", len(d.Campaigns.open))
	}
	bad := from("198.51.100.7")
	last, all, _ := play(d, r, at, 60, func(_, i int) (Sight, bool) {
		return Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: bad}, i < 60
	})
	if _, ok := last.Suspects[bad]; !ok || last.Level != Calm {
		t.Errorf("what comes from one address: level %v, suspects %v", last.Level, last.Suspects)
	}
	for _, x := range all {
		for _, k := range x.Campaigns {
			for _, g := range k.Groups {
				if !(g.Minute < 1000) {
					t.Fatalf("%v a minute from %v", g.Minute, g.Prefix)
				}
			}
		}
	}
	h := d.Watch.base.hours
	if play(d, r, at+hour, 1, nil); d.Watch.base.hours != h+1 {
		t.Errorf("an hour after the clock was set back %d are seen", d.Watch.base.hours-h)
	}
}

// TestALevelEndsAfterTheClockWasSetBack, though its last sign is of a day that is to come.
func TestALevelEndsAfterTheClockWasSetBack(t *testing.T) {
	d := New(1)
	d.Control = Control{level: Critical, since: monday + day, sign: monday + day, hold: holdFirst}
	d.last = monday + day
	for at := int64(monday); at < monday+holdFirst+stepDown+Width; at += Width {
		d.Step(&Bin{Start: at})
	}
	if d.Control.Level() != Calm {
		t.Errorf("the level is %v", d.Control.Level())
	}
}

// TestADecoyHidesNothing: a botnet's guesses are answered as they are without one host
// beside it that is refused over and over, so that it makes up most of the excess; the
// host alone raises nothing.
func TestADecoyHidesNothing(t *testing.T) {
	decoy := from("198.51.100.7")
	for _, c := range []struct {
		botnet, refused int // a bin
		want            Level
	}{{0, 200, Calm}, {60, 0, Critical}, {60, 180, Critical}, {60, 600, Critical}} {
		d, at := learnt(t)
		r := rand.New(rand.NewPCG(1, 1))
		_, _, at = play(d, r, at, 60, nil)
		last, all, _ := play(d, r, at, 90, func(_, i int) (Sight, bool) {
			s := Sight{Class: Cold, Account: strconv.Itoa(r.Int()), Source: hosts(r.IntN(1 << 16)), Stranger: true}
			if i >= c.botnet {
				s.Class, s.Source, s.Account = Unsolved, decoy, strconv.Itoa(i%5) // too few to be found by them
			}
			return s, i < c.botnet+c.refused
		})
		up := slices.IndexFunc(all, func(x Result) bool { return x.Level > Calm })
		if last.Level != c.want || (up >= 0) != (c.want > Calm) || up > 6 {
			t.Errorf("%d guesses a bin beside %d that are refused: level %v, up after %d bins; want %v", c.botnet, c.refused, last.Level, up+1, c.want)
		}
		if _, ok := last.Suspects[decoy]; ok != (c.refused > 0) {
			t.Errorf("%d guesses a bin beside %d that are refused: suspects %v", c.botnet, c.refused, last.Suspects)
		}
	}
}

// TestLooseIsWhatComesFromNoSuspect, by network or by password, also of before it was one.
func TestLooseIsWhatComesFromNoSuspect(t *testing.T) {
	d := New(1)
	guess := func(p netip.Prefix, tag string) {
		d.See(&Sight{At: monday, Class: Cold, Account: "a", Source: p, Wide: wide(p), Tag: tag})
	}
	minute := func() int { return int(d.attribution.Loose(monday)*2 + 0.5) } // weights of two minutes
	guess(hosts(1), "x")
	guess(hosts(2), "y")
	guess(hosts(3), "z")
	if got := minute(); got != 3 {
		t.Errorf("three weigh %d", got)
	}
	d.suspect(hosts(1), monday, &Campaign{})
	d.suspectTag("y", monday)
	d.attribution.Tie(monday, []Group{{Kind: GroupSource, Prefix: hosts(1)}, {Kind: GroupTag, Key: "y"}})
	if got := minute(); got != 1 {
		t.Errorf("of three, two of them suspects, %d are left", got)
	}
	guess(hosts(1), "x")
	guess(hosts(2), "y")
	if got := minute(); got != 1 {
		t.Errorf("%d are left when they go on", got)
	}
	d.attribution.Tie(monday, []Group{{Kind: GroupNetwork, Prefix: wide(hosts(3))}})
	if got := minute(); got != 0 {
		t.Errorf("%d are left of none", got)
	}
}
