package detect

import (
	"strconv"
	"testing"
)

// tried shows x failures of n accounts from a source, and says what was found last
// and how often that was new.
func tried(x *Sources, at int64, class Class, source string, first, n int) (last Found, found bool, news int) {
	for i := range n {
		if f, ok := x.See(&Sight{At: at, Class: class, Source: from(source), Account: strconv.Itoa(first + i)}); ok {
			last, found = f, true
			news += one(f.New)
		}
	}
	return last, found, news
}

// TestSourcesCountADay: each anew, also where something of the day before comes late.
func TestSourcesCountADay(t *testing.T) {
	const a = "10.0.0.1"
	x := NewSources(1)
	tried(x, monday+23*hour, Cold, a, 0, manyAccounts-1)
	if _, found, _ := tried(x, monday+25*hour, Cold, a, 100, manyAccounts-1); found {
		t.Error("two days are counted as one")
	}
	tried(x, monday+23*hour, Cold, "10.0.0.2", 0, 1)
	f, found, news := tried(x, monday+26*hour, Cold, a, 200, 10)
	if !found || news != 1 || f.Accounts != manyAccounts+9 || f.First != monday+25*hour {
		t.Errorf("after what came late: found %v, told %d times, %+v", found, news, f)
	}
	if _, _, news := tried(x, monday+50*hour, Cold, a, 300, 40); news != 1 {
		t.Errorf("the day after it is told %d times", news)
	}
}

// TestSourcesCountGuesses: whoever is refused guesses, too; known people and their
// applications, who all come from one office, do not.
func TestSourcesCountGuesses(t *testing.T) {
	for class, want := range [Classes]bool{Cold: true, Unsolved: true} {
		x := NewSources(1)
		if _, found, _ := tried(x, monday, Class(class), "10.0.0.1", 0, 3*manyAccounts); found != want {
			t.Errorf("%v: found %v", Class(class), found)
		}
	}
}

// TestSourcesAreTheirOwn: two who try one list are two, and a sign-in of his own
// does not make an attacker a school.
func TestSourcesAreTheirOwn(t *testing.T) {
	x := NewSources(1)
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		tried(x, monday, Cold, ip, 0, 1)
		x.See(&Sight{At: monday, Class: Success, Source: from(ip), Account: "mallory"})
		if _, found, _ := tried(x, monday, Cold, ip, 1, manyAccounts); !found {
			t.Errorf("%s is overlooked", ip)
		}
	}
}
