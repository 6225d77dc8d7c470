package keys

import (
	"context"
	"slices"
)

// This file is what operators' changes reach in one instance. They are made in
// the shared store, by whoever was asked; each instance then does here what the
// shared store cannot do for it.

// Learn takes over a record of the shared store into the twin, so that an outage
// knows it.
func (f *Fallback) Learn(ctx context.Context, key string, value []byte, ttl int64) error {
	return f.c.Local.Put(ctx, key, value, ttl)
}

// ClearHere takes buckets away from what this instance holds: its twin, and what
// it still owes the shared store for them.
func (f *Fallback) ClearHere(ctx context.Context, buckets []string) error {
	if f.debts != nil {
		f.debts.clear(buckets)
	}
	_, err := f.c.Local.Clear(ctx, buckets)
	return err
}

// clear forgets what the buckets owe, also where that has been sent and not
// answered.
func (d *debts) clear(buckets []string) {
	if !d.any() {
		return
	}
	gone := make(map[string]bool, len(buckets))
	for _, key := range buckets {
		gone[key] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.count()
	for key := range gone {
		delete(d.owed, key)
	}
	d.sent = slices.DeleteFunc(d.sent, func(c *charge) bool {
		next, left := 0, false
		for t, key := range c.Keys {
			for range c.Rules.tiers[t].Limits {
				if gone[key] {
					c.Tokens[next] = 0
				}
				left = left || c.Tokens[next] > 0
				next++
			}
		}
		if !left {
			d.heard(c)
		}
		return !left
	})
}
