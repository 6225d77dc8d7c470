package aggregate

import (
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/guardd/guardd/keys"
)

// How the size of a shared address is learned (DESIGN section 4).
const (
	// accountsPerK: an address at which so many accounts sign in within a week is
	// one person more.
	accountsPerK = 25
	// placesPerAccount is at how many addresses an account counts within a week.
	// Without a bound a few accounts that sign in from everywhere would make every
	// address of an attacker look like an office.
	placesPerAccount = 3
	sizeHours        = 7 * 24
	sizeHour         = 3600 * keys.Second
	// sizeAccounts is how many accounts are followed. Where there are more, every
	// second is, then every fourth: the hash says which, so nobody can choose to be.
	sizeAccounts = 1 << 16
	// sizeParts is in how many parts what was learned is kept: each is a document
	// of up to some 100 KB.
	sizeParts = 32
	// How long a learned k holds (over a weekend), and when it is written again.
	sizeHolds = 3 * keys.Day
	sizeRenew = keys.Day
)

// sizes learns how many accounts share an address or a network.
type sizes struct {
	room    int
	level   uint8 // accounts of 1 in 2^level are followed
	parts   [sizeParts]sizePart
	count   int               // of accounts
	narrow  map[uint64]uint32 // followed accounts by address
	wide    map[uint64]uint32 // and by IPv6 /48
	written map[netip.Prefix]learned
}

// sizePart are some of the accounts.
type sizePart struct {
	accounts map[uint64]places
	changed  bool // since it was encoded
}

// places are where an account has signed in of late. A zero hour is a free one.
type places [placesPerAccount]struct {
	at   uint64 // placeOf
	hour uint32 // of the last time
}

// learned is a k that was written.
type learned struct{ k, until int64 }

func newSizes(room int) *sizes {
	s := &sizes{room: room, narrow: map[uint64]uint32{}, wide: map[uint64]uint32{}, written: map[netip.Prefix]learned{}}
	for i := range s.parts {
		s.parts[i].accounts = map[uint64]places{}
	}
	return s
}

