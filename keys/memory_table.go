package keys

// This file is where Memory keeps buckets: a hash index of 4 bytes a slot over
// packed entries in chunks. It holds no pointers for the collector to follow,
// grows without copying an entry, and needs about 80 bytes for a bucket of two
// limits, whatever the length of its key.

// hash stands for a key: 128 bits under a key of the process's own, so that
// nobody outside can make two keys meet.
type hash [2]uint64

// An entry is a run of words: the hash, the stamp, word entryMeta, then spent
// and units of each cell, then the cells' IDs, two to a word.
const (
	entryStamp = 2
	entryMeta  = 3 // when full again by the twin's own clock, and two flags
	entryCells = 4

	metaDistrust = 1
	metaShared   = 2 // an overflow bucket
	metaFull     = 2 // bits to the right of the time

	chunkEntries = 64
)

func entryWords(cells int) int { return entryCells + 2*cells + (cells+1)/2 }

// table holds the buckets of one shard. A zero index slot is free; others hold
// the number of cells less one in 4 bits, and the entry's slot plus one.
type table struct {
	index  []uint32
	live   int // buckets of one key
	shared int // overflow buckets
	hand   int // where the next sweep of the index begins
	slabs  [MaxLimits]slab
}

// slab holds the entries with the same number of cells.
type slab struct {
	chunks [][]uint64
	used   uint32 // slots handed out so far
	free   uint32 // first freed slot plus one; each holds the next in its first word
}

func (t *table) entry(ref uint32) []uint64 {
	class, slot := ref>>28, ref&(1<<28-1)-1
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

// read unpacks the bucket at an index position. cells is reused.
func (t *table) read(at int, cells []Cell) Bucket {
	ref := t.index[at]
	e, n := t.entry(ref), int(ref>>28)+1
	b := Bucket{Stamp: int64(e[entryStamp]), Distrust: e[entryMeta]&metaDistrust != 0, Cells: cells[:n]}
	for i := range b.Cells {
		id := uint32(e[entryCells+2*n+i/2] >> (i % 2 * 32))
		b.Cells[i] = Cell{id, int64(e[entryCells+2*i]), int64(e[entryCells+2*i+1])}
	}
	return b
}

// write stores b, which will be full again at full by the twin's own clock.
// An entry keeps the later of its old and new such times, because limits may
// change back; only a stamp that went back (a broken clock was mended) starts
// anew.
func (t *table) write(h hash, b *Bucket, full int64, shared bool) {
	at := t.find(h)
	if at >= 0 {
		old := t.entry(t.index[at])
		if int64(old[entryStamp]) <= b.Stamp {
			full = max(full, int64(old[entryMeta]>>metaFull))
		}
		if int(t.index[at]>>28)+1 != len(b.Cells) {
			t.release(t.index[at])
			t.index[at] = t.reserve(len(b.Cells))
		}
	} else {
		at = t.insert(h, t.reserve(len(b.Cells)))
		if shared {
			t.shared++
		} else {
			t.live++
		}
	}
	t.pack(t.index[at], h, b, full, shared)
}

func (t *table) pack(ref uint32, h hash, b *Bucket, full int64, shared bool) {
	e, n := t.entry(ref), len(b.Cells)
	meta := uint64(max(full, 0)) << metaFull
	if b.Distrust {
		meta |= metaDistrust
	}
	if shared {
		meta |= metaShared
	}
	e[0], e[1], e[entryStamp], e[entryMeta] = h[0], h[1], uint64(b.Stamp), meta
	clear(e[entryCells+2*n:])
	for i, c := range b.Cells {
		e[entryCells+2*i], e[entryCells+2*i+1] = uint64(c.Spent), uint64(c.Units)
		e[entryCells+2*n+i/2] |= uint64(c.ID) << (i % 2 * 32)
	}
}

// reserve hands out an entry for n cells.
func (t *table) reserve(n int) uint32 {
	s, class := &t.slabs[n-1], uint32(n-1)<<28
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
	s := &t.slabs[ref>>28]
	t.entry(ref)[0] = uint64(s.free)
	s.free = ref & (1<<28 - 1)
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

// sweep looks at n index positions, as the hand of a clock does, and frees the
// buckets that were full again by then. It reports whether one of a single key
// was among them.
func (t *table) sweep(n int, then int64) (freed bool) {
	for range min(n, len(t.index)) {
		t.hand &= len(t.index) - 1
		ref := t.index[t.hand]
		if ref == 0 {
			t.hand++
			continue
		}
		meta := t.entry(ref)[entryMeta]
		if int64(meta>>metaFull) > then {
			t.hand++
			continue
		}
		freed = freed || meta&metaShared == 0
		t.remove(t.hand) // what moves into the gap is looked at next
	}
	return freed
}
