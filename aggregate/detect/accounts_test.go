package detect

import (
	"fmt"
	"strconv"
	"testing"
)

// guess shows a one sight of root, and says whether something was found.
func guess(a *Accounts, at int64, class Class, ip string) (Found, bool) {
	return a.See(&Sight{At: at, Class: class, Account: "root", Source: from(ip), Stranger: true})
}

// TestAccountsCountGuesses: an attacker in the owner's own office is one, and so is
// who is refused; an application with an old password is not.
func TestAccountsCountGuesses(t *testing.T) {
	for class, want := range [Classes]bool{Cold: true, Warm: true, Unsolved: true} {
		a, news := NewAccounts(1), 0
		for i := range int64(2 * hammered) {
			f, _ := guess(a, monday+i*minute, Class(class), "10.0.0.1")
			news += one(f.New)
		}
		if news != one(want) {
			t.Errorf("%v: told %d times", Class(class), news)
		}
	}
}

// TestSlowGuessingTakesAllThree: days, addresses, and guesses.
func TestSlowGuessingTakesAllThree(t *testing.T) {
	for _, s := range []struct {
		name                   string
		days, sources, guesses int
		want                   bool
	}{
		{"enough", slowDays, slowSources, slowGuesses, true},
		{"days", slowDays - 1, 64, 64, false},
		{"addresses", 10, slowSources - 1, 70, false},
		{"guesses", 10, 19, slowGuesses - 1, false},
	} {
		a, found := NewAccounts(1), 0
		for i := range s.guesses {
			if f, ok := guess(a, monday+int64(i%s.days)*day+int64(i), Cold, fmt.Sprintf("10.0.%d.1", i%s.sources)); ok && f.Find == FindSlow {
				found++
			}
		}
		if found != one(s.want) {
			t.Errorf("%s: found %d times, want at the last guess: %v", s.name, found, s.want)
		}
	}
}

// TestHammersAreOfADay, begin on that day, and are of one address: a failure from
// elsewhere, the owner's, is not part of it.
func TestHammersAreOfADay(t *testing.T) {
	a := NewAccounts(1)
	for i := range int64(3 * 20) {
		if _, ok := guess(a, monday+i/20*day+i%20*minute, Cold, "10.0.0.1"); ok {
			t.Fatal("twenty a day are a hammer")
		}
	}
	var got Found
	for i := range int64(40) {
		got, _ = guess(a, monday+3*day+i*minute, Cold, "10.0.0.1")
	}
	if got.Find != FindHammer || got.First != monday+3*day || got.Guesses != 40 {
		t.Errorf("the hammer is %+v", got)
	}
	if f, ok := guess(a, monday+3*day+hour, Cold, "10.9.9.9"); ok {
		t.Errorf("a failure from elsewhere is %+v", f)
	}
}

// TestAccountsForget what is a month old: addresses, guesses, and the beginning.
func TestAccountsForget(t *testing.T) {
	a := NewAccounts(1)
	for i := range 64 {
		guess(a, monday+int64(i/16)*day+int64(i), Cold, fmt.Sprintf("10.0.%d.1", i))
	}
	later := int64(monday + 40*day)
	for i := range int64(3 * 10) { // the owner, at home
		if f, ok := guess(a, later+i/10*day+i, Cold, "10.9.9.9"); ok {
			t.Fatalf("the owner is %+v", f)
		}
	}
	var got Found
	for i := range 64 {
		got, _ = guess(a, later+3*day+int64(i), Cold, fmt.Sprintf("10.1.%d.1", i))
	}
	if got.Find != FindSlow || got.First != later || got.Sources != 65 || got.Guesses != 94 {
		t.Errorf("%+v, which began %d days after the first", got, (got.First-monday)/day)
	}
	// A ring of days: what was on the same day of another turn is not there.
	a = NewAccounts(1)
	for range succeeded + 2 {
		guess(a, monday, Cold, "10.0.0.1")
	}
	guess(a, monday+20*day, Cold, "10.0.0.1")
	if f, ok := a.success(&Sight{At: monday + accountDays*day, Account: "root", Stranger: true}); ok {
		t.Errorf("a month later: %+v", f)
	}
	guess(a, monday+accountDays*day, Cold, "10.0.0.1")
	if l := a.List(1); l[0].Guesses != 2 {
		t.Errorf("%d guesses in a month, want 2", l[0].Guesses)
	}
}

// TestAccountsKnowTheirPlaces for four weeks: who comes back every third day is not
// another each time.
func TestAccountsKnowTheirPlaces(t *testing.T) {
	a := NewAccounts(1)
	for i := range int64(24) {
		guess(a, monday+i*day, Cold, fmt.Sprintf("10.0.%d.1", i%3))
	}
	if l := a.List(1); l[0].Sources != 3 || l[0].Guesses != 24 {
		t.Errorf("%+v", l)
	}
}

// TestSuccessCountsADay of failures, across midnight.
func TestSuccessCountsADay(t *testing.T) {
	a := NewAccounts(1)
	for range succeeded {
		guess(a, monday+23*hour, Cold, "10.0.0.1")
	}
	f, ok := guess(a, monday+25*hour, Success, "10.9.9.9")
	if !ok || f.Find != FindSuccess || f.Guesses != succeeded || !f.New {
		t.Errorf("after midnight: %+v, %v", f, ok)
	}
	if f, _ := guess(a, monday+26*hour, Success, "10.9.9.9"); f.New {
		t.Error("it is told twice")
	}
}

// TestAccountsClimb: where half of the room is taken an account has to fail more
// than three times, within days, and what it failed until then counts.
func TestAccountsClimb(t *testing.T) {
	full := func() *Accounts {
		a := NewAccounts(1)
		for i := range accountsKept / 2 {
			a.See(&Sight{At: monday, Class: Cold, Account: strconv.Itoa(i), Source: from("10.0.0.1")})
		}
		return a
	}
	a := full()
	for range succeeded {
		guess(a, monday+hour, Cold, "10.0.0.1")
	}
	if f, ok := guess(a, monday+2*hour, Success, "10.9.9.9"); !ok || f.Guesses != succeeded {
		t.Errorf("after %d failures %+v is found", succeeded, f)
	}
	a = full()
	found := false
	for i := range int64(2 * slowGuesses) {
		_, ok := guess(a, monday+i*day, Cold, fmt.Sprintf("10.0.%d.1", i))
		found = found || ok
	}
	if !found {
		t.Error("one guess a day is never found")
	}
}

// TestAccountsListTheMost, and count more than 65,535 a day as that.
func TestAccountsListTheMost(t *testing.T) {
	a := NewAccounts(1)
	for name, n := range map[string]int{"few": 5, "many": 1<<16 + 100, "some": 7} {
		for range n {
			a.See(&Sight{At: monday, Class: Cold, Account: name, Source: from("10.0.0.1")})
		}
	}
	l := a.List(2)
	if len(l) != 2 || l[0].Account != "many" || l[0].Guesses != 1<<16-1 || l[1].Account != "some" || l[1].Guesses != 7 {
		t.Errorf("%+v", l)
	}
}
