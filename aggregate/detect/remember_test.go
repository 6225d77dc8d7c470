package detect

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
)

// succeed is the successor of d, with all parts.
func succeed(t *testing.T, d *Detector) *Detector {
	t.Helper()
	e, err := Restore(99, d.Save())
	if err != nil {
		t.Fatal(err)
	}
	for i := range Parts {
		if err := e.Recall(i, d.Part(i)); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
	}
	return e
}

// TestNothingIsNewAfterARestart that was not before it.
func TestNothingIsNewAfterARestart(t *testing.T) {
	const people = 5000 // more than one layer
	d := New(1)
	sight := func(n int, at int64) Sight {
		return Sight{At: at, Class: Cold, Account: strconv.Itoa(n), Source: hosts(n), Wide: wide(hosts(n)), Stranger: true}
	}
	for n := range people {
		s := sight(n, monday+int64(n)*second)
		d.See(&s)
	}
	e := succeed(t, d)
	networks, accounts := 0, 0
	for n := range people {
		s := sight(n, monday+2*hour+int64(n)*second)
		e.See(&s)
		networks, accounts = networks+one(s.NewNetwork), accounts+one(s.NewAccount)
	}
	if networks+accounts > 0 {
		t.Errorf("of %d people %d came from new networks, and %d failed for the first time", people, networks, accounts)
	}
	s := sight(people+1, monday+4*hour)
	if e.See(&s); !s.NewNetwork || !s.NewAccount {
		t.Error("who is new is not")
	}
	for i := range seens {
		if got := len(d.seen(i).now.layers); got < 2 {
			t.Errorf("memory %d has %d layers: more are to be tried", i, got)
		}
		if was, is := *d.seen(i), *succeed(t, d).seen(i); !reflect.DeepEqual(was, is) {
			t.Errorf("memory %d is another", i)
		}
	}
}

// TestPartsOfTwoPeriods: one was written before midnight and the other after it.
func TestPartsOfTwoPeriods(t *testing.T) {
	s := seen{period: day}
	s.add(monday, 1)
	early := s.encode(0, 7)
	s.add(monday+day, 2)
	late := s.encode(0, 7)
	older := (&seen{turn: monday/day - 2, period: day}).encode(0, 7)
	for _, parts := range [][][]byte{{early, late, older}, {older, late, early}} {
		got := seen{period: day}
		for _, p := range parts {
			if err := got.decode(p, 7); err != nil {
				t.Fatal(err)
			}
		}
		if !got.now.has(2) || got.now.has(1) || !got.before.has(1) || got.turn != (monday+day)/day {
			t.Errorf("%+v", got.turn)
		}
	}
}

// TestGuessingOverDaysIsSeenAcrossRestarts, one a day, and what is read again after
// each is counted once.
func TestGuessingOverDaysIsSeenAcrossRestarts(t *testing.T) {
	d := New(1)
	found := 0
	guess := func(day int64, n int) {
		for i := range n {
			s := Sight{At: monday + day*24*hour + int64(i)*minute, Class: Cold, Account: "root", Source: hosts(int(day)*2 + i%2), Stranger: true}
			s.Wide = wide(s.Source)
			d.See(&s)
		}
		for _, k := range d.Campaigns.Take() {
			found += one(k.What == FindSlow.String())
		}
	}
	for day := range int64(4) {
		guess(day, 4)
		d = succeed(t, d)
		guess(day, 4)
	}
	if g := d.Accounts.at["root"]; found > 0 || g.sources != 8 {
		t.Fatalf("16 guesses from %d places became %d finds", g.sources, found)
	}
	guess(4, 4)
	if found == 0 {
		t.Errorf("20 guesses on 5 days from 10 addresses are nothing")
	}
}

// TestAPopularPasswordStaysPopularAcrossRestarts, and what was sprayed is not forgotten.
func TestAPopularPasswordStaysPopularAcrossRestarts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	d, flagged := New(1), 0
	for h := range int64(8 * 24) {
		if h%24 == 13 {
			d = succeed(t, d)
		}
		if f := honestly(d.Spray, r, monday+h*hour, 20); h >= 72 {
			flagged += f
		}
	}
	if flagged > 0 {
		t.Errorf("%d honest passwords were flagged in five days with a restart on each", flagged)
	}
	at := int64(monday + 8*day)
	for i := range 30 {
		d.Spray.See(&Sight{At: at + int64(i)*second, Class: Cold, Account: strconv.Itoa(i), Tag: "spring"})
	}
	if d = succeed(t, d); !d.Spray.Flagged(&Sight{At: at + hour, Tag: "spring"}) {
		t.Error("a sprayed password is forgotten")
	}
	for range 2 { // the second time by the successor, who is given it again
		for i := range 15 {
			if _, ok := d.Spray.See(&Sight{At: at + hour + int64(i)*second, Class: Cold, Account: strconv.Itoa(i), Tag: "summer"}); ok {
				t.Fatal("fifteen accounts were enough")
			}
		}
		d = succeed(t, d)
	}
}

// TestRecallRefuses what is no part, one of another detector's, and one that lies.
func TestRecallRefuses(t *testing.T) {
	d, other := New(1), New(2)
	d.novelty.networks.add(monday, 1)
	for i := range Parts {
		for name, data := range map[string][]byte{"nothing": nil, "nonsense": []byte("nonsense nonsense nonsense nonsense"), "too much": make([]byte, maxPart+1),
			"half": d.Part(i)[:len(d.Part(i))-1]} {
			if err := New(1).Recall(i, data); err == nil {
				t.Errorf("part %d: %s was taken", i, name)
			}
		}
		if err := other.Recall(i, d.Part(i)); err == nil && i <= 2*seens {
			t.Errorf("part %d of another was taken", i)
		}
	}
	if d.Recall(Parts, nil) == nil || d.Recall(-1, nil) == nil {
		t.Error("parts that there are not were taken")
	}
}

// TestAPartIsOfThoseThatWereCountedMost: where not all fit, an attacker's thousands
// of names that failed once must not push out who is guessed at.
func TestAPartIsOfThoseThatWereCountedMost(t *testing.T) {
	a, s := NewAccounts(1), NewSpray(1)
	for i := range partKept + 500 {
		name := fmt.Sprintf("%05d", i)
		a.at[name] = &guessed{days: [accountDays]uint16{uint16(i / 2), uint16(i - i/2)}}
		s.tags[name] = &sprayed{hours: [48]uint16{uint16(i / 2), uint16(i - i/2)}}
	}
	accounts, tags := a.kept().Accounts, s.kept().Tags
	if len(accounts) != partKept || accounts[0].Account != "02547" || accounts[partKept-1].Account != "00500" {
		t.Errorf("%d accounts", len(accounts))
	}
	if len(tags) != partKept || tags[0].Tag != "02547" || tags[partKept-1].Tag != "00500" {
		t.Errorf("%d passwords", len(tags))
	}
}
