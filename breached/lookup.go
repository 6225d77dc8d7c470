package breached

import (
	"context"
	"encoding/binary"
)

// Check looks a hash up. It reads the same and compares as often whether the
// hash is there or not: the table for the bucket, ceil(log2 n) of the bucket's
// n records and the one that is left and its neighbour, the directory for the
// bucket's group, ceil(log2 m) of the group's m large counts and the one that
// is left, and the end of the file. n and m are of the first 24 (16) bits of the
// hash alone. It allocates nothing.
//
// 64 (56) bits of the hash are compared. Should several hashes of the corpus
// share them, the largest count of theirs is answered.
func (x *Index) Check(_ context.Context, h Hash) (v Verdict, err error) {
	if h.kind != x.main.kind {
		return v, ErrKind
	}
	err = x.use(func() error {
		f := x.find(binary.BigEndian.Uint64(h.sum[:8]))
		v = Verdict{Breached: f.found, Count: f.count, Complete: x.main.complete}
		if f.lost {
			return damaged("a large count is missing")
		}
		return nil
	})
	if err != nil {
		return Verdict{}, err
	}
	return v, nil
}

// finding is what a look-up found, and what it took.
type finding struct {
	found bool
	count uint64
	lost  bool // a count that must be among the large is not there
	reads int  // of records and large counts
}

// find looks up the first 64 bits of a hash.
func (x *Index) find(hi uint64) (f finding) {
	m := x.main
	key := hi >> (24 - m.bits)
	bucket, rest := key>>40, key&(1<<40-1)
	from, to := m.bucket(bucket)
	row, reads := m.lowerBound(from, to, rest)
	f.reads = reads
	group := bucket >> m.groupShift()
	f.found, f.count, f.lost = m.recordAt(row, to, rest, group, &f.reads)
	// Another hash with the same 64 bits: once in all of 2.2 billion, perhaps.
	for next := row + 1; f.found; next++ {
		also, count, lost := m.recordAt(next, to, rest, group, &f.reads)
		if !also {
			break
		}
		f.count, f.lost = max(f.count, count), f.lost || lost
	}
	if !f.found { // the read of the neighbour that a hit has done
		m.recordAt(row+1, to, rest, group, &f.reads)
		f.count, f.lost = 0, false
	}
	return f
}

// bucket is the rows of a bucket, from the first to before the last.
func (x *file) bucket(n uint64) (from, to uint64) {
	at := x.data[x.table.at+n*tableEntry:]
	return load40(at), load40(at[tableEntry:])
}

// lowerBound is the first row of a bucket whose remainder is not below rest, or
// the row before the bucket's end. The steps depend on how many rows there are,
// and on nothing else.
func (x *file) lowerBound(from, to, rest uint64) (row uint64, reads int) {
	records := x.data[x.records.at:]
	row = from
	for n := to - from; n > 1; reads++ {
		half := n / 2
		next := row
		if load40(records[(row+half-1)*recordSize:]) < rest {
			next = row + half
		}
		row = next
		n -= half
	}
	return row, reads
}

// recordAt compares a row of a bucket that ends before to, and finds its count
// among the large whether it is there or not.
func (x *file) recordAt(row, to, rest, group uint64, reads *int) (found bool, count uint64, lost bool) {
	record := binary.BigEndian.Uint64(x.data[x.records.at+min(row, x.rows-1)*recordSize:])
	*reads++
	found = row < to && record>>24 == rest
	count = record >> 16 & 0xFF
	is, large := x.largeCount(row, group, reads)
	if count == 0 {
		return found, large, found && !is
	}
	return found, count, false
}

// largeCount looks a row up among the large counts of its group.
func (x *file) largeCount(row, group uint64, reads *int) (is bool, count uint64) {
	at := x.data[x.directory.at+group*tableEntry:]
	from, to := load40(at), load40(at[tableEntry:])
	large := x.data[x.layout.large.at:]
	for n := to - from; n > 1; *reads++ {
		half := n / 2
		next := from
		if load40(large[(from+half-1)*largeSize:]) < row {
			next = from + half
		}
		from = next
		n -= half
	}
	// Beyond the last one there are checksums, which are no row's.
	entry := large[from*largeSize:]
	*reads++
	return from < to && load40(entry) == row, binary.BigEndian.Uint64(entry[tableEntry:])
}
