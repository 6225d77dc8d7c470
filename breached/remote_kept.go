package breached

import (
	"container/list"
	"sync"
)

type rangeKey struct {
	kind   Kind
	prefix string // upper case
}

// keptRanges are the ranges that were asked for last, at most so many. It is
// safe for concurrent use; what it holds is never changed.
type keptRanges struct {
	most int

	mu    sync.Mutex
	order list.List // of *keptEntry, the last used first
	at    map[rangeKey]*list.Element
}

type keptEntry struct {
	key rangeKey
	*keptRange
}

// get returns what is kept, fresh or not, or nil.
func (k *keptRanges) get(key rangeKey) *keptRange {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.at[key]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*keptEntry).keptRange
}

func (k *keptRanges) put(key rangeKey, r *keptRange) {
	if k.most == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.at[key]; e != nil {
		e.Value.(*keptEntry).keptRange = r
		k.order.MoveToFront(e)
		return
	}
	if k.at == nil {
		k.at = map[rangeKey]*list.Element{}
	}
	k.at[key] = k.order.PushFront(&keptEntry{key, r})
	if k.order.Len() > k.most {
		last := k.order.Back()
		k.order.Remove(last)
		delete(k.at, last.Value.(*keptEntry).key)
	}
}
