package aggregate

import (
	"sync"

	"github.com/guardd/guardd/escalation"
)

// record is one event as it was emitted: what it points to must not be changed
// any more, and is made an event later, by who has the time.
type record struct {
	v      *escalation.Verdict
	r      *escalation.Recorded
	n, seq uint64 // over all realms, and in its own
}

// ring takes records from many goroutines and gives them to one. It never
// blocks and allocates nothing: when it is full, the newest is dropped, and
// missing in the count.
type ring struct {
	mu      sync.Mutex
	records []record // has room for all
	spare   []record
	n       uint64
	realms  map[string]*counted
	mark    func(realm string, slot int, seq uint64)
	dropped uint64
	closed  bool
	wake    chan struct{} // holds one while there are records
}

// counted is how many events of a realm there were.
type counted struct {
	seq  uint64
	slot int
}

func newRing(size int, mark func(realm string, slot int, seq uint64)) *ring {
	return &ring{records: make([]record, 0, size), spare: make([]record, 0, size),
		realms: map[string]*counted{}, mark: mark, wake: make(chan struct{}, 1)}
}

func (g *ring) push(realm string, r record) {
	g.mu.Lock()
	if g.closed {
		g.n++
		g.dropped++
		g.mu.Unlock()
		return
	}
	c := g.realms[realm]
	if c == nil {
		c = &counted{slot: len(g.realms)}
		g.realms[realm] = c
	}
	g.n++
	c.seq++
	r.n, r.seq = g.n, c.seq
	g.mark(realm, c.slot, c.seq)
	first := false
	if len(g.records) == cap(g.records) {
		g.dropped++
	} else {
		g.records = append(g.records, r)
		first = len(g.records) == 1
	}
	g.mu.Unlock()
	if first {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// take returns all records; they are good until the next take.
func (g *ring) take() []record {
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.records
	g.records, g.spare = g.spare[:0], full
	return full
}

// close refuses what comes from now on, and returns the realms' counts.
func (g *ring) close() map[string]uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	counts := map[string]uint64{}
	for realm, c := range g.realms {
		counts[realm] = c.seq
	}
	return counts
}

func (g *ring) stats() (emitted, dropped uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n, g.dropped
}
