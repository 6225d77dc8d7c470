package keys

import (
	"context"
	"errors"
)

var _ Slots = (*Fallback)(nil)

// This file lets slots outlast the shared store. While that is gone each instance
// gives its share of a cap, cap / instances and at least 1, less the places that
// it has given already: the twin knows them, as each that is acquired is occupied
// there, too. So over an outage there are at most max(cap, instances) places more
// than were held when it began. They end as others do: what is renewed when the
// store is back is acquired there, as far as it has room.

// Acquire implements Slots.
func (f *Fallback) Acquire(ctx context.Context, a *SlotAsk, ans *SlotAnswer) error {
	if err := a.Validate(); err != nil {
		return err
	}
	slots, ok := f.c.Primary.(Slots)
	if !ok {
		return ErrNoStore
	}
	at := f.at(a.Keys[0])
	err := f.through(ctx, at, func() error { return slots.Acquire(ctx, a, ans) })
	switch {
	case err == nil:
		if a.Now == 0 {
			f.learn(ans.Now)
		}
		f.mirrorSlot(a, ans)
		return nil
	case errors.Is(err, ErrAsk):
		return err
	}
	f.failed("acquire", err)
	local := *a
	local.Deadline, local.Now = 0, f.now(a.Now)
	local.Caps = make([]int64, len(a.Caps))
	for i := range a.Caps {
		local.Caps[i] = max(a.Caps[i]/f.instances(), 1)
	}
	who := byCap
	if a.GoneClosed {
		who = nobody
	}
	err = f.c.Local.acquire(&local, ans, who)
	ans.Degraded, ans.NextProbe = true, f.nextProbe(at)
	return err
}

// mirrorSlot has the twin know what this instance has been given.
func (f *Fallback) mirrorSlot(a *SlotAsk, ans *SlotAnswer) {
	if !ans.Allowed {
		return
	}
	here := *a
	here.Deadline, here.Now = 0, ans.Now
	var kept SlotAnswer
	_ = f.c.Local.acquire(&here, &kept, anyway) // without room it is not known, and the share a place larger
}

// Release implements Slots. What cannot be freed in the shared store expires
// there.
func (f *Fallback) Release(ctx context.Context, r *SlotReturn) (released, degraded bool, err error) {
	if err := r.Validate(); err != nil {
		return false, false, err
	}
	slots, ok := f.c.Primary.(Slots)
	if !ok {
		return false, false, ErrNoStore
	}
	here := *r
	here.Deadline, here.Now = 0, f.now(r.Now)
	mine, _, lerr := f.c.Local.Release(ctx, &here)
	err = f.through(ctx, f.at(r.Keys[0]), func() error {
		var err error
		released, _, err = slots.Release(ctx, r)
		return err
	})
	switch {
	case err == nil:
		return released || mine, false, nil // given here while it was gone, or lost there
	case errors.Is(err, ErrAsk):
		return false, false, err
	}
	f.failed("release", err)
	return mine, true, lerr
}
