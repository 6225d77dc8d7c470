package detect

import (
	"container/heap"
	"math"
	"slices"
)

// heavy are the heaviest of many keys, in the memory of a few: space-saving
// (Metwally 2005) over weights that fade. Whoever is not among the k kept is
// lighter than the lightest of them.
type heavy[K comparable] struct {
	k    int
	fade float64 // of the logarithm, a microsecond
	base int64   // weights are as if added at base
	at   map[K]*weighed[K]
	heap byWeight[K]
}

// weighed is a key with what it weighs, in units of base: never less than the
// truth, and more by at most over.
type weighed[K comparable] struct {
	key              K
	failed, over, in float64
	loose            float64 // of failed, what came from no suspect
	account          string  // of the last failure, as a sample
	i                int
}

// newHeavy keeps k keys, whose weights fade to an e-th within mean.
func newHeavy[K comparable](k int, mean int64) *heavy[K] {
	return &heavy[K]{k: k, fade: 1 / float64(mean), at: make(map[K]*weighed[K])}
}

// add counts one of key. Successes make no place for a key, failures do.
func (h *heavy[K]) add(at int64, key K, failed bool, account string) {
	w := h.unit(at)
	e := h.at[key]
	switch {
	case e == nil && !failed:
		return
	case e == nil && len(h.heap) < h.k:
		e = &weighed[K]{key: key}
		h.at[key] = e
		heap.Push(&h.heap, e)
	case e == nil:
		e = h.heap[0]
		delete(h.at, e.key)
		*e = weighed[K]{key: key, failed: e.failed, over: e.failed, i: e.i}
		h.at[key] = e
	}
	if !failed {
		e.in += w
		return
	}
	e.failed += w
	e.account = account
	heap.Fix(&h.heap, e.i)
}

// unit is the weight of one at that time, in units of base.
func (h *heavy[K]) unit(at int64) float64 {
	const most = 60 // e^60 is far from where doubles end
	if h.base == 0 {
		h.base = at
	}
	x := float64(at-h.base) * h.fade
	if x > most {
		f := math.Exp(-x)
		for _, e := range h.heap {
			e.failed, e.over, e.in, e.loose = e.failed*f, e.over*f, e.in*f, e.loose*f
		}
		h.base, x = at, 0
	}
	return math.Exp(x)
}

// Share of a group: failures and successes a minute, the former never more than the truth.
type rate[K comparable] struct {
	key        K
	failed, in float64
	account    string
}

// top lists the n heaviest that are heavier than least failures a minute.
func (h *heavy[K]) top(at int64, n int, least float64) []rate[K] {
	perMinute := h.fade * minute / h.unit(at)
	var all []rate[K]
	for _, e := range h.heap {
		if f := (e.failed - e.over) * perMinute; f > least {
			all = append(all, rate[K]{e.key, f, e.in * perMinute, e.account})
		}
	}
	slices.SortFunc(all, func(a, b rate[K]) int {
		switch {
		case a.failed > b.failed:
			return -1
		case a.failed < b.failed:
			return 1
		}
		return 0
	})
	return all[:min(n, len(all))]
}

// untied says that the failure of key that was added last came from no suspect.
func (h *heavy[K]) untied(at int64, key K) { h.at[key].loose += h.unit(at) }

// tied returns what of key's failures came from no suspect, as failures that weigh
// one each at that time, and forgets it: key is one now.
func (h *heavy[K]) tied(at int64, key K) float64 {
	e := h.at[key]
	if e == nil {
		return 0
	}
	n := e.loose / h.unit(at)
	e.loose = 0
	return n
}

// byWeight is a heap with the lightest on top.
type byWeight[K comparable] []*weighed[K]

func (b byWeight[K]) Len() int           { return len(b) }
func (b byWeight[K]) Less(i, j int) bool { return b[i].failed < b[j].failed }
func (b byWeight[K]) Swap(i, j int)      { b[i], b[j] = b[j], b[i]; b[i].i, b[j].i = i, j }
func (b *byWeight[K]) Push(e any)        { w := e.(*weighed[K]); w.i = len(*b); *b = append(*b, w) }
func (b *byWeight[K]) Pop() any {
	old := *b
	e := old[len(old)-1]
	*b = old[:len(old)-1]
	return e
}
