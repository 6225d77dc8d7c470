package limits

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// hold has the request hold its slots until free is called. It returns a nil free
// where it has answered, and a nil held where no rule of slots decided.
func (o *Options) hold(w http.ResponseWriter, r *http.Request, key, route string) (held *plans.SlotDecision, free func()) {
	if len(o.Slots) == 0 && (len(o.Rules) > 0 || !o.Taker.HoldsSlots()) {
		return nil, func() {}
	}
	d, err := o.Taker.Acquire(r.Context(), &plans.SlotRequest{Key: key, Rules: o.Slots, Route: route})
	switch {
	case err != nil && o.unknown(w, r, err):
		return nil, nil
	case err != nil:
		return nil, func() {}
	case !d.Allowed:
		SetHeaders(w.Header(), SlotHeaders(d))
		SlotRefusal(d).Write(w)
		return nil, nil
	case d.Slot == "":
		return nil, func() {}
	}
	SetHeaders(w.Header(), SlotHeaders(d))
	return d, o.keep(r, d)
}

// keep renews a slot, so that it is released by whoever holds it or, if that one
// is killed, by time. Two renewals may fail before it expires.
func (o *Options) keep(r *http.Request, d *plans.SlotDecision) (free func()) {
	// Who hangs up must not stop it: the handler may go on.
	k := &keeper{o: o, r: r, ctx: context.WithoutCancel(r.Context()), slot: d.Slot, every: d.TTL / 3}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop = o.After(k.every, k.renew)
	return k.free
}

// keeper renews one slot. It is safe for concurrent use.
type keeper struct {
	o     *Options
	r     *http.Request
	ctx   context.Context
	slot  string
	every time.Duration

	mu   sync.Mutex
	done bool
	stop func()
}

// renew holds the lock over its call: a slot that is renewed after it was
// released would be held by nobody.
func (k *keeper) renew() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.done {
		return
	}
	switch d, err := k.o.Taker.Renew(k.ctx, k.slot, &plans.SlotRequest{}); {
	case err != nil:
		k.o.OnError(k.r, err)
	case !d.Allowed:
		k.o.OnError(k.r, ErrSlotLost)
	}
	k.stop = k.o.After(k.every, k.renew)
}

func (k *keeper) free() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = true
	k.stop()
	if _, err := k.o.Taker.Release(k.ctx, k.slot); err != nil {
		k.o.OnError(k.r, err)
	}
}
