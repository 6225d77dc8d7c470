package aggregate

import (
	"context"
	"fmt"

	"github.com/guardd/guardd/escalation"
)

// Inline is an Aggregator's reader without a bus and without goroutines: what is
// told it counts at once, and what was learned is written by Flush. For
// simulations, whose time is their own. Not safe for concurrent use.
type Inline struct {
	r     *reader
	event Event
	seq   uint64
}

// Inline returns such a reader; Bus is not needed then.
func (a *Aggregator) Inline() *Inline {
	i := &Inline{r: &reader{a: a, realms: map[string]*realm{}, wake: make(chan struct{})}}
	i.r.behind.Store(-1)
	return i
}

// Attempt reads an attempt's event.
func (i *Inline) Attempt(v *escalation.Verdict) error {
	i.event = Event{}
	i.event.ofAttempt(v)
	return i.take()
}

// Outcome reads an outcome's event.
func (i *Inline) Outcome(r *escalation.Recorded) error {
	i.event = Event{}
	i.event.ofOutcome(r)
	return i.take()
}

func (i *Inline) take() error {
	i.seq++
	e := &i.event
	e.V, e.Instance, e.Seq, e.ID = Version, "inline", i.seq, fmt.Sprint("inline-", i.seq)
	x := i.r.realms[e.Realm]
	if x == nil {
		if _, ok := i.r.a.c.Shards(e.Realm); !ok {
			return nil
		}
		var err error
		if x, err = i.r.begin(e.Realm, true); err != nil {
			return err
		}
		i.r.realms[e.Realm] = x
	}
	x.take(e, nil, i.r.a.now(), false)
	return nil
}

// Flush writes what was learned since.
func (i *Inline) Flush(ctx context.Context) { i.r.flush(ctx, 0, false) }
