package keys

import (
	"context"
	"fmt"
)

// Slots holds places of which a key has so many at once: each is occupied until
// it is released, or until it expires because nobody has renewed it. So whoever
// is killed with a place keeps it no longer than its life. A set that holds
// nothing has all places free, and no more: how many there are comes with each
// ask, so that a store that has lost everything never reads as unlimited.
//
// Both verbs are atomic, over all sets of a call. An error means that nobody
// knows whether it happened; both can be repeated. Implementations are safe for
// concurrent use.
type Slots interface {
	// Acquire occupies a place in every set, or in none. Whoever has a place in all
	// of them under that ID renews it instead, whatever the caps are by then.
	Acquire(ctx context.Context, a *SlotAsk, ans *SlotAnswer) error
	// Release frees the places of an ID, and reports whether there was any. degraded
	// says that it was freed at this instance alone.
	Release(ctx context.Context, r *SlotReturn) (released, degraded bool, err error)
}

// Bounds of an ask for slots.
const (
	MaxSlotSets       = MaxTiers           // sets in one ask
	MaxSlotCap  int64 = 100_000            // places of one set
	MaxSlotLife       = 24 * 3600 * Second // of a place
)

// SlotAsk asks for a place in each set of Keys, all in one slot of a Redis
// Cluster.
type SlotAsk struct {
	// Now is the time in microseconds; 0 means the store's own clock. Deadline as
	// in an Ask.
	Now, Deadline int64
	Keys          []string
	// Caps is how many places each set has.
	Caps []int64
	// Lives is how long a place of each set lives at most, in microseconds. One that
	// would outlive that, because a clock has stepped back, is cut to it.
	Lives []int64
	// TTL is how long this one is to live unless it is renewed; at most each life.
	TTL int64
	// ID is whose place it is: fresh random bytes, or the same again to renew it.
	ID [16]byte
	// GoneClosed has a Fallback refuse while the shared store is gone, but for
	// renewals.
	GoneClosed bool
}

// SlotAnswer is what an Acquire decided.
type SlotAnswer struct {
	Now     int64
	Allowed bool
	// Renewed: the ID had its places already.
	Renewed bool
	// InUse is how many places of each set are occupied, after the answer. It is
	// above the cap only where that was lowered.
	InUse []int64
	// Caps is how many there are: an instance's share when Degraded.
	Caps []int64
	// Expires is when the place falls free unless it is renewed; 0 unless Allowed.
	Expires int64
	// Degraded, NextProbe: as in an Answer.
	Degraded  bool
	NextProbe int64
}

// SlotReturn frees places.
type SlotReturn struct {
	Now, Deadline int64
	Keys          []string
	ID            [16]byte
}

// Validate refuses what no store should be asked. Every Slots calls it first.
func (a *SlotAsk) Validate() error {
	if err := validSets(a.Keys, a.Now, a.ID); err != nil {
		return err
	}
	if len(a.Caps) != len(a.Keys) || len(a.Lives) != len(a.Keys) {
		return badAsk("a cap and a life are needed for each set of slots")
	}
	for i := range a.Keys {
		switch {
		case a.Caps[i] < 1 || a.Caps[i] > MaxSlotCap:
			return badAsk(fmt.Sprintf("a cap must be from 1 to %d slots", MaxSlotCap))
		case a.Lives[i] < 1 || a.Lives[i] > MaxSlotLife:
			return badAsk(fmt.Sprintf("a slot's life must be from 1 to %d microseconds", MaxSlotLife))
		}
	}
	if a.TTL < 1 {
		return badAsk("a slot needs a time to live")
	}
	return nil
}

// Validate is that of SlotAsk.
func (r *SlotReturn) Validate() error { return validSets(r.Keys, r.Now, r.ID) }

func validSets(sets []string, now int64, id [16]byte) error {
	switch {
	case len(sets) == 0 || len(sets) > MaxSlotSets:
		return badAsk(fmt.Sprintf("between 1 and %d sets of slots are needed", MaxSlotSets))
	case now < 0 || now > MaxExact/2:
		return badAsk("the time is out of range")
	case id == [16]byte{}:
		return badAsk("a slot needs an identity")
	}
	for i, key := range sets {
		if key == "" {
			return badAsk("a set of slots needs a key")
		}
		for _, earlier := range sets[:i] {
			if key == earlier {
				return badAsk("a set of slots is named twice")
			}
		}
	}
	return nil
}

// begin empties ans for an answer to a.
func (ans *SlotAnswer) begin(a *SlotAsk, now int64) {
	*ans = SlotAnswer{Now: now, InUse: ans.InUse[:0], Caps: append(ans.Caps[:0], a.Caps...)}
}

// Expires is when what was occupied at now falls free: in the set whose places
// live shortest, when it is there no more in all of them.
func (a *SlotAsk) Expires(now int64) int64 {
	ttl := a.TTL
	for _, life := range a.Lives {
		ttl = min(ttl, life)
	}
	return now + ttl
}
