package redisstore

import (
	"context"

	"github.com/guardd/guardd/keys"
)

var (
	chargeScript              = newScript("bucket", "charge", "settle", "owe", "store", "charged")
	_            keys.Charger = (*Store)(nil)
)

// Charge implements keys.Charger.
func (s *Store) Charge(ctx context.Context, c *keys.Charge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	format, rules, err := whole(c.Rules)
	if err != nil {
		return err
	}
	var owed call
	owed.number(c.Tokens...)
	r, _, err := s.ask(ctx, chargeScript, "charge", c.Now, 0, c.Keys[0], func(until int64) call {
		k := call{keys: make([]string, 0, len(c.Keys)+4)}
		k.number(c.Now, until)
		k.key(c.StateKey, c.KKeys[0], c.KKeys[1], c.MarkKey)
		k.small(uint8(len(k.keys) + 1))
		k.keys = append(k.keys, c.Keys...)
		return k
	}, rules, format, owed.head)
	if err != nil {
		return err
	}
	r.from(0, 1)
	return wrap("charge", r.end())
}
