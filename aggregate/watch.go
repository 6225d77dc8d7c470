package aggregate

import (
	"github.com/guardd/guardd/aggregate/detect"
	"github.com/guardd/guardd/keys"
)

// Watch looks for attacks on one realm. It is told everything in one goroutine,
// by the time of the events: it needs no clock, no bus and no store, and told the
// same again after a restart it comes to the same.
type Watch interface {
	// See is told of every login that was classed, before it is counted in a bin
	// (one that comes late is in none). It may set what only it knows (NewNetwork,
	// NewAccount), and must not keep s.
	See(s *detect.Sight)
	// Bin is told of every bin when it is complete, in order. Where one is missing
	// nothing is known of that time. After a restart the first ones may be older
	// than what State was of.
	Bin(b *detect.Bin) Act
	// Status is what it sees, as it is after the last bin.
	Status() WatchStatus
	// Open are the campaigns that go on, the latest sign first, at most so many.
	Open(most int) []Finding
	// State is all that a successor needs, as a document (keys.MaxDocument).
	State() []byte
}

// Rememberer is a Watch that remembers more than fits its State, in parts that are
// documents of their own: each is written less often, and only when it has changed.
type Rememberer interface {
	Watch
	// Parts is how many there are, Part is one of them, from 0 on.
	Parts() int
	Part(i int) []byte
	// Recall takes up a predecessor's part, before anything is seen. The error says
	// what is wrong with it; then it is as if there were none.
	Recall(i int, part []byte) error
}

// Act is what a Watch has the aggregator do.
type Act struct {
	// Control is what is to be set of the realm; nil leaves it as it is. Its Epoch
	// is the end of the bin. It lapses unless it is set again.
	Control *keys.Control
	// Findings are published, one message each.
	Findings [][]byte
}
