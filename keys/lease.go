package keys

import "context"

// This file is how an instance takes tokens of a busy bucket in advance: one
// call of the shared store for many requests. What is leased is charged when it
// is leased, so whoever holds it can spend it without asking, and whatever
// becomes of him nobody else gets it: a crash loses at most what he held. In
// any interval a bucket lets through, beyond capacity and refill, at most what
// was held at its beginning.
//
// A lease ends at its holder a while after it was asked for, and so before the
// store thinks so. What is unspent is returned by a Settlement under the lease's
// own mark: once, before it ends, and to the bucket that it came from or to none.
// That is the fence: a holder that was stopped for a while, or a store that has
// lost what it granted, cannot put tokens back that are not there.

// LeaseAsk asks for tokens of one bucket in advance.
type LeaseAsk struct {
	Now, Deadline int64 // as in an Ask
	// Rules are of one tier of one plain limit, which Key is the bucket of.
	Rules *Rules
	Key   string
	// Need is how many tokens are of use at all: fewer are not granted. Want is how
	// many are granted where there are so many; at least Need and at least 1.
	Need, Want int64
}

// Leased is the answer to a LeaseAsk.
type Leased struct {
	Now    int64
	Tokens int64 // granted: 0, or from Need to Want
	Limit  Limit
	Left   int64 // units, after
}

// Leaser is a Store that grants in advance. An error means that it may have. It
// is safe for concurrent use.
type Leaser interface {
	Lease(ctx context.Context, a *LeaseAsk, out *Leased) error
}

// Validate refuses what no store should be asked. Every Leaser calls it first.
func (a *LeaseAsk) Validate() error {
	if err := validKeys(a.Rules, []string{a.Key}); err != nil {
		return err
	}
	switch t := &a.Rules.tiers[0]; {
	case len(t.Limits) != 1 || t.Role != 0:
		return badAsk("only a tier of one plain limit is leased")
	case a.Now < 0 || a.Now > MaxExact/2:
		return badAsk("the time is out of range")
	case a.Need < 0 || a.Want < max(a.Need, 1) || a.Want > MaxExact:
		return badAsk("what is needed is from 0 to what is wanted, and that is at least 1")
	}
	return nil
}

// ask is the same bucket as an Ask has it.
func (a *LeaseAsk) ask() Ask {
	return Ask{Now: a.Now, Deadline: a.Deadline, Rules: a.Rules, Keys: []string{a.Key}}
}

// grant takes what is granted from what settle has found.
func (a *LeaseAsk) grant(ans *Answer) (tokens int64) {
	l := &ans.Limits[0]
	tokens = min(l.Tokens(), a.Want)
	if tokens < a.Need {
		tokens = 0
	}
	if tokens > 0 {
		l.Left -= tokens * l.Limit.Period
		ans.tiers[0].write = true
	}
	return tokens
}

// Lease implements Leaser. It never fails but for a bad ask and a deadline that
// has passed.
func (m *Memory) Lease(_ context.Context, a *LeaseAsk, out *Leased) error {
	if err := a.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	ask := a.ask()
	m.markTiers(w, ask.Keys)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(a.Now)
	if late(a.Deadline, now) {
		return ErrLate
	}
	var ans Answer
	m.gather(w, &ask, now, own)
	ans.Now, ans.InForce = now, w.facts.inForce
	settle(&ask, &w.facts, now, &ans)
	tokens := a.grant(&ans)
	m.store(w, &ask, &ans, own)
	*out = Leased{Now: now, Tokens: tokens, Limit: ans.Limits[0].Limit, Left: ans.Limits[0].Left}
	return nil
}

// Lease implements Leaser: from the shared store alone. While that is gone an
// instance has its share, which is nobody else's, and needs no lease.
func (f *Fallback) Lease(ctx context.Context, a *LeaseAsk, out *Leased) error {
	leaser, ok := f.c.Primary.(Leaser)
	if !ok {
		return ErrNoStore
	}
	if err := a.Validate(); err != nil {
		return err
	}
	at, ask := f.at(a.Key), a.ask()
	err := f.through(ctx, at, func() error {
		if f.debts.any() {
			var cancel context.CancelFunc
			ctx, cancel = f.within(ctx) // both calls together
			defer cancel()
			if err := f.settle(ctx, at, &ask); err != nil {
				return err
			}
		}
		return leaser.Lease(ctx, a, out)
	})
	if err != nil {
		f.failed("lease", err)
		return err
	}
	if a.Now == 0 {
		f.learn(out.Now)
	}
	ans := Answer{Now: out.Now, Limits: []LimitAnswer{{Looked: true, Limit: out.Limit, Left: out.Left}}}
	f.c.Local.mirror(&ask, &ans, !f.debts.unpaid(ask.Keys))
	return nil
}
