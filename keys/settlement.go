package keys

import (
	"context"
	"errors"
)

// Settlement corrects, once, what an ask has taken by an estimate: the real
// cost is known now.
type Settlement struct {
	Now, Deadline int64
	// Rules and Keys are the buckets, one per tier, as in the Ask. Rules that
	// scale are not settled: K and posture are taken as none.
	Rules *Rules
	Keys  []string
	// Took is what the ask took, one entry a tier: Tokens of the tier's first
	// limit, which was In then. Tokens 0: nothing, then In may be zero.
	Took []TookMany
	// Costs is what each tier's first limit is to have been charged, in tokens.
	// More than was taken is taken now, as far as there is any; less is given
	// back, but what refill may have repaid since: else whoever reserves for
	// nothing could save up a second burst.
	Costs []int64
	// Stamp is the ask's time; from Expires on nothing is settled.
	Stamp, Expires int64
	// Whole: what is given back was held and never spent (LeaseAsk), so all of it is,
	// refill or not: who held it could have spent it instead.
	Whole bool
	// MarkKey makes a settlement count once.
	MarkKey string
	// Local: the ask was answered by this instance's twin while the shared store
	// was gone, so only its buckets can give something back.
	Local bool
}

// TookMany is what was taken of one limit, as it was in force.
type TookMany struct {
	Tokens int64
	In     Limit
}

// Settled is what a Settle did.
type Settled struct {
	Now int64
	// Expired, Duplicate: nothing was changed.
	Expired, Duplicate bool
	Limits             []LimitAnswer // after; one a tier
	Degraded           bool
}

// Settler is a Store that can correct an estimate. An error means that we do
// not know whether it has: repeat it. It is safe for concurrent use.
type Settler interface {
	Settle(ctx context.Context, s *Settlement, out *Settled) error
}

// Validate refuses what no store should be asked. Every Settler calls it first.
func (s *Settlement) Validate() error {
	if err := validKeys(s.Rules, s.Keys); err != nil {
		return err
	}
	switch {
	case len(s.Took) != len(s.Keys) || len(s.Costs) != len(s.Keys):
		return badAsk("what was taken, and what it cost, is needed for each tier")
	case s.MarkKey == "":
		return badAsk("a settlement needs a mark")
	case s.Now < 0 || s.Now > MaxExact/2 || s.Expires > MaxExact/2:
		return badAsk("the time is out of range")
	}
	for i := range s.Rules.tiers {
		t := &s.Rules.tiers[i]
		switch took := s.Took[i]; {
		case len(t.Limits) != 1 || t.Role != 0:
			return badAsk("only tiers of one plain limit are settled")
		case s.Costs[i] < 0 || s.Costs[i] > MaxExact:
			return badAsk("a cost is out of range")
		case took.Tokens < 0 || took.Tokens > 0 && (!took.In.Exact() || took.Tokens > took.In.Capacity):
			return badAsk("what was taken is out of range")
		}
	}
	return nil
}

// adjust corrects what settle has found.
func (s *Settlement) adjust(f *facts, now int64, ans *Answer) {
	for t := range ans.Limits {
		l, took := &ans.Limits[t], s.Took[t]
		before := l.Left
		switch more := s.Costs[t] - took.Tokens; {
		case more >= l.Limit.Capacity:
			l.Left = 0
		case more > 0:
			l.Left = max(l.Left-more*l.Limit.Period, 0)
		case more < 0 && f.buckets[t].countedSince(s.Rules.tiers[t].Limits[0].id, s.Stamp):
			back := l.Limit.whole(took.In, -more)
			if !s.Whole {
				back = l.Limit.Back(took.In, -more, max(now-s.Stamp, 0))
			}
			l.Left = min(l.Left+back, l.Limit.Units())
		}
		ans.tiers[t].write = ans.tiers[t].write || l.Left != before
	}
}

// countedSince reports whether the limit's cell was last counted at or after
// stamp: else it is not the one that was taken from.
func (b *Bucket) countedSince(id uint32, stamp int64) bool {
	if b == nil {
		return false
	}
	at := b.Stamp
	if c, ok := b.cell(id, 0); ok && c.Stamp != 0 {
		at = c.Stamp
	}
	return at >= stamp
}

// Settle implements Settler. It never fails but for a bad settlement, and where
// there is no room to remember it.
func (m *Memory) Settle(_ context.Context, s *Settlement, out *Settled) error {
	if err := s.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, s.Keys)
	mark := m.mark(w, s.MarkKey)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(s.Now)
	if late(s.Deadline, now) {
		return ErrLate
	}
	ask := Ask{Rules: s.Rules, Keys: s.Keys}
	ans := Answer{Limits: out.Limits[:0]}
	m.gather(w, &ask, now, own)
	ans.Now, ans.InForce = now, w.facts.inForce
	settle(&ask, &w.facts, now, &ans)
	marks := &m.shard(mark).outcomes
	_, done := marks.m[mark]
	*out = Settled{Now: now, Expired: now >= s.Expires, Duplicate: done, Limits: ans.Limits}
	if out.Expired || done {
		return nil
	}
	if !marks.room(mark, own) {
		return ErrNoStore
	}
	marks.put(mark, booked{end: end(own + s.Expires - now + Slack)}, own)
	s.adjust(&w.facts, now, &ans)
	m.store(w, &ask, &ans, own)
	return nil
}

// Settle implements Settler. What the twin granted alone is settled with it;
// what costs more than it took is taken wherever there is an answer.
func (f *Fallback) Settle(ctx context.Context, s *Settlement, out *Settled) error {
	shared := *s
	if s.Local {
		shared.Took = nothing(s)
		shared.Costs = make([]int64, len(s.Costs))
		for i := range shared.Costs {
			shared.Costs[i] = max(s.Costs[i]-s.Took[i].Tokens, 0)
		}
	}
	settler, ok := f.c.Primary.(Settler)
	if !ok {
		return ErrNoStore
	}
	err := f.through(ctx, f.at(first(s.Keys)), func() error {
		err := settler.Settle(ctx, &shared, out)
		if err == nil && s.Now == 0 {
			f.learn(out.Now)
		}
		return err
	})
	switch {
	case err == nil && !s.Local, errors.Is(err, ErrAsk):
		return err
	case err != nil:
		f.failed("settle", err)
	case out.Expired || out.Duplicate:
		return nil
	}
	local := *s
	local.Deadline, local.Now, local.Rules = 0, f.now(s.Now), f.share(s.Rules)
	if !s.Local { // the shared store gave it: only what is more can be had here
		local.Took, local.Costs = nothing(s), make([]int64, len(s.Costs))
		for i := range s.Costs {
			local.Costs[i] = max(s.Costs[i]-s.Took[i].Tokens, 0)
		}
	} else if err == nil { // and what is more was taken there
		local.Costs = make([]int64, len(s.Costs))
		for i := range s.Costs {
			local.Costs[i] = min(s.Costs[i], s.Took[i].Tokens)
		}
	}
	var here Settled
	lerr := f.c.Local.Settle(ctx, &local, &here)
	if err == nil {
		return nil
	}
	*out = here
	out.Degraded = true
	return lerr
}

func nothing(s *Settlement) []TookMany { return make([]TookMany, len(s.Took)) }
