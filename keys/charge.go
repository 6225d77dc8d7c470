package keys

import "context"

// Charge is what one instance let through alone, to be counted in the shared
// buckets as well: tokens per limit, of one ask's buckets or of some of them.
type Charge struct {
	Now int64 // 0: the store's clock
	// Rules and Keys are the buckets, one per tier, as in an Ask.
	Rules    *Rules
	Keys     []string
	StateKey string
	KKeys    [2]string
	// Tokens is what is to be taken from each limit, tier by tier; from one that
	// has less, what it has. Never negative.
	Tokens []int64
	// MarkKey makes a charge count once, however often it is sent, within
	// ChargeMemory.
	MarkKey string
}

// ChargeMemory is how long a store remembers that it has counted a charge.
const ChargeMemory = 3600 * Second

// Charger is a Store that can be charged afterwards. Implementations are safe
// for concurrent use; an error means that the charge may have been counted.
type Charger interface {
	Charge(ctx context.Context, c *Charge) error
}

// Validate refuses what no store should be asked. Every Charger calls it first.
func (c *Charge) Validate() error {
	if err := validKeys(c.Rules, c.Keys); err != nil {
		return err
	}
	switch {
	case len(c.Tokens) != c.Rules.limits:
		return badAsk("a charge needs one number per limit")
	case c.MarkKey == "":
		return badAsk("a charge needs a mark")
	case c.Now < 0 || c.Now > MaxExact/2:
		return badAsk("the time is out of range")
	}
	for _, n := range c.Tokens {
		if n < 0 || n > MaxExact {
			return badAsk("what is charged is out of range")
		}
	}
	return nil
}

// charge takes what is owed from what settle has found: no limit is charged
// more than it has.
func (c *Charge) charge(ans *Answer) {
	for i := range ans.Limits {
		l := &ans.Limits[i]
		if !l.counted || c.Tokens[i] == 0 {
			continue
		}
		cost := l.Limit.Units()
		if c.Tokens[i] < l.Limit.Capacity {
			cost = c.Tokens[i] * l.Limit.Period
		}
		l.Left = max(l.Left-cost, 0)
		ans.tiers[l.Tier].write = true
	}
}

// Charge implements Charger. It never fails but for a bad charge.
func (m *Memory) Charge(_ context.Context, c *Charge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	w := m.begin()
	defer m.pool.Put(w)
	m.markTiers(w, c.Keys)
	mark := m.mark(w, c.MarkKey)
	m.lock(w)
	defer m.unlock(w)
	now, own := m.times(c.Now)
	marks := &m.shard(mark).outcomes
	if _, done := marks.m[mark]; done || !marks.room(mark, own) {
		return nil
	}
	marks.put(mark, booked{end: end(own + ChargeMemory)}, own)
	ask := Ask{Rules: c.Rules, Keys: c.Keys, StateKey: c.StateKey, KKeys: c.KKeys}
	var ans Answer
	m.gather(w, &ask, now, own)
	ans.Now, ans.InForce = now, w.facts.inForce
	settle(&ask, &w.facts, now, &ans)
	c.charge(&ans)
	m.store(w, &ask, &ans, own)
	return nil
}
