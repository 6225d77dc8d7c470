package soc

import (
	"time"

	"github.com/guardd/guardd/aggregate"
)

// handler reads one partition for an outlet.
type handler struct {
	o      *Outlet
	events bool
	// The rest is under the outlet's lock.
	next  int64
	waits []waiting        // what came and was not taken yet, by offset
	open  map[string]int64 // last message of each campaign that a Keeper is told of; nil: of none
}

// waiting is a message whose record waits.
type waiting struct {
	offset int64
	item   *item
}

// Handle is Handler's.
func (h *handler) Handle(m aggregate.Message) error {
	if h.events {
		return h.event(m)
	}
	f, err := DecodeFinding(m.Value)
	if err != nil {
		return err
	}
	o := h.o
	if err := o.roomy(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	key := keyOf(f)
	if r := o.tracker.Take(f, time.Now()); r != nil {
		o.name(r)
		h.wait(m.Offset, o.put(r, key))
	} else {
		// It comes again, or says no more: what it said may still wait.
		h.wait(m.Offset, o.pending[key])
	}
	if _, ok := o.c.Sink.(Keeper); ok {
		if f.State == "open" && o.tracker.tells(key) {
			h.open[key] = m.Offset
		} else {
			delete(h.open, key)
		}
	}
	h.next = m.Offset + 1
	return nil
}

func (h *handler) event(m aggregate.Message) error {
	e := &aggregate.Event{}
	if err := e.Decode(m.Value); err != nil {
		return err
	}
	o, r := h.o, OfEvent(e)
	passes := o.c.Filter.passes(r)
	if passes {
		if err := o.roomy(); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !passes:
	case o.ids.fresh(r.ID):
		o.name(r)
		h.wait(m.Offset, o.put(r, r.ID))
	default:
		h.wait(m.Offset, o.pending[r.ID])
	}
	h.next = m.Offset + 1
	return nil
}

// name opens the names of accounts, for realms that want them told. What is sealed is
// of no use to whoever is told.
func (o *Outlet) name(r *Record) {
	var sealed map[string]string
	if r.Finding != nil {
		sealed, r.Finding.Names = r.Finding.Names, nil
	} else if r.Event.Name != "" {
		sealed, r.Event.Name = map[string]string{r.Event.Account: r.Event.Name}, ""
	}
	for hash, s := range sealed {
		if o.c.Name == nil {
			break
		}
		if n := o.c.Name(r.Realm, hash, s); n != "" {
			if r.Names == nil {
				r.Names = map[string]string{}
			}
			r.Names[hash] = n
		}
	}
}

func (h *handler) wait(offset int64, i *item) {
	if i != nil && !i.done {
		h.waits = append(h.waits, waiting{offset, i})
	}
}

// Behind is Handler's: what was not taken yet is needed, and of a campaign that a
// Keeper has to be told of again its last message.
func (h *handler) Behind() int64 {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	n := 0
	for n < len(h.waits) && h.waits[n].item.done {
		n++
	}
	h.waits = h.waits[n:]
	at := h.next
	if len(h.waits) > 0 {
		at = min(at, h.waits[0].offset)
	}
	for _, offset := range h.open {
		at = min(at, offset)
	}
	return at
}

// Close is Handler's. What waits is delivered all the same, and perhaps by whoever has
// the partition next, too.
func (h *handler) Close() {}