// placeOf is an address as sizes tells them apart: the upper half of an IPv6
// address, or the whole of an IPv4 one, for which there is no such half.
func placeOf(a keys.Address) uint64 {
	if !a.Is6() {
		b := a.Addr().As4()
		return uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.Addr().As16()
	return binary.BigEndian.Uint64(b[:8])
}

// wideOf is the /48 around a place, false for IPv4.
func wideOf(place uint64) (uint64, bool) { return place &^ 0xffff, place > 1<<32-1 }

// part is where an account is kept.
func (s *sizes) part(account uint64) *sizePart { return &s.parts[account%sizeParts] }

func (s *sizes) follows(account uint64) bool {
	return account>>8&(1<<s.level-1) == 0
}

func hourOf(at int64) uint32 { return uint32(max(at/sizeHour, 1)) }

// signedIn counts an account at an address, and reports whether that was new.
func (s *sizes) signedIn(account, place uint64, hour uint32) bool {
	if !s.follows(account) {
		return false
	}
	part := s.part(account)
	p, known := part.accounts[account]
	free := -1
	for i := range p {
		switch {
		case p[i].hour == 0 || p[i].hour+sizeHours <= hour:
			free = i
		case p[i].at == place:
			if p[i].hour < hour {
				p[i].hour = hour
				part.accounts[account], part.changed = p, true
			}
			return false
		}
	}
	if free < 0 {
		return false
	}
	s.leave(&p, free)
	s.enter(&p, free, place, hour)
	part.accounts[account], part.changed = p, true
	if !known {
		s.count++
		for s.count > s.room {
			s.thin(s.level + 1)
		}
	}
	return true
}

func (s *sizes) enter(p *places, i int, place uint64, hour uint32) {
	s.narrow[place]++
	if w, ok := wideOf(place); ok && !p.in(w) {
		s.wide[w]++
	}
	p[i].at, p[i].hour = place, hour
}

func (s *sizes) leave(p *places, i int) {
	if p[i].hour == 0 {
		return
	}
	place := p[i].at
	p[i].at, p[i].hour = 0, 0
	less(s.narrow, place)
	if w, ok := wideOf(place); ok && !p.in(w) {
		less(s.wide, w)
	}
}

func less(m map[uint64]uint32, k uint64) {
	if m[k]--; m[k] == 0 {
		delete(m, k)
	}
}

// in reports whether one of the places is in the /48.
func (p *places) in(wide uint64) bool {
	for i := range p {
		if w, ok := wideOf(p[i].at); ok && p[i].hour > 0 && w == wide {
			return true
		}
	}
	return false
}

// thin follows fewer accounts.
func (s *sizes) thin(level uint8) {
	s.level = level
	for i := range s.parts {
		part := &s.parts[i]
		part.changed = true
		for a, p := range part.accounts {
			if !s.follows(a) {
				s.drop(part, a, p)
			}
		}
	}
}

func (s *sizes) drop(part *sizePart, account uint64, p places) {
	for i := range p {
		s.leave(&p, i)
	}
	delete(part.accounts, account)
	s.count--
}

// k is how many people an address or, where wide is set, a network is.
func (s *sizes) k(place uint64, wide bool) int64 {
	n := s.narrow[place]
	if wide {
		n = s.wide[place]
	}
	return min(max(int64(n)<<s.level/accountsPerK, 1), keys.MaxK)
}

// due returns the records to write of a sign-in from ip at now.
func (s *sizes) due(ip keys.Address, now int64) (due []learnedAt) {
	place := placeOf(ip)
	due = s.dueAt(due, ip.Counted(), s.k(place, false), now)
	if w, ok := wideOf(place); ok {
		due = s.dueAt(due, ip.Wide(), s.k(w, true), now)
	}
	return due
}

// learnedAt is a k to write.
type learnedAt struct {
	prefix netip.Prefix
	learned
}

func (s *sizes) dueAt(due []learnedAt, p netip.Prefix, k, now int64) []learnedAt {
	had := s.written[p]
	if had.until <= now {
		had.k = 1
	}
	if k == had.k && (k == 1 || had.until-now > sizeHolds-sizeRenew) {
		return due
	}
	is := learned{k, now + sizeHolds}
	s.written[p] = is
	if k == 1 {
		delete(s.written, p)
	}
	return append(due, learnedAt{p, is})
}

// forgetWritten drops what has lapsed.
func (s *sizes) forgetWritten(now int64) {
	for p, w := range s.written {
		if w.until <= now {
			delete(s.written, p)
		}
	}
}

// A part's form: version, level, then of each account its hash, how many places,
// and of each the place and the hour, little-endian.
const sizesVersion = 1

// errSizes: a part that is none.
var errSizes = errors.New("what was learned of addresses cannot be read")

// encode returns the document of a part, without what had lapsed at now; nil for
// a part of nobody.
func (s *sizes) encode(i int, now int64) []byte {
	part, hour := &s.parts[i], hourOf(now)
	part.changed = false
	if len(part.accounts) == 0 {
		return nil
	}
	doc := append(make([]byte, 0, 2+36*len(part.accounts)), sizesVersion, s.level)
	for _, a := range slices.Sorted(maps.Keys(part.accounts)) {
		p, n := part.accounts[a], byte(0)
		for j := range p {
			if p[j].hour > 0 && p[j].hour+sizeHours <= hour {
				s.leave(&p, j)
			}
			if p[j].hour > 0 {
				n++
			}
		}
		if part.accounts[a] = p; n == 0 {
			s.drop(part, a, p)
			continue
		}
		doc = append(binary.LittleEndian.AppendUint64(doc, a), n)
		for j := range p {
			if p[j].hour > 0 {
				doc = binary.LittleEndian.AppendUint64(doc, p[j].at)
				doc = binary.LittleEndian.AppendUint32(doc, p[j].hour)
			}
		}
	}
	return doc
}

// merge takes over what another has learned, or this one before a restart.
func (s *sizes) merge(doc []byte) error {
	if len(doc) == 0 {
		return nil
	}
	if len(doc) < 2 || doc[0] != sizesVersion || doc[1] > 40 {
		return errSizes
	}
	if doc[1] > s.level {
		s.thin(doc[1])
	}
	for doc = doc[2:]; len(doc) > 0; {
		if len(doc) < 9 || doc[8] > placesPerAccount || len(doc) < 9+12*int(doc[8]) {
			return errSizes
		}
		account, n := binary.LittleEndian.Uint64(doc), int(doc[8])
		for doc = doc[9:]; n > 0; n-- {
			s.signedIn(account, binary.LittleEndian.Uint64(doc), max(binary.LittleEndian.Uint32(doc[8:]), 1))
			doc = doc[12:]
		}
	}
	return nil
}
