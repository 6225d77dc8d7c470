package redisstore

import (
	"context"

	"github.com/guardd/guardd/keys"
)

var (
	acquireScript = newScript("bucket", "acquire")
	releaseScript = newScript("bucket", "release")
)

var _ keys.Slots = (*Store)(nil)

// Acquire implements keys.Slots.
func (s *Store) Acquire(ctx context.Context, a *keys.SlotAsk, ans *keys.SlotAnswer) error {
	if err := a.Validate(); err != nil {
		return err
	}
	var sets call
	for i := range a.Keys {
		sets.number(a.Caps[i], a.Lives[i], a.TTL)
	}
	r, now, err := s.ask(ctx, acquireScript, "acquire", a.Now, a.Deadline, a.Keys[0], func(until int64) call {
		c := call{keys: a.Keys}
		c.number(a.Now, until)
		return c
	}, a.ID[:], sets.head)
	if err != nil {
		return err
	}
	*ans = keys.SlotAnswer{Now: now, Allowed: r.from(0, 1) == 1, Renewed: r.from(0, 1) == 1, InUse: ans.InUse[:0], Caps: append(ans.Caps[:0], a.Caps...)}
	for range a.Keys {
		ans.InUse = append(ans.InUse, r.number())
	}
	if ans.Allowed {
		ans.Expires = a.Expires(now)
	}
	return wrap("acquire", r.end())
}

// Release implements keys.Slots.
func (s *Store) Release(ctx context.Context, q *keys.SlotReturn) (released, degraded bool, err error) {
	if err := q.Validate(); err != nil {
		return false, false, err
	}
	r, _, err := s.ask(ctx, releaseScript, "release", q.Now, q.Deadline, q.Keys[0], func(until int64) call {
		c := call{keys: q.Keys}
		c.number(q.Now, until)
		return c
	}, q.ID[:])
	if err != nil {
		return false, false, err
	}
	released = r.from(0, 1) == 1
	return released, false, wrap("release", r.end())
}
