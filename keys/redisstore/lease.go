package redisstore

import (
	"context"

	"github.com/guardd/guardd/keys"
)

var (
	leaseScript             = newScript("bucket", "lease", "settle", "grant", "store", "leased")
	_           keys.Leaser = (*Store)(nil)
)

// Lease implements keys.Leaser.
func (s *Store) Lease(ctx context.Context, a *keys.LeaseAsk, out *keys.Leased) error {
	if err := a.Validate(); err != nil {
		return err
	}
	format, rules, err := whole(a.Rules)
	if err != nil {
		return err
	}
	r, now, err := s.ask(ctx, leaseScript, "lease", a.Now, a.Deadline, a.Key, func(until int64) call {
		c := call{keys: []string{a.Key}}
		c.number(a.Now, until, a.Need, a.Want)
		return c
	}, rules, format)
	if err != nil {
		return err
	}
	*out = keys.Leased{Now: now, Tokens: r.number(), Limit: a.Rules.Tiers()[0].Limits[0].Limit, Left: r.number()}
	r.bad = r.bad || out.Tokens > a.Want || out.Tokens > 0 && out.Tokens < a.Need
	return wrap("lease", r.end())
}
