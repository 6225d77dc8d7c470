package keys

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Journal is a bounded list of entries in the order in which they were
// appended, that every instance reads: what operators did, so that each
// instance does it too, and so that it can be looked up. It is made of
// documents: a head that says the last entry's number, and Keep places, of
// which entry n has place n modulo Keep. It is safe for concurrent use, by any
// number of instances.
type Journal struct {
	docs Documents
	name string
	keep int64
	ttl  int64
}

// NewJournal returns the journal of this name, of the last keep entries, each
// kept for ttl microseconds.
func NewJournal(d Documents, name string, keep int, ttl int64) *Journal {
	return &Journal{docs: d, name: "gd:{" + name + "}:", keep: int64(max(keep, 1)), ttl: ttl}
}

// Entry is one of a journal.
type Entry struct {
	Seq   int64 // its number, from 1
	Value []byte
}

func (j *Journal) head() string { return j.name + "head" }

func (j *Journal) place(seq int64) string { return j.name + strconv.FormatInt(seq%j.keep, 10) }

// Last is the number of the last entry, 0 when there is none.
func (j *Journal) Last(ctx context.Context) (int64, error) {
	b, err := j.docs.Get(ctx, j.head())
	return lastOf(b), err
}

// lastOf reads a head; one that is none begins anew.
func lastOf(b []byte) int64 {
	var n [1]int64
	if !readDoubles(b, n[:]) {
		return 0
	}
	return max(n[0], 0)
}

// Append adds an entry and returns its number. After an error nobody knows
// whether it is there.
//
// The entry is written before the head that counts it. Between the two another
// writer may find the place taken: it counts that entry first, so that one
// whose writer has died is not lost, and takes the next.
func (j *Journal) Append(ctx context.Context, value []byte) (int64, error) {
	for range swapTries {
		head, err := j.docs.Get(ctx, j.head())
		if err != nil {
			return 0, err
		}
		seq := lastOf(head) + 1
		was, err := j.docs.Get(ctx, j.place(seq))
		if err != nil {
			return 0, err
		}
		mine := false
		if seqOf(was) != seq {
			mine, err = j.docs.Swap(ctx, j.place(seq), was, encodeEntry(seq, value), j.ttl)
			if err != nil {
				return 0, err
			}
			if !mine {
				continue // another has just written here
			}
		}
		// The head outlives its entries: numbers must not begin anew.
		if _, err := j.docs.Swap(ctx, j.head(), head, doubles(seq), 10*j.ttl); err != nil {
			return 0, err
		}
		if mine {
			return seq, nil
		}
	}
	return 0, ErrBusy
}

func encodeEntry(seq int64, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(value)), uint64(seq)), value...)
}

// seqOf is an entry's number, 0 for what is none.
func seqOf(b []byte) int64 {
	if len(b) < 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b))
}

// Read returns those of the entries numbered from to upto that are still kept,
// in order.
func (j *Journal) Read(ctx context.Context, from, upto int64) ([]Entry, error) {
	var entries []Entry
	for seq := max(from, upto-j.keep+1, 1); seq <= upto; seq++ {
		b, err := j.docs.Get(ctx, j.place(seq))
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", seq, err)
		}
		if seqOf(b) == seq {
			entries = append(entries, Entry{seq, b[8:]})
		}
	}
	return entries, nil
}
