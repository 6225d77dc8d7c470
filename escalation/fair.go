package escalation

import (
	"net/netip"
	"slices"

	"github.com/guardd/guardd/keys"
)

// letter waits to be delivered.
type letter struct {
	// account is whose code it is: a later one replaces it. Zero: it replaces none.
	account keys.Account
	place   netip.Prefix // of whoever asked for it
	paid    bool         // with a picture
	deliver job
	drop    func() // what is to be done where it is not delivered; nil: nothing
}

// fair is what waits to be delivered, at most max letters: one of each place in
// turn, so that strangers who ask for many do not hold up the owner's. Where
// there is no room, a place with fewer takes that of the place with the most; an
// account has one, the latest. It is for one goroutine at a time.
type fair struct {
	max, waiting int
	lines        []*line // with letters, in the order of their turns
	turn         int
	places       map[netip.Prefix]*line
	accounts     map[keys.Account]*letter
}

type line struct {
	place   netip.Prefix
	letters []*letter
}

// put takes l in, unless there is no room for its place, and returns the letter
// whose room it took, if any.
func (f *fair) put(l *letter) (gone *letter, ok bool) {
	if f.places == nil {
		f.places, f.accounts = map[netip.Prefix]*line{}, map[keys.Account]*letter{}
	}
	if gone = f.take(l.account); gone == nil && f.waiting == f.max {
		most := f.longest()
		if own := f.places[l.place]; own != nil && len(most.letters) <= len(own.letters)+1 || own == nil && len(most.letters) <= 1 {
			return nil, false
		}
		gone = most.letters[len(most.letters)-1]
		f.remove(most, len(most.letters)-1)
	}
	own := f.places[l.place]
	if own == nil {
		own = &line{place: l.place}
		f.places[l.place] = own
		f.lines = slices.Insert(f.lines, f.turn, own) // the last to have its turn
		f.turn++
	}
	own.letters = append(own.letters, l)
	f.waiting++
	if l.account != (keys.Account{}) {
		f.accounts[l.account] = l
	}
	return gone, true
}

// next is whose turn it is; nil when none waits.
func (f *fair) next() *letter {
	if f.waiting == 0 {
		return nil
	}
	if f.turn >= len(f.lines) {
		f.turn = 0
	}
	own := f.lines[f.turn]
	l := own.letters[0]
	if len(own.letters) > 1 {
		f.turn++ // else the next line moves here
	}
	f.remove(own, 0)
	return l
}

// take returns and removes the account's letter; nil where it has none.
func (f *fair) take(a keys.Account) *letter {
	l := f.accounts[a]
	if l == nil {
		return nil
	}
	own := f.places[l.place]
	for i := range own.letters {
		if own.letters[i] == l {
			f.remove(own, i)
			break
		}
	}
	return l
}

func (f *fair) longest() (most *line) {
	for _, own := range f.lines {
		if most == nil || len(own.letters) > len(most.letters) {
			most = own
		}
	}
	return most
}

func (f *fair) remove(own *line, i int) {
	l := own.letters[i]
	own.letters = slices.Delete(own.letters, i, i+1)
	f.waiting--
	if f.accounts[l.account] == l {
		delete(f.accounts, l.account)
	}
	if len(own.letters) > 0 {
		return
	}
	delete(f.places, own.place)
	at := slices.Index(f.lines, own)
	f.lines = slices.Delete(f.lines, at, at+1)
	if at < f.turn {
		f.turn--
	}
}
