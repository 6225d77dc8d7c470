package detect

import "net/netip"

// Sources finds an address from which many accounts are tried.
type Sources struct {
	hash  hasher
	pairs seen // of source and account, a day
	at    map[netip.Prefix]*trying
	turn  int64 // day
}

// trying is what one source did today.
type trying struct {
	first             int64
	accounts, unknown int // distinct; those that do not exist
	in                int // sign-ins
	told              [Finds]bool
}

const (
	// manyAccounts that fail from one address a day, with fewer sign-ins than a
	// tenth of them: a school's shared address has half of its people in, a spray
	// nearly none (an operator's figures: 0.47 and 0.00 to 0.06).
	manyAccounts, signedIn = 20, 0.1
	// enumerates: so many of them do not exist.
	enumerates = 0.7
	// sourcesKept is how many are counted.
	sourcesKept = 1 << 15
)

// NewSources has seen nothing. seed is a secret of the process.
func NewSources(seed uint64) *Sources {
	return &Sources{hash: hasher{seed}, pairs: seen{period: day}, at: map[netip.Prefix]*trying{}}
}

// See takes a sight and says what it belongs to.
func (s *Sources) See(x *Sight) (Found, bool) {
	if d := x.At / day; d > s.turn {
		s.turn = d
		clear(s.at)
	}
	t := s.at[x.Source]
	if x.Class == Success && t != nil {
		t.in++
	}
	if !x.Class.Failed() {
		return Found{}, false
	}
	if t == nil {
		if len(s.at) >= sourcesKept {
			s.thin()
		}
		t = &trying{first: x.At}
		s.at[x.Source] = t
	}
	if s.pairs.add(x.At, s.hash.pair(sourceKey(x.Source), x.Account)) {
		return Found{}, false
	}
	t.accounts++
	t.unknown += one(x.Unknown)
	if t.accounts < manyAccounts || float64(t.in) >= signedIn*float64(t.accounts) {
		return Found{}, false
	}
	f := FindAccounts
	if float64(t.unknown) >= enumerates*float64(t.accounts) {
		f = FindNames
	}
	fresh := !t.told[f]
	t.told[f] = true
	return Found{Find: f, New: fresh, At: x.At, First: t.first, Source: x.Source, Guesses: t.accounts, Accounts: t.accounts}, true
}

// thin forgets those that tried least, half of all or more.
func (s *Sources) thin() {
	for least := 1; len(s.at) > sourcesKept/2; least *= 2 {
		for k, t := range s.at {
			if t.accounts <= least {
				delete(s.at, k)
			}
		}
	}
}
