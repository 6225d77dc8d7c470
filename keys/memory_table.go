package keys

// This file is where Memory keeps buckets: a hash index of 4 bytes a slot over
// packed entries in chunks. It holds no pointers for the collector to follow,
// grows without copying an entry, and needs about 80 bytes for a bucket of two
// limits, whatever the length of its key.

// hash stands for a key: 128 bits under a key of the process's own, so that
// nobody outside can make two keys meet.
type hash [2]uint64

// An entry is a run of words: the hash, the stamp, word entryMeta, then spent
// and units of each cell, then the cells' IDs, two to a word. A cell with a stamp
// of its own comes after one with the ID 0, which no limit has, that bears it.
const (
	entryStamp = 2
	entryMeta  = 3 // when full again by the twin's own clock, and two flags
	entryCells = 4

	metaDistrust = 1
	metaShared   = 2         // an overflow bucket
	metaFull     = 2         // bits to the right of the time
	metaFreed    = 1<<64 - 1 // of no bucket: no time is so late

	chunkEntries = 64
)

func entryWords(cells int) int { return entryCells + 2*cells + (cells+1)/2 }

const (
	maxWidth = MaxLimits + 2*MaxKept
	slotBits = 27 // of an index slot; the rest are an entry's width less one
)

// table holds the buckets of one shard. A zero index slot is free; others hold
// the entry's width (cells, and one more for each with a stamp of its own) less
// one, and its slot plus one.
type table struct {
	index  []uint32
	live   int // buckets of one key
	shared int // overflow buckets
	slabs  [maxWidth]slab
	hand   struct{ class, slot uint32 } // the last entry that a sweep looked at
}

// slab holds the entries of the same width.
type slab struct {
	chunks [][]uint64
	used   uint32 // slots handed out so far
	free   uint32 // first freed slot plus one; each holds the next in its first word
}

func (t *table) entry(ref uint32) []uint64 {
	class, slot := ref>>slotBits, ref&(1<<slotBits-1)-1
	n := uint32(entryWords(int(class) + 1))
	return t.slabs[class].chunks[slot/chunkEntries][slot%chunkEntries*n:][:n:n]
}

// find returns the index position of h, or -1.
func (t *table) find(h hash) int {
	if len(t.index) == 0 {
		return -1
	}
	mask := len(t.index) - 1
	for at := int(h[0]) & mask; t.index[at] != 0; at = (at + 1) & mask {
		if e := t.entry(t.index[at]); e[0] == h[0] && e[1] == h[1] {
			return at
		}
	}
	return -1
}

// width is the number of cells of an entry.
func width(ref uint32) int { return int(ref>>slotBits) + 1 }

// again is find, where at is probably the answer.
func (t *table) again(h hash, at int) int {
	if at >= 0 && at < len(t.index) && t.index[at] != 0 {
		if e := t.entry(t.index[at]); e[0] == h[0] && e[1] == h[1] {
			return at
		}
	}
	return t.find(h)
}

// read unpacks the bucket at an index position. cells, of MaxCells, is reused.
func (t *table) read(at int, cells []Cell) Bucket {
	ref := t.index[at]
	e, n := t.entry(ref), width(ref)
	b := Bucket{Stamp: int64(e[entryStamp]), Distrust: e[entryMeta]&metaDistrust != 0, Cells: cells[:0]}
	stamp := int64(0)
	for i := range n {
		id, spent := uint32(e[entryCells+2*n+i/2]>>(i%2*32)), int64(e[entryCells+2*i])
		if id == 0 {
			stamp = spent
			continue
		}
		b.Cells = append(b.Cells, Cell{id, spent, int64(e[entryCells+2*i+1]), stamp})
		stamp = 0
	}
	return b
}

// write stores b, which will be full again at full by the twin's own clock. at
// is where h was found, or -1; what was swept or written since may have moved it.
// An entry keeps the later of its old and new such times, because limits may
// change back; only a stamp that went back (a broken clock was mended) starts
// anew, unless something is kept for others.
func (t *table) write(h hash, at int, b *Bucket, full, own int64, shared bool) {
	n := b.width()
	if at = t.again(h, at); at >= 0 {
		old := t.entry(t.index[at])
		if int64(old[entryStamp]) <= b.Stamp || n > len(b.Cells) {
			full = max(full, int64(old[entryMeta]>>metaFull))
		}
		if width(t.index[at]) != n {
			t.release(t.index[at])
			t.index[at] = t.reserve(n)
		}
	} else {
		// What nobody asks for again goes in time, as keys with a TTL do.
		t.sweep(tidySweep, own-Slack)
		at = t.insert(h, t.reserve(n))
		if shared {
			t.shared++
		} else {
			t.live++
		}
	}
	t.pack(t.index[at], h, b, full, shared)
}

