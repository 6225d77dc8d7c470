package aggregate

// aging counts fingerprints for at least a span of event time and at most two, or
// for less where more of them come than it has room for.
type aging struct {
	span       int64 // microseconds
	room       int   // fingerprints of one generation; there are two
	began      int64 // when the younger did
	young, old counts
	overfull   uint64 // generations that ended early, for want of room
}

func newAging(span int64, room int) aging { return aging{span: span, room: room} }

// turn has the older generation go when its time has come.
func (a *aging) turn(now int64) {
	switch past := now - a.began; {
	case past >= 2*a.span:
		a.old, a.young, a.began = counts{}, counts{}, now
	case past >= a.span:
		a.old, a.young, a.began = a.young, counts{}, a.began+a.span
	case a.young.n >= a.room:
		a.old, a.young, a.began = a.young, counts{}, now
		a.overfull++
	}
}

// get is how often f was added.
func (a *aging) get(now int64, f uint64) uint32 {
	a.turn(now)
	if n := a.young.get(f); n > 0 {
		return n
	}
	return a.old.get(f)
}

// add counts f once more, for a span from now on. It returns the count of before.
func (a *aging) add(now int64, f uint64) (before uint32) {
	before = a.get(now, f)
	a.young.set(f, min(before+1, maxCount))
	return before
}

// tally is how often f was counted within the span, or up to twice that: unlike
// add, which remembers a count for as long as it grows.
func (a *aging) tally(now int64, f uint64) int {
	a.turn(now)
	return int(a.young.get(f) + a.old.get(f))
}

// count counts f once more, and returns the tally.
func (a *aging) count(now int64, f uint64) int {
	a.turn(now)
	a.young.set(f, min(a.young.get(f)+1, maxCount))
	return a.tally(now, f)
}

// forget forgets f, and returns its count.
func (a *aging) forget(now int64, f uint64) uint32 {
	n := a.get(now, f)
	a.young.unset(f)
	a.old.unset(f)
	return n
}

// counts are small counts by fingerprint, without gaps between them in memory:
// half a realm's bytes are such. The zero value is empty.
type counts struct {
	slots []uint64 // the fingerprint's upper 56 bits, and the count
	n     int
}

const maxCount = 255

// slot is where f is or would be.
func (c *counts) slot(f uint64) int {
	mask := uint64(len(c.slots) - 1)
	for i := f >> 20 & mask; ; i = (i + 1) & mask {
		if s := c.slots[i]; s == 0 || s>>8 == f>>8 {
			return int(i)
		}
	}
}

func (c *counts) get(f uint64) uint32 {
	if c.n == 0 {
		return 0
	}
	return uint32(c.slots[c.slot(f)] & maxCount)
}

func (c *counts) set(f uint64, n uint32) {
	if 4*(c.n+1) > 3*len(c.slots) {
		was := c.slots
		c.slots = make([]uint64, max(2*len(was), 16))
		for _, s := range was {
			if s != 0 {
				c.slots[c.slot(s)] = s
			}
		}
	}
	i := c.slot(f)
	if c.slots[i] == 0 {
		c.n++
	}
	c.slots[i] = f&^maxCount | uint64(n)
}

// unset leaves the slot to f, so that others are found behind it.
func (c *counts) unset(f uint64) {
	if c.get(f) > 0 {
		c.slots[c.slot(f)] &^= maxCount
	}
}

// fingerprint is a hash of the parts, whose makers cannot choose it: they are
// keyed hashes themselves, or numbers mixed with one.
func fingerprint(parts ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h ^= p
		h ^= h >> 32
		h *= 0xd6e8feb86659fd93
		h ^= h >> 32
		h *= 0xd6e8feb86659fd93
		h ^= h >> 32
	}
	return h
}
