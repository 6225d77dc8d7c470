package detect

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Accounts finds what is done to one account: guessed at over days from here
// and there, hammered from one place, and got into after many failures.
type Accounts struct {
	hash   hasher
	ladder [3]seen // accounts that failed once, twice, three times
	pairs  seen    // of account and source
	at     map[string]*guessed
	// last is the latest sight; what is not later than upto was counted by a predecessor.
	last, upto int64
}

// guessed is an account with at least four failures.
type guessed struct {
	days    [accountDays]uint16 // failures on each, by the day of the epoch
	last    int64               // day
	first   int64
	sources int // distinct, in the memory of pairs

	lead      netip.Prefix // where most come from (Boyer and Moore's vote)
	leadVotes int
	leadDay   int // failures from lead today
	leadFirst int64
	told      [Finds]int64 // the day of each finding, so that it is told once
}

const (
	accountDays = 32
	// accountsKept is how many are counted.
	accountsKept = 4096

	// slowDays, slowSources and slowGuesses: guessing at an account from so many
	// addresses on so many days, with so many guesses, is nobody's forgetting.
	slowDays, slowSources, slowGuesses = 3, 8, 20
	// hammered is failures a day from one place. People give up after a dozen;
	// what has an old password and goes on is a Repeat.
	hammered = 30
	// succeeded is failures within a day before a stranger's sign-in that make it
	// worth a look: what the account's own owner is told of, too.
	succeeded = 10
)

// NewAccounts has seen nothing. seed is a secret of the process.
func NewAccounts(seed uint64) *Accounts {
	a := &Accounts{hash: hasher{seed}, pairs: seen{period: 28 * day}, at: map[string]*guessed{}}
	for i := range a.ladder {
		a.ladder[i] = seen{period: 7 * day}
	}
	return a
}

// Find is what was found of one account or one source.
type Find uint8

// The finds.
const (
	FindSlow     Find = iota // an account is guessed at over days from many places
	FindHammer               // from one place
	FindSuccess              // and a stranger got in
	FindAccounts             // a source tries many accounts
	FindNames                // most of which do not exist

	Finds
)

var findNames = [Finds]string{"slow_guessing", "hammering", "success_after_failures", "many_accounts", "enumeration"}

// String returns the find's name in findings.
func (f Find) String() string { return findNames[f] }

// Found is one find.
type Found struct {
	Find     Find
	New      bool // for the first time today
	At       int64
	First    int64        // when it began
	Account  string       // of the first three finds
	Source   netip.Prefix // of all but FindSlow
	Guesses  int
	Sources  int // of FindSlow
	Accounts int // of FindAccounts and FindNames
}

// See takes a sight and says what it belongs to.
func (a *Accounts) See(s *Sight) (Found, bool) {
	if s.At <= a.upto {
		return Found{}, false
	}
	a.last = max(a.last, s.At)
	switch {
	case s.Class == Success:
		return a.success(s)
	case !s.Class.Failed() && s.Class != Warm:
		return Found{}, false
	}
	g := a.at[s.Account]
	if g == nil {
		if g = a.keep(s); g == nil {
			return Found{}, false
		}
	}
	d := s.At / day
	g.turn(d)
	if n := &g.days[d%accountDays]; *n < 1<<16-1 {
		*n++
	}
	fresh := !a.pairs.add(s.At, a.hash.pair(s.Account, sourceKey(s.Source)))
	g.sources += one(fresh)
	g.vote(s)
	return g.judge(s, d)
}

func (g *guessed) judge(s *Sight, d int64) (Found, bool) {
	if s.Source == g.lead && g.leadDay >= hammered {
		return Found{Find: FindHammer, New: g.tell(FindHammer, d), At: s.At, First: g.leadFirst,
			Account: s.Account, Source: g.lead, Guesses: g.leadDay}, true
	}
	days, guesses := g.sum()
	if days >= slowDays && g.sources >= slowSources && guesses >= slowGuesses {
		return Found{Find: FindSlow, New: g.tell(FindSlow, d), At: s.At, First: g.first,
			Account: s.Account, Guesses: guesses, Sources: g.sources}, true
	}
	return Found{}, false
}

// success looks at a sign-in.
func (a *Accounts) success(s *Sight) (Found, bool) {
	g := a.at[s.Account]
	if g == nil || !s.Stranger {
		return Found{}, false
	}
	d := s.At / day
	g.turn(d)
	n := int(g.days[d%accountDays]) + int(g.days[(d+accountDays-1)%accountDays])
	if n < succeeded {
		return Found{}, false
	}
	return Found{Find: FindSuccess, New: g.tell(FindSuccess, d), At: s.At, First: g.first, Account: s.Account, Source: s.Source, Guesses: n}, true
}

// List are the accounts that are guessed at most, up to n, with how often and from how many places.
func (a *Accounts) List(n int) []Found {
	var all []Found
	for name, g := range a.at {
		_, guesses := g.sum()
		all = append(all, Found{Find: FindSlow, Account: name, First: g.first, At: (g.last + 1) * day, Guesses: guesses, Sources: g.sources})
	}
	slices.SortFunc(all, func(x, y Found) int {
		return cmp.Or(cmp.Compare(y.Guesses, x.Guesses), cmp.Compare(x.Account, y.Account))
	})
	return all[:min(n, len(all))]
}

// keep begins to count an account, or returns nil: where half of the room is
// taken, only accounts that failed three times before are worth it. Where all
// is, those that were guessed at least go.
func (a *Accounts) keep(s *Sight) *guessed {
	g := &guessed{last: s.At / day, first: s.At}
	if len(a.at) >= accountsKept/2 {
		h := a.hash.text(s.Account)
		for i := range a.ladder {
			if !a.ladder[i].add(s.At, h) {
				return nil
			}
		}
		g.days[g.last%accountDays] = uint16(len(a.ladder))
	}
	if len(a.at) >= accountsKept {
		for _, k := range least(a.at, func(g *guessed) int64 { _, n := g.sum(); return int64(n) }, strings.Compare) {
			delete(a.at, k)
		}
	}
	a.at[s.Account] = g
	return g
}

// turn empties the days that have begun since.
func (g *guessed) turn(d int64) {
	if d-g.last >= accountDays {
		*g = guessed{last: d, first: d * day}
	}
	for ; g.last < d; g.last++ {
		g.days[(g.last+1)%accountDays] = 0
		g.leadDay = 0
	}
}

// vote keeps the source that most failures come from.
func (g *guessed) vote(s *Sight) {
	switch {
	case g.lead == s.Source:
		g.leadVotes++
		if g.leadDay == 0 {
			g.leadFirst = s.At
		}
		g.leadDay++
	case g.leadVotes > 0:
		g.leadVotes--
	default:
		g.lead, g.leadVotes, g.leadDay, g.leadFirst = s.Source, 1, 1, s.At
	}
}

func (g *guessed) sum() (days, guesses int) {
	for _, n := range g.days {
		guesses += int(n)
		if n > 0 {
			days++
		}
	}
	return days, guesses
}

// tell reports whether a find is new today.
func (g *guessed) tell(f Find, d int64) bool {
	if g.told[f] == d {
		return false
	}
	g.told[f] = d
	return true
}

func sourceKey(p netip.Prefix) string {
	b, _ := p.MarshalBinary()
	return string(b)
}
