package escalation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
)

func letterOf(place, account byte) *letter {
	l := &letter{place: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, place, 0}), 24)}
	if account > 0 {
		l.account = keys.Account{account}
	}
	return l
}

// played puts letters in, "+place account", and takes them out, "-"; it returns
// what came of each.
func played(f *fair, moves string) (got string) {
	name := func(l *letter) string {
		if l == nil {
			return "."
		}
		return fmt.Sprintf("%d:%d", l.place.Addr().As4()[2], l.account[0])
	}
	for m := range strings.FieldsSeq(moves) {
		if m == "-" {
			got += name(f.next()) + " "
			continue
		}
		var place, account byte
		fmt.Sscanf(m, "+%d:%d", &place, &account)
		switch gone, ok := f.put(letterOf(place, account)); {
		case !ok:
			got += "full "
		case gone != nil:
			got += "for" + name(gone) + " "
		}
	}
	return strings.TrimSpace(got)
}

func TestPlacesTakeTurnsAndTheGreediestGivesWay(t *testing.T) {
	for moves, want := range map[string]string{
		"-":                             ".",
		"+1:1 +1:2 +1:3 +2:4 - - - - -": "1:1 2:4 1:2 1:3 .",
		// Four fit. A place with two less takes the newest of the place with the most.
		"+1:1 +1:2 +1:3 +1:4 +1:5 +2:6 +2:7 +3:8 +4:9 +4:10 - - - - -": "full for1:4 for1:3 for1:2 for2:7 full 1:1 2:6 3:8 4:9 .",
		// An account's later letter stands for its earlier one, wherever that was.
		"+1:1 +1:2 +2:1 - - -":       "for1:1 1:2 2:1 .",
		"+1:1 +1:2 +1:3 +1:4 +5:2 -": "for1:2 1:1",
		// What bears no account replaces nothing.
		"+1:0 +1:0 - - -": "1:0 1:0 .",
		// Turns go on where they were when lines come and go.
		"+1:1 +2:2 - +3:3 +1:4 - - - -": "1:1 2:2 3:3 1:4 .",
	} {
		if got := played(&fair{max: 4}, moves); got != want {
			t.Errorf("%s: %s, want %s", moves, got, want)
		}
	}
}

// TestPropertyFair: nothing is lost or there twice, there are never more than
// max, no account twice, and whoever waits alone at his place waits for no more
// than one of each other place.
func TestPropertyFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fair{max: rapid.IntRange(1, 6).Draw(t, "max")}
		in := map[*letter]bool{}
		var seen *letter // alone at its place
		others := 0      // that may go before it
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "deed") == 0 {
				l := f.next()
				if (l == nil) != (len(in) == 0) || l != nil && !in[l] {
					t.Fatalf("%v comes out of %d", l, len(in))
				}
				delete(in, l)
				if seen != nil && l != seen {
					if others--; others < 0 {
						t.Fatal("it waits for more than one turn of each place")
					}
				}
				if l == seen {
					seen = nil
				}
				continue
			}
			l := letterOf(byte(rapid.IntRange(0, 3).Draw(t, "place")), byte(rapid.IntRange(0, 5).Draw(t, "account")))
			before := len(in)
			gone, ok := f.put(l)
			if gone != nil {
				if !in[gone] || !ok {
					t.Fatal("what was not there has gone")
				}
				delete(in, gone)
			}
			if gone == seen {
				seen = nil
			}
			if ok {
				in[l] = true
				if len(f.places[l.place].letters) == 1 {
					seen, others = l, len(f.lines)-1
				}
			} else if before < f.max {
				t.Fatal("there was room")
			}
			accounts := map[keys.Account]int{}
			for x := range in {
				if accounts[x.account]++; x.account != (keys.Account{}) && accounts[x.account] > 1 {
					t.Fatal("an account has two letters")
				}
			}
			if len(in) != f.waiting || f.waiting > f.max || len(f.accounts) > f.waiting || len(f.lines) != len(f.places) {
				t.Fatalf("%d wait, of %d; %d lines, %d places", f.waiting, len(in), len(f.lines), len(f.places))
			}
		}
	})
}
