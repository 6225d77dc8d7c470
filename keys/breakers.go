package keys

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Parted is a store of parts that fail one by one, like the nodes of a Cluster.
type Parted interface {
	// Part names the part that key lives on; "" where nobody knows. It asks
	// nobody and waits for nobody. It is safe for concurrent use.
	Part(key string) string
}

// BreakersConfig makes Breakers.
type BreakersConfig struct {
	// Each is every part's, but for Flipped.
	Each BreakerConfig
	// Store says what parts there are; nil: it is all one, named "".
	Store Parted
	// Flipped is told when one opens and closes. nil: nobody is. It must not
	// block.
	Flipped func(part string, open bool)
}

// Breakers stand before a store, one before each of its parts: a node that is
// gone must not have what the others count decided without them, nor the others'
// answers close the breaker before it. Parts are known by the keys that are asked
// for. They are safe for concurrent use.
type Breakers struct {
	c     BreakersConfig
	parts atomic.Pointer[map[string]*part]

	mu   sync.Mutex   // of who replaces parts
	gone BreakerStats // what those did that there are no more
}

// part is one part of a store, and a key that lived there when it was first seen.
type part struct {
	*Breaker
	name, key string
}

// NewBreakers returns closed Breakers.
func NewBreakers(c BreakersConfig) *Breakers {
	b := &Breakers{c: c}
	b.parts.Store(&map[string]*part{})
	return b
}

// At is the Breaker before what key lives on.
func (b *Breakers) At(key string) *Breaker {
	name := b.where(key)
	if p := (*b.parts.Load())[name]; p != nil {
		return p.Breaker
	}
	return b.add(name, key)
}

func (b *Breakers) where(key string) string {
	if b.c.Store == nil {
		return ""
	}
	return b.c.Store.Part(key)
}

// add makes the breaker of a part. It begins open where it may be the heir of an
// open one, after a failover, or when a Cluster is found that was gone at the
// start: what the fleet owes there comes back first, as always.
func (b *Breakers) add(name, key string) *Breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := *b.parts.Load()
	if p := parts[name]; p != nil {
		return p.Breaker
	}
	c := b.c.Each
	c.Flipped = nil
	if b.c.Flipped != nil {
		c.Flipped = func(open bool) { b.c.Flipped(name, open) }
	}
	p := &part{NewBreaker(c), name, key}
	for _, other := range parts {
		if b.left(other) && other.Open() {
			p.epoch.Store(1)
			break
		}
	}
	parts = maps.Clone(parts)
	parts[name] = p
	b.parts.Store(&parts)
	return p.Breaker
}

// left reports whether the key that a part was known by lives elsewhere by now.
func (b *Breakers) left(p *part) bool { return b.where(p.key) != p.name }

// ailing are the parts but key's that have failed since they last worked, and so
// need to be probed. One that has left, and has no heir to open, is forgotten: its
// node may be gone for good.
func (b *Breakers) ailing(key string) (ill []*part) {
	main := b.At(key)
	for _, p := range *b.parts.Load() {
		switch {
		case p.Breaker == main:
		case !p.Open() && b.left(p):
			b.forget(p)
		case p.Open() || p.Failing():
			ill = append(ill, p)
		}
	}
	return ill
}

func (b *Breakers) forget(p *part) {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := maps.Clone(*b.parts.Load())
	delete(parts, p.name)
	b.gone.add(p.Stats())
	b.parts.Store(&parts)
}

// Open reports whether calls to some part are held back.
func (b *Breakers) Open() bool {
	for _, p := range *b.parts.Load() {
		if p.Open() {
			return true
		}
	}
	return false
}

// PartStats is what the Breaker before one part has done so far.
type PartStats struct {
	Part string
	BreakerStats
	Failing bool
	Next    int64 // Breaker.Next
}

// Stats counts at now: all parts together, those that there are no more too, and
// one by one.
func (b *Breakers) Stats(now int64) (all BreakerStats, each []PartStats) {
	b.mu.Lock()
	all = b.gone
	parts := *b.parts.Load()
	b.mu.Unlock()
	for _, p := range parts {
		s := p.Stats()
		all.add(s)
		each = append(each, PartStats{p.name, s, p.Failing(), p.Next(now)})
	}
	return all, each
}

func (s *BreakerStats) add(o BreakerStats) {
	s.Open = s.Open || o.Open
	s.Opened += o.Opened
	s.Probes += o.Probes
	s.ProbesFailed += o.ProbesFailed
	s.Skipped += o.Skipped
}

// LiveKey is where an instance's heartbeats count; BeatKey is where it beats only to
// see whether what key lives on works.
const LiveKey = "gd:{fleet}:live"

// BeatKey is in the slot of key.
func BeatKey(key string) string {
	prefix, _, _ := strings.Cut(key, "}:")
	return prefix + "}:beat"
}