func (t *table) pack(ref uint32, h hash, b *Bucket, full int64, shared bool) {
	e, n := t.entry(ref), width(ref)
	meta := uint64(max(full, 0)) << metaFull
	if b.Distrust {
		meta |= metaDistrust
	}
	if shared {
		meta |= metaShared
	}
	e[0], e[1], e[entryStamp], e[entryMeta] = h[0], h[1], uint64(b.Stamp), meta
	clear(e[entryCells+2*n:])
	at := 0
	for _, c := range b.Cells {
		if c.Stamp != 0 {
			e[entryCells+2*at], e[entryCells+2*at+1] = uint64(c.Stamp), 0
			at++
		}
		e[entryCells+2*at], e[entryCells+2*at+1] = uint64(c.Spent), uint64(c.Units)
		e[entryCells+2*n+at/2] |= uint64(c.ID) << (at % 2 * 32)
		at++
	}
}

// width is how many cells of an entry b takes.
func (b *Bucket) width() int {
	n := len(b.Cells)
	for i := range b.Cells {
		if b.Cells[i].Stamp != 0 {
			n++
		}
	}
	return n
}

// reserve hands out an entry of width n.
func (t *table) reserve(n int) uint32 {
	s, class := &t.slabs[n-1], uint32(n-1)<<slotBits
	if slot := s.free; slot != 0 {
		s.free = uint32(t.entry(class | slot)[0])
		return class | slot
	}
	if s.used%chunkEntries == 0 {
		s.chunks = append(s.chunks, make([]uint64, chunkEntries*entryWords(n)))
	}
	s.used++
	return class | s.used
}

func (t *table) release(ref uint32) {
	s, e := &t.slabs[ref>>slotBits], t.entry(ref)
	e[0], e[entryMeta] = uint64(s.free), metaFreed
	s.free = ref & (1<<slotBits - 1)
}

// insert puts a new hash into the index, which stays at most three quarters
// full, and returns its position. The entry is not written yet.
func (t *table) insert(h hash, ref uint32) int {
	if (t.live+t.shared+1)*4 > len(t.index)*3 {
		old := t.index
		t.index = make([]uint32, max(16, 2*len(old)))
		for _, r := range old {
			if r != 0 {
				t.index[t.gap(t.entry(r)[0])] = r
			}
		}
	}
	at := t.gap(h[0])
	t.index[at] = ref
	return at
}

func (t *table) gap(h0 uint64) int {
	mask := len(t.index) - 1
	at := int(h0) & mask
	for t.index[at] != 0 {
		at = (at + 1) & mask
	}
	return at
}

// remove frees the entry at an index position and closes the gap in its probe
// run, so that no tombstones gather.
func (t *table) remove(at int) {
	ref := t.index[at]
	if t.entry(ref)[entryMeta]&metaShared != 0 {
		t.shared--
	} else {
		t.live--
	}
	t.release(ref)
	mask := len(t.index) - 1
	t.index[at] = 0
	for next := (at + 1) & mask; t.index[next] != 0; next = (next + 1) & mask {
		home := int(t.entry(t.index[next])[0]) & mask
		if (next-home)&mask >= (next-at)&mask { // home is not between the gap and next
			t.index[at], t.index[next] = t.index[next], 0
			at = next
		}
	}
}

// sweep looks at n entries, as the hand of a clock does, and frees the buckets
// that were full again by then. It reports whether one of a single key was among
// them. Entries lie side by side; by the index each would be a cache miss.
func (t *table) sweep(n int, then int64) (freed bool) {
	for range n {
		e := t.next()
		if e == nil {
			return freed
		}
		meta := e[entryMeta]
		if int64(meta>>metaFull) > then {
			continue
		}
		freed = freed || meta&metaShared == 0
		t.remove(t.find(hash{e[0], e[1]}))
	}
	return freed
}

// next moves the hand on, and returns what it points at; nil where there is nothing.
func (t *table) next() []uint64 {
	for range len(t.slabs) + 1 {
		if t.hand.slot < t.slabs[t.hand.class].used {
			t.hand.slot++
			return t.entry(t.hand.class<<slotBits | t.hand.slot)
		}
		t.hand.class, t.hand.slot = (t.hand.class+1)%maxWidth, 0
	}
	return nil
}
