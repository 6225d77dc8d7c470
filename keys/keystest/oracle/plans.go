package oracle

import "math/big"

// Plans is what takes of plan limits and their settlements should come to: each
// rule a bucket of its own, in rationals.
type Plans struct {
	buckets map[string]*pot
	first   map[string]planFirst // by request id
	settled map[string]bool
}

type pot struct {
	stamp int64
	cell
}

type planFirst struct {
	body  string
	until int64
	left  []int64
	in    []Limit
}

// NewPlans is one in which nothing has been taken.
func NewPlans() *Plans {
	return &Plans{buckets: map[string]*pot{}, first: map[string]planFirst{}, settled: map[string]bool{}}
}

// PlanTake asks several rules for tokens; all or none.
type PlanTake struct {
	Now    int64
	Keys   []string
	Limits []Limit
	Costs  []int64 // nil: a look
	// ID makes a repeat with the same Body within Life charge once; "" is none.
	ID, Body string
	Life     int64
}

// PlanAnswer is what a take came to.
type PlanAnswer struct {
	Status   string // decided, conflict, impossible
	Let      bool
	Replayed bool
	Left     []int64 // units
	In       []Limit
}

// Take decides.
func (p *Plans) Take(a PlanTake) (ans PlanAnswer) {
	if f, ok := p.first[a.ID]; ok && a.ID != "" && a.Now < f.until {
		if f.body != a.Body {
			return PlanAnswer{Status: "conflict"}
		}
		return PlanAnswer{Status: "decided", Let: true, Replayed: true, Left: f.left, In: f.in}
	}
	ans = PlanAnswer{Status: "decided", Let: true, In: a.Limits}
	pots := make([]*pot, len(a.Keys))
	dirty := make([]bool, len(a.Keys))
	for i, key := range a.Keys {
		pots[i], dirty[i] = p.present(key, a.Limits[i], a.Now)
		cost := int64(1)
		if a.Costs != nil {
			cost = a.Costs[i]
		}
		if a.Costs != nil && cost > a.Limits[i].Capacity {
			ans.Status = "impossible"
		}
		has := new(big.Rat).SetFrac(new(big.Int).Sub(pots[i].units, pots[i].spent), num(a.Limits[i].Period))
		ans.Let = ans.Let && has.Cmp(new(big.Rat).SetInt64(cost)) >= 0
	}
	take := ans.Status == "decided" && ans.Let && a.Costs != nil
	for i, key := range a.Keys {
		if take {
			pots[i].spent = new(big.Int).Add(pots[i].spent, new(big.Int).Mul(num(a.Costs[i]), num(a.Limits[i].Period)))
		}
		if take || dirty[i] && ans.Status == "decided" {
			p.buckets[key] = pots[i]
		}
		ans.Left = append(ans.Left, new(big.Int).Sub(pots[i].units, pots[i].spent).Int64())
	}
	if ans.Status == "impossible" {
		ans.Let = false
	}
	if take && a.ID != "" {
		p.first[a.ID] = planFirst{a.Body, a.Now + a.Life, ans.Left, a.Limits}
	}
	return ans
}

// present is a bucket brought to now, not stored; dirty: a broken clock was
// taken back.
func (p *Plans) present(key string, l Limit, now int64) (b *pot, dirty bool) {
	b = &pot{now, cell{spent: new(big.Int), units: l.units()}}
	old := p.buckets[key]
	if old == nil {
		return b, false
	}
	var passed int64
	passed, b.stamp, dirty = clock(old.stamp, now, wholeUp(l.toFull()))
	b.spent = spentNow(old.cell, l, passed)
	return b, dirty
}

// PlanLease asks one bucket for tokens in advance.
type PlanLease struct {
	Now        int64
	Key        string
	Limit      Limit
	Need, Want int64
}

