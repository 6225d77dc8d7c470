package keystest

import (
	"context"

	"github.com/guardd/guardd/keys"
)

// Acquire implements keys.Slots where the Subject does.
func (f *Faulty) Acquire(ctx context.Context, a *keys.SlotAsk, ans *keys.SlotAnswer) error {
	slots, ok := f.subject().(keys.Slots)
	if !ok {
		return keys.ErrNoStore
	}
	var got keys.SlotAnswer
	err := f.call(func() error { return slots.Acquire(ctx, a, &got) }, tooLate)
	if err == nil {
		*ans = got
	}
	return err
}

// Release implements keys.Slots where the Subject does.
func (f *Faulty) Release(ctx context.Context, r *keys.SlotReturn) (released, degraded bool, err error) {
	slots, ok := f.subject().(keys.Slots)
	if !ok {
		return false, false, keys.ErrNoStore
	}
	err = f.call(func() (err error) { released, degraded, err = slots.Release(ctx, r); return err }, tooLate)
	return released && err == nil, degraded, err
}
