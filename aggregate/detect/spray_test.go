package detect

import (
	"strconv"
	"testing"
)

// sprays shows s so many accounts with one password from at on, one every so
// often, and says at which it was flagged (0: at none) and how often that was new.
func sprays(s *Spray, class Class, tag string, at, every int64, n int) (flagged, news int) {
	for i := range n {
		x := Sight{At: at + int64(i)*every, Class: class, Account: strconv.FormatInt(at+int64(i), 36), Tag: tag}
		if p, ok := s.See(&x); ok {
			if flagged == 0 {
				flagged = i + 1
			}
			news += one(p.New)
		}
	}
	return flagged, news
}

// TestSprayCountsGuesses, refused ones, too; not people who know theirs, and not
// those of whom no password is known: they have none in common.
func TestSprayCountsGuesses(t *testing.T) {
	for class := range Class(Classes) {
		want := map[Class]int{Cold: sprayLeast, Unsolved: sprayLeast}[class]
		if got, news := sprays(NewSpray(1), class, "t", monday, second, 40); got != want || news != one(want > 0) {
			t.Errorf("%v: flagged at account %d, told %d times", class, got, news)
		}
	}
	if got, _ := sprays(NewSpray(1), Cold, "", monday, second, 40); got != 0 {
		t.Error("no password is one")
	}
}

// TestSprayIsOfADay: sixteen accounts in any 24 hours are few, for however long;
// and what was flagged is not any more once nobody has tried it for a day.
func TestSprayIsOfADay(t *testing.T) {
	if at, _ := sprays(NewSpray(1), Cold, "t", monday, 90*minute, 16*8); at != 0 {
		t.Errorf("flagged at account %d of sixteen a day", at)
	}
	s := NewSpray(1)
	sprays(s, Cold, "t", monday, second, 30)
	if at, _ := sprays(s, Cold, "t", monday+26*hour, second, 1); at != 0 {
		t.Error("a day later it is still flagged")
	}
	// Nor is what was tried two days ago at the same hour.
	s = NewSpray(1)
	for _, part := range []struct{ hour, n int }{{0, 15}, {30, 1}, {48, 10}} {
		if at, _ := sprays(s, Cold, "t", monday+int64(part.hour)*hour, second, part.n); at != 0 {
			t.Errorf("in hour %d flagged at account %d", part.hour, at)
		}
	}
	// What comes late takes nothing back.
	s = NewSpray(1)
	sprays(s, Cold, "t", monday+40*hour, second, 30)
	sprays(s, Cold, "t", monday+hour, second, 1)
	if !s.Flagged(&Sight{At: monday + 41*hour, Tag: "t"}) {
		t.Error("what came late has taken the flag away")
	}
}

// TestSprayAtALargeSiteTakesItsShare in the first two days, when nobody knows which
// passwords are popular: of so many failures a day 30 accounts are nothing.
func TestSprayAtALargeSiteTakesItsShare(t *testing.T) {
	s := NewSpray(1)
	for i := range 60_000 {
		s.See(&Sight{At: monday, Class: Cold, Account: "a" + strconv.Itoa(i), Tag: "of " + strconv.Itoa(i)})
	}
	if at, _ := sprays(s, Cold, "t", monday+hour, second, 40); at != 31 {
		t.Errorf("flagged at account %d, want 31", at)
	}
	if at, _ := sprays(s, Cold, "u", monday+30*hour, second, 40); at != sprayLeast {
		t.Errorf("a quiet day later flagged at account %d", at)
	}
}

// TestSprayExpectsHalfAsManyAgain of a popular password, as a mailing makes it; not
// twice as many.
func TestSprayExpectsHalfAsManyAgain(t *testing.T) {
	const h = monday / hour
	s := NewSpray(1)
	s.from = monday - 3*day
	popular := &sprayed{last: h}
	for i := range int64(24) {
		popular.hours[(h-24-i)%48] = 100
	}
	if least := s.limit(popular, h); least < 1.5*2400 || least > 2*2400 {
		t.Errorf("of 2,400 accounts yesterday, %.0f are expected at most", least)
	}
}

// TestSprayIsKeptInAFloodOfPasswords: of those that are tried few times. What was
// sprayed days ago makes room.
func TestSprayIsKeptInAFloodOfPasswords(t *testing.T) {
	s := NewSpray(1)
	sprays(s, Cold, "old", monday, second, 30)
	at := int64(monday + 3*day)
	sprays(s, Cold, "sprayed", at, second, 30)
	sprays(s, Cold, "half", at, second, sprayLeast-5)
	for i := range 3 * sprayKept / 2 {
		sprays(s, Cold, "p"+strconv.Itoa(i), at+minute, 1, 5)
	}
	if len(s.tags) > sprayKept {
		t.Errorf("%d passwords are counted", len(s.tags))
	}
	now := Sight{At: at + hour, Tag: "sprayed"}
	if !s.Flagged(&now) || s.tags["old"] != nil {
		t.Errorf("of today flagged %v, of days ago %v", s.Flagged(&now), s.tags["old"])
	}
	if n, _ := sprays(s, Cold, "half", at+hour, second, 10); n == 0 {
		t.Error("who had fifteen accounts before is forgotten")
	}
}

// TestSprayCountsMoreThanFitsAnHour.
func TestSprayCountsMoreThanFitsAnHour(t *testing.T) {
	s := NewSpray(1)
	sprays(s, Cold, "t", monday, 1, 1<<16+5000)
	p, ok := s.See(&Sight{At: monday + hour, Class: Cold, Account: "a", Tag: "t"})
	if !ok || p.Accounts < 60_000 {
		t.Errorf("%+v, %v", p, ok)
	}
}

// TestDayCountIsOfADay: what was a day ago is not what is now.
func TestDayCountIsOfADay(t *testing.T) {
	var c dayCount
	h := int64(monday / hour)
	c.add(h * hour)
	for after, want := range map[int64]int{0: 1, 1: 1, 2: 0, 23: 0, 24: 0, 25: 0} {
		if n := c.sum(h+after, 2); n != want {
			t.Errorf("%d hours later %d of two hours, want %d", after, n, want)
		}
	}
	c.add((h + 23) * hour)
	if n := c.sum(h+23, 24); n != 2 {
		t.Errorf("%d of a day, want 2", n)
	}
	c.add((h + 24) * hour)
	if n := c.sum(h+24, 24); n != 2 {
		t.Errorf("an hour later %d of a day, want 2", n)
	}
	c.add((h + 100) * hour)
	if n := c.sum(h+100, 24); n != 1 {
		t.Errorf("days later %d of a day, want 1", n)
	}
}
