package aggregate

import (
	"cmp"
	"slices"

	"github.com/guardd/guardd/keys"
)

// What is busiest is counted for busySpan to twice that, and of busyKept keys in
// each of two generations. Where there are more the lighter half of a generation is
// forgotten, so what many guess at stays, whatever flood of names goes by.
const (
	busySpan = 10 * 60 * keys.Second
	busyKept = 4096
)

// Load is what was seen of a network or an account.
type Load struct {
	Asked     uint64 `json:"asked"`     // attempts that were asked for more, or denied
	Failures  uint64 `json:"failures"`  // guesses that were wrong
	Successes uint64 `json:"successes"` // sign-ins
}

func (l *Load) weight() uint64 { return l.Asked + l.Failures }

func (l *Load) add(o Load) {
	l.Asked += o.Asked
	l.Failures += o.Failures
	l.Successes += o.Successes
}

// busy finds the keys with the most load of late. Not safe for concurrent use.
type busy[K cmp.Ordered] struct {
	young, old map[K]Load
	began      int64
}

// add counts l of key. What is no load makes no place for a key.
func (b *busy[K]) add(at int64, key K, l Load) {
	b.turn(at)
	was, known := b.young[key]
	if _, older := b.old[key]; !known && !older && l.weight() == 0 {
		return
	}
	if !known && len(b.young) >= busyKept {
		b.prune()
	}
	was.add(l)
	b.young[key] = was
}

func (b *busy[K]) turn(at int64) {
	switch past := at - b.began; {
	case past >= 2*busySpan || b.young == nil:
		b.young, b.old, b.began = map[K]Load{}, nil, at
	case past >= busySpan:
		b.young, b.old, b.began = map[K]Load{}, b.young, b.began+busySpan
	}
}

func (b *busy[K]) prune() {
	weights := make([]uint64, 0, len(b.young))
	for _, l := range b.young {
		weights = append(weights, l.weight())
	}
	slices.Sort(weights)
	median := weights[len(weights)/2]
	for k, l := range b.young {
		if l.weight() < median {
			delete(b.young, k)
		}
	}
	for k, l := range b.young { // as many as are needed of those that are alike
		if len(b.young) <= busyKept/2 {
			return
		}
		if l.weight() == median {
			delete(b.young, k)
		}
	}
}

// busiest is one of the top.
type busiest[K cmp.Ordered] struct {
	key K
	Load
}

// top returns the n with the most load, and since when it is counted.
func (b *busy[K]) top(at int64, n int) (list []busiest[K], since int64) {
	b.turn(at)
	since = b.began
	if b.old != nil {
		since -= busySpan
	}
	all := make(map[K]Load, len(b.young)+len(b.old))
	for _, m := range []map[K]Load{b.old, b.young} {
		for k, l := range m {
			was := all[k]
			was.add(l)
			all[k] = was
		}
	}
	for k, l := range all {
		if l.weight() > 0 {
			list = append(list, busiest[K]{k, l})
		}
	}
	slices.SortFunc(list, func(a, b busiest[K]) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(a.key, b.key))
	})
	return list[:min(n, len(list))], since
}
