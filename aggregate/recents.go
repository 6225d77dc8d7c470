package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/keys"
)

// Query selects events: those of which every field that is given holds. Without
// any, all.
type Query struct {
	ID      string // of the event
	Attempt string // hash of the attempt: it and its outcome
	Account string // keyed hash
	IP      string // canonical address
	Network string // its /24 or /48
	Device  string // hash
	// Most is how many events are returned at most; 0 is 100.
	Most int
}

func (q *Query) holds(e *Event) bool {
	for _, c := range [...]struct{ want, is string }{
		{q.ID, e.ID}, {q.Attempt, e.Attempt}, {q.Account, e.Account}, {q.IP, e.IP}, {q.Network, e.Network}, {q.Device, e.Device},
	} {
		if c.want != "" && c.want != c.is {
			return false
		}
	}
	return true
}

// RecentsConfig makes Recents.
type RecentsConfig struct {
	Streams keys.Streams
	// Keep is how many events of a realm are kept; 0 is 100,000, some 70 MB.
	Keep int
	// For is how long; 0 is 7 days.
	For time.Duration
	// Now is the store's time; nil is the machine's.
	Now func() time.Time
}

// Recents are the events of late of each realm, so that whoever asks why a
// customer was asked yesterday is told. They are safe for concurrent use, and all
// instances on one store have the same.
type Recents struct{ c RecentsConfig }

// NewRecents returns the Recents in a store.
func NewRecents(c RecentsConfig) *Recents {
	if c.Keep <= 0 {
		c.Keep = 100_000
	}
	if c.For <= 0 {
		c.For = 7 * 24 * time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Recents{c}
}

// Add keeps events of one realm. After an error some may be kept: they can be
// added again, Find returns each once.
func (r *Recents) Add(ctx context.Context, realm string, events []Event) error {
	values := make([][]byte, len(events))
	for i := range events {
		var err error
		if values[i], err = events[i].AppendTo(nil); err != nil {
			return fmt.Errorf("event %s: %w", events[i].ID, err)
		}
	}
	return r.add(ctx, realm, values)
}

// add is Add of events as they travel. It writes a part at a time, because a store
// does nothing else meanwhile.
func (r *Recents) add(ctx context.Context, realm string, values [][]byte) error {
	for len(values) > 0 {
		n, bytes := 0, 0
		for n < min(len(values), recentsPart) && (n == 0 || bytes+len(values[n]) <= recentsBytes) {
			bytes += len(values[n])
			n++
		}
		if err := r.c.Streams.Append(ctx, keys.Recents(realm), values[:n], r.c.Keep, r.c.For.Microseconds()); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// How much one call to the store writes or reads: a fraction of a millisecond.
const (
	recentsPart  = 64
	recentsBytes = 128 << 10
	recentsPage  = 200
)

// Find returns the events that q selects, in the order in which they were added,
// the last first. It reads no further than it has to; for what is not there that
// is all of them, a page at a time.
func (r *Recents) Find(ctx context.Context, realm string, q Query) (found []Event, err error) {
	if q.Most <= 0 {
		q.Most = 100
	}
	oldest, seen := r.c.Now().Add(-r.c.For), map[string]bool{}
	for before := ""; ; {
		values, next, err := r.c.Streams.Page(ctx, keys.Recents(realm), before, recentsPage)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			var e Event
			// What cannot be read is of a newer version, during an upgrade.
			if e.Decode(v) != nil || !q.holds(&e) || seen[e.ID] || e.Time.Before(oldest) {
				continue
			}
			seen[e.ID] = true
			if found = append(found, e); len(found) == q.Most {
				return found, nil
			}
		}
		if before = next; before == "" {
			return found, nil
		}
	}
}
