package detect

import (
	"math"
	"strings"
)

// Spray finds a password that is tried on many accounts: on each once, so that
// no account and no address ever sees much.
type Spray struct {
	hash   hasher
	pairs  seen    // of password and account: each counts once
	ladder [3]seen // passwords that one, two, three accounts were tried with
	tags   map[string]*sprayed
	from   int64    // first sight
	failed dayCount // cold failures
	// last is the latest sight; what is not later than upto was counted by a predecessor.
	last, upto int64
}

// sprayed is a password that at least four accounts were tried with.
type sprayed struct {
	hours   [48]uint16 // new accounts in each, by the hour of the epoch
	last    int64      // hour
	today   int        // in the 24 hours that end with last
	flagged int64      // when; 0: not
}

const (
	// sprayLeast is how many accounts a day it takes, however unusual the password.
	sprayLeast = 20
	// sprayGrowth: a popular password is tried by honest people, too, each day by
	// about as many; a reset mailing makes it half as many again.
	sprayGrowth = 1.5
	// sprayShare is what a password has of a day's cold failures before it is
	// flagged while nobody knows how popular it is, in the first two days.
	sprayShare = 0.0005
	// sprayTail is how many standard deviations a Poisson count stays within but
	// once in ten million, and sprayMore what small counts need on top.
	sprayTail, sprayMore = 5.2, 8
	// sprayKept is how many passwords are counted.
	sprayKept = 4096
)

// NewSpray has seen nothing. seed is a secret of the process.
func NewSpray(seed uint64) *Spray {
	s := &Spray{hash: hasher{seed}, pairs: seen{period: day}, tags: map[string]*sprayed{}}
	for i := range s.ladder {
		s.ladder[i] = seen{period: day}
	}
	return s
}

// Sprayed is a password that is being sprayed.
type Sprayed struct {
	Tag      string // under the key of the day
	Accounts int    // within 24 hours
	New      bool   // it was not known to be before
}

// See takes a sight, and says whether its password is being sprayed.
func (s *Spray) See(x *Sight) (Sprayed, bool) {
	if s.from == 0 {
		s.from = x.At
	}
	if !x.Class.Failed() || x.Tag == "" || x.At <= s.upto {
		return Sprayed{}, false
	}
	s.last = max(s.last, x.At)
	s.failed.add(x.At)
	h := x.At / hour
	t := s.of(x)
	fresh := !s.pairs.add(x.At, s.hash.pair(x.Tag, x.Account))
	if fresh && x.TagBefore != "" && s.pairs.has(s.hash.pair(x.TagBefore, x.Account)) {
		fresh = false // it was tried before midnight
	}
	if t == nil {
		if !fresh || !s.climb(x) {
			return Sprayed{}, false
		}
		t = s.keep(x.Tag, h)
		t.count(len(s.ladder))
	}
	t.turn(h)
	if fresh {
		t.count(1)
	}
	n := t.today
	was := t.flagged != 0
	if !was && float64(n) >= s.limit(t, h) {
		t.flagged = x.At
	}
	if t.flagged == 0 {
		return Sprayed{}, false
	}
	return Sprayed{Tag: x.Tag, Accounts: n, New: !was}, true
}

// Flagged reports whether that password is known to be sprayed at that time.
func (s *Spray) Flagged(x *Sight) bool {
	t := s.of(x)
	return t != nil && t.flagged != 0 && t.sum(x.At/hour, 0) > 0
}

// of finds the password's count. At midnight a password gets another tag; the
// first attempt after it carries the old one, too.
func (s *Spray) of(x *Sight) *sprayed {
	if t := s.tags[x.Tag]; t != nil {
		return t
	}
	t := s.tags[x.TagBefore]
	if t == nil || x.TagBefore == "" {
		return nil
	}
	delete(s.tags, x.TagBefore)
	s.tags[x.Tag] = t
	return t
}

// climb reports whether three accounts were tried with the password before.
func (s *Spray) climb(x *Sight) bool {
	h := s.hash.text(x.Tag)
	for i := range s.ladder {
		if !s.ladder[i].add(x.At, h) {
			return false
		}
	}
	return true
}

// keep makes room for a password: those that were tried least today go.
func (s *Spray) keep(tag string, h int64) *sprayed {
	if len(s.tags) >= sprayKept {
		for _, k := range least(s.tags, func(t *sprayed) int64 { return t.worth(h) }, strings.Compare) {
			delete(s.tags, k)
		}
	}
	t := &sprayed{last: h}
	s.tags[tag] = t
	return t
}

// worth is what a count is kept by: what is sprayed goes last.
func (t *sprayed) worth(h int64) int64 {
	t.turn(h)
	if t.flagged != 0 {
		return math.MaxInt64
	}
	return int64(t.today)
}

// limit is the count from which on a password is flagged.
func (s *Spray) limit(t *sprayed, h int64) float64 {
	if h-s.from/hour < 48 {
		return max(sprayLeast, sprayShare*float64(s.failed.sum(h, 24)))
	}
	usual := sprayGrowth * float64(t.sum(h, 24))
	return max(sprayLeast, usual+sprayTail*math.Sqrt(usual)+sprayMore)
}

// count adds so many to the last hour.
func (t *sprayed) count(n int) {
	at := &t.hours[t.last%48]
	n = min(n, math.MaxUint16-int(*at))
	*at += uint16(n)
	t.today += n
}

// turn empties the hours that have begun since.
func (t *sprayed) turn(h int64) {
	if t.last >= h {
		return
	}
	if h-t.last >= 48 {
		*t = sprayed{last: h}
		return
	}
	for ; t.last < h; t.last++ {
		t.hours[(t.last+1)%48] = 0
	}
	if t.today = t.sum(h, 0); t.today == 0 {
		t.flagged = 0
	}
}

// sum adds the 24 hours that ended so many hours before h.
func (t *sprayed) sum(h, ago int64) (n int) {
	for i := range int64(24) {
		at := h - ago - i
		if at > t.last || at <= t.last-48 || at < 0 {
			continue
		}
		n += int(t.hours[at%48])
	}
	return n
}

// dayCount counts within 24 hours.
type dayCount struct {
	hours [24]int
	last  int64
}

func (c *dayCount) add(at int64) {
	h := at / hour
	if h-c.last >= 24 {
		c.hours, c.last = [24]int{}, h
	}
	for ; c.last < h; c.last++ {
		c.hours[(c.last+1)%24] = 0
	}
	if h > c.last-24 { // what comes later than that is another day's
		c.hours[h%24]++
	}
}

// sum counts the last so many hours, h among them.
func (c *dayCount) sum(h, hours int64) (n int) {
	for i := range hours {
		if at := h - i; at <= c.last && at > c.last-24 && at >= 0 {
			n += c.hours[at%24]
		}
	}
	return n
}
