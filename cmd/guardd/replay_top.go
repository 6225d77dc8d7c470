package main

import (
	"cmp"
	"container/heap"
	"slices"
)

// topKeys is how many keys are counted exactly. An address or a name is up to
// half a KiB, so both lists together stay under 150 MB whatever the log holds.
const topKeys = 100_000

// top counts attempts by key in bounded memory. Up to its bound it is exact.
// From then on it is Space-Saving (Metwally, Agrawal, El Abbadi 2005): a new
// key takes the place of the one with the fewest attempts and inherits them.
// So attempts is never too low and too high by at most the number of attempts
// divided by the bound, and every key with more than that is in the list.
// asked of a key that took a place counts from then on: never too high.
type top struct {
	bound int
	by    map[string]*tally
	least tallies // a heap, from when the bound is reached
}

type tally struct {
	key             string
	attempts, asked int64
	at              int // in the heap
}

func newTop(bound int) *top { return &top{bound: bound, by: map[string]*tally{}} }

func (t *top) add(key string, asked bool) {
	e := t.by[key]
	if e == nil {
		e = t.place(key)
	}
	e.attempts++
	if asked {
		e.asked++
	}
	if t.least != nil {
		heap.Fix(&t.least, e.at)
	}
}

func (t *top) place(key string) *tally {
	if len(t.by) < t.bound {
		e := &tally{key: key}
		t.by[key] = e
		return e
	}
	if t.least == nil {
		for _, e := range t.by {
			e.at = len(t.least)
			t.least = append(t.least, e)
		}
		heap.Init(&t.least)
	}
	e := t.least[0]
	delete(t.by, e.key)
	e.key, e.asked = key, 0
	t.by[key] = e
	return e
}

// exact reports whether every count is exact.
func (t *top) exact() bool { return t.least == nil }

// first returns the n keys with most attempts, ties in the order of keys.
func (t *top) first(n int) []*tally {
	all := make([]*tally, 0, len(t.by))
	for _, e := range t.by {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.attempts, a.attempts), cmp.Compare(b.asked, a.asked), cmp.Compare(a.key, b.key))
	})
	return all[:min(n, len(all))]
}

type tallies []*tally

func (h tallies) Len() int           { return len(h) }
func (h tallies) Less(i, j int) bool { return h[i].attempts < h[j].attempts }
func (h tallies) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *tallies) Push(any) { panic("the heap never grows") }
func (h *tallies) Pop() any { panic("the heap never shrinks") }
