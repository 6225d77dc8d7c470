package redisstore

import (
	"context"

	"github.com/guardd/guardd/keys"
)

var (
	amendScript              = newScript("bucket", "amend", "settle", "adjust", "store", "amended")
	_           keys.Settler = (*Store)(nil)
)

// Settle implements keys.Settler.
func (s *Store) Settle(ctx context.Context, a *keys.Settlement, out *keys.Settled) error {
	if err := a.Validate(); err != nil {
		return err
	}
	format, rules, err := whole(a.Rules)
	if err != nil {
		return err
	}
	var took call
	for i, t := range a.Took {
		took.number(t.Tokens, a.Costs[i], t.In.Capacity, t.In.Count, t.In.Period)
	}
	r, now, err := s.ask(ctx, amendScript, "settle", a.Now, a.Deadline, a.Keys[0], func(until int64) call {
		c := call{keys: append([]string{a.MarkKey}, a.Keys...)}
		c.number(a.Now, until, a.Stamp, a.Expires, int64(flag(a.Whole)))
		return c
	}, rules, format, took.head)
	if err != nil {
		return err
	}
	*out = keys.Settled{Now: now, Expired: r.small() == 1, Duplicate: r.small() == 1, Limits: out.Limits[:0]}
	tiers := a.Rules.Tiers()
	for t := range tiers {
		r.small()
		out.Limits = append(out.Limits, keys.LimitAnswer{Tier: t, Looked: true, Limit: tiers[t].Limits[0].Limit, Left: r.number()})
	}
	return wrap("settle", r.end())
}