// Lease grants what is wanted as far as there is any, or nothing where less is
// there than is needed.
func (p *Plans) Lease(a PlanLease) (tokens, left int64) {
	b, dirty := p.present(a.Key, a.Limit, a.Now)
	has := new(big.Int).Sub(b.units, b.spent)
	whole := new(big.Int).Div(has, num(a.Limit.Period)).Int64()
	if whole >= a.Need {
		tokens = min(whole, a.Want)
	}
	b.spent = new(big.Int).Add(b.spent, new(big.Int).Mul(num(tokens), num(a.Limit.Period)))
	if tokens > 0 || dirty {
		p.buckets[a.Key] = b
	}
	return tokens, new(big.Int).Sub(b.units, b.spent).Int64()
}

// PlanSettle corrects a take.
type PlanSettle struct {
	Now, Stamp, Expires int64
	Keys                []string
	Limits              []Limit // in force now
	Tokens, Costs       []int64
	In                  []Limit // as they were
	Whole               bool    // give back all, whatever refill has repaid
	Mark                string
}

// PlanSettled is what a settlement came to.
type PlanSettled struct {
	Expired, Duplicate bool
	Left               []int64
}

// Settle corrects once: what costs more is taken as far as there is any, what
// costs less is given back but what refill may have repaid since.
func (p *Plans) Settle(s PlanSettle) (out PlanSettled) {
	out.Expired, out.Duplicate = s.Now >= s.Expires, p.settled[s.Mark]
	for i, key := range s.Keys {
		b, dirty := p.present(key, s.Limits[i], s.Now)
		if out.Expired || out.Duplicate {
			out.Left = append(out.Left, new(big.Int).Sub(b.units, b.spent).Int64())
			continue
		}
		before := new(big.Int).Set(b.spent)
		more, old := s.Costs[i]-s.Tokens[i], p.buckets[key]
		switch {
		case more > 0:
			b.spent = new(big.Int).Add(b.spent, new(big.Int).Mul(num(more), num(s.Limits[i].Period)))
			if b.spent.Cmp(b.units) > 0 {
				b.spent = b.units
			}
		case more < 0 && s.Whole && old != nil && old.stamp >= s.Stamp:
			b.spent = new(big.Int).Sub(b.spent, unrepaid(s.In[i], s.Limits[i], min(-more, s.In[i].Capacity), 0))
			if b.spent.Sign() < 0 {
				b.spent = new(big.Int)
			}
		case more < 0 && !s.Whole && old != nil && old.stamp >= s.Stamp && s.In[i].toFull().Cmp(s.Limits[i].toFull()) == 0:
			b.spent = new(big.Int).Sub(b.spent, unrepaid(s.In[i], s.Limits[i], -more, max(s.Now-s.Stamp, 0)))
			if b.spent.Sign() < 0 {
				b.spent = new(big.Int)
			}
		}
		if b.spent.Cmp(before) != 0 || dirty {
			p.buckets[key] = b
		}
		out.Left = append(out.Left, new(big.Int).Sub(b.units, b.spent).Int64())
	}
	if !out.Expired && !out.Duplicate {
		p.settled[s.Mark] = true
	}
	return out
}

// unrepaid is what so many tokens of old still cost after so long, in units of l.
func unrepaid(old, l Limit, many, passed int64) *big.Int {
	repaid := new(big.Rat).SetFrac(new(big.Int).Mul(num(passed), num(old.Count)), num(old.Period))
	left := new(big.Rat).Sub(new(big.Rat).SetInt64(many), repaid)
	if left.Sign() <= 0 {
		return new(big.Int)
	}
	share := left.Quo(left, new(big.Rat).SetInt64(old.Capacity)).Mul(left, new(big.Rat).SetInt(l.units()))
	return new(big.Int).Div(share.Num(), share.Denom())
}

// Left is the units left of each bucket; nothing is written.
func (p *Plans) Left(now int64, keys []string, limits []Limit) (left []int64) {
	for i, key := range keys {
		b, _ := p.present(key, limits[i], now)
		left = append(left, new(big.Int).Sub(b.units, b.spent).Int64())
	}
	return left
}
