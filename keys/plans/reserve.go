package plans

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/guardd/guardd/keys"
)

// held is what ans took, as it can be settled.
func (t *Taker) held(r *Request, s *set, costs []int64, ans *keys.Answer) *reservation {
	v := &reservation{id: ans.ID, digest: r.key(), instance: t.c.Instance, degraded: ans.Degraded, stamp: ans.Now, cost: r.Cost, route: r.Route,
		held: make([]held, len(s.bounds))}
	for i, x := range s.bounds {
		v.held[i] = held{rule: x.Name, in: ans.Limits[i].Limit}
		if ans.Limits[i].Took {
			v.held[i].tokens = costs[i]
		}
	}
	return v
}

// Settlement is the answer to a Settle.
type Settlement struct {
	// Settled: the cost is now what was said. Duplicate: it was settled before.
	// Neither: it has expired, and was charged as estimated.
	Settled, Duplicate bool
	// Charged is the whole cost in tokens, as far as this call knows: of a
	// duplicate what was estimated.
	Charged  int64
	Binding  int
	Limits   []LimitState
	Degraded bool
}

// Settle charges what a reservation really cost, or gives back what it did not,
// once. Errors: Faults, ErrUnknownRule (its rules are no more), ErrStore.
func (t *Taker) Settle(ctx context.Context, token string, cost int64) (*Settlement, error) {
	var bad Faults
	plain, ok := t.c.Sealer.Open(token)
	var v *reservation
	if ok {
		v, ok = decodeReservation(plain)
	}
	switch {
	case token == "":
		bad.add("reservation", "empty")
	case !ok:
		bad.add("reservation", "invalid")
	}
	switch {
	case cost < 0:
		bad.add("cost", "negative")
	case cost > keys.MaxExact:
		bad.add("cost", "too_large")
	}
	if err := bad.err(); err != nil {
		return nil, err
	}
	return t.settle(ctx, v, cost, func(_ *bound, cost, _ int64) int64 { return cost })
}

// Refund gives back what a request cost that was answered with status, once,
// where its rules say so. d must be this Taker's decision, of a request without
// Reserve. Errors as Settle's.
func (t *Taker) Refund(ctx context.Context, d *Decision, status int) error {
	if d.held == nil || status < 400 {
		return nil
	}
	if d.held.leased && t.leases.refund(d, status) {
		return nil
	}
	_, err := t.settle(ctx, d.held, d.held.cost, func(x *bound, _, took int64) int64 {
		if x.refunds(status) {
			return 0
		}
		return took
	})
	return err
}

// refunds reports whether a request that was answered with status gets back what
// it cost.
func (r *Rule) refunds(status int) bool {
	return r.Refund == RefundAll && status >= 400 || r.Refund == RefundServer && status >= 500
}

// settle corrects what v holds; costOf says, of each rule, its cost now, given
// the cost that the caller names and what was taken.
func (t *Taker) settle(ctx context.Context, v *reservation, cost int64, costOf func(x *bound, cost, took int64) int64) (*Settlement, error) {
	req := Request{Route: v.route, digest: v.digest}
	for _, h := range v.held {
		req.Rules = append(req.Rules, h.rule)
	}
	book := t.book.Load()
	_, s, err := book.pick(&req)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, Faults{{"reservation", "rules_changed"}}
	}
	v, quotas := v.split(s)
	if len(s.bounds) != len(v.held) || len(s.quotas) != len(quotas) {
		return nil, Faults{{"reservation", "rules_changed"}}
	}
	set, err := t.settlement(s, v, cost, costOf)
	if err != nil {
		return nil, err
	}
	var out keys.Settled
	if v.leased || s.purse != nil && s.purse.sharded {
		err = t.settleEach(ctx, s, v, set, &out)
	} else {
		err = t.c.Store.Settle(ctx, set, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	res := settlementOf(s, set, &out, v.cost, cost)
	deltas := make([]int64, len(v.held))
	for i := range v.held {
		deltas[i] = set.Costs[i] - v.held[i].tokens
	}
	if s.bare {
		res.Limits, deltas = nil, nil
	}
	if len(quotas) > 0 && res.Settled {
		states, more := t.quotas.settle(ctx, s, v, quotas, cost, costOf)
		res.Limits, deltas = append(res.Limits, states...), append(deltas, more...)
	}
	res.Binding = bindingOf(res.Limits)
	if res.Settled && t.c.Evidence != nil {
		t.c.Evidence.settled(t.c.Hash(v.digest), book.version, out.Now, res.Limits, deltas, res.Degraded)
	}
	return res, nil
}

// settlement is what v and its real cost come to, where all rules are in one slot.
func (t *Taker) settlement(s *set, v *reservation, cost int64, costOf func(x *bound, cost, took int64) int64) (*keys.Settlement, error) {
	if v.id == [16]byte{} { // leased: few are ever settled
		if _, err := io.ReadFull(t.c.Rand, v.id[:]); err != nil {
			return nil, fmt.Errorf("making an identity: %w", err)
		}
	}
	from := v.stamp
	if v.leased {
		from = v.at
	}
	space := keys.PlanSpace(t.c.Hash(v.digest))
	set := &keys.Settlement{
		Now: t.now(), Rules: s.rules, Stamp: v.stamp, Expires: from + ReservationExpiry.Microseconds(),
		MarkKey: space.Settled(v.name()),
		Local:   v.degraded && v.instance == t.c.Instance,
	}
	for i, x := range s.bounds {
		h := &v.held[i]
		c := x.Cost(v.route, cost)
		if x.Counts == CountsRequests {
			c = h.tokens // the request was made, whatever it cost
		}
		c = costOf(x, c, h.tokens)
		if v.degraded && !set.Local { // another's twin gave it: only what is more can be charged
			c = max(c, h.tokens)
		}
		set.Keys = append(set.Keys, space.Rule(x.Name))
		set.Took = append(set.Took, keys.TookMany{Tokens: h.tokens, In: h.in})
		set.Costs = append(set.Costs, c)
	}
	return set, nil
}

// name is the reservation's in a mark.
func (v *reservation) name() string { return base64.RawURLEncoding.EncodeToString(v.id[:]) }

// settleEach settles rule by rule what is in several slots, each once.
func (t *Taker) settleEach(ctx context.Context, s *set, v *reservation, all *keys.Settlement, out *keys.Settled) error {
	*out = keys.Settled{Expired: true, Duplicate: true}
	account := t.c.Hash(v.digest)
	for i, x := range s.bounds {
		shard := v.held[i].shard
		if n := int(x.shards()); !v.leased {
			shard = t.home % n // an outage's
		} else if shard >= n {
			shard = 0 // it has fewer now: what was taken is of no bucket any more
		}
		space := keys.PlanShard(account, shard)
		one := *all
		one.Rules, one.Keys, one.Took, one.Costs = s.alone(i), []string{space.Rule(x.Name)}, all.Took[i:i+1], all.Costs[i:i+1]
		if over := one.Took[0].Tokens - one.Took[0].In.Capacity; over > 0 { // it came from several
			one.Took = []keys.TookMany{{Tokens: one.Took[0].Tokens - over, In: one.Took[0].In}}
			one.Costs = []int64{max(one.Costs[0]-over, 0)}
		}
		one.MarkKey = space.Settled(v.name() + ":" + x.Name)
		var part keys.Settled
		if err := t.c.Store.Settle(ctx, &one, &part); err != nil {
			return err
		}
		out.Now, out.Expired, out.Duplicate = part.Now, out.Expired && part.Expired, out.Duplicate && part.Duplicate
		out.Degraded = out.Degraded || part.Degraded
		out.Limits = append(out.Limits, part.Limits...)
	}
	return nil
}

// alone are the rules of one bucket, or sub-bucket, of the set.
func (s *set) alone(i int) *keys.Rules {
	if s.purse != nil {
		return s.purse.of[i].rules
	}
	return mustRules(s.rules.Tiers()[i : i+1])
}

func settlementOf(s *set, set *keys.Settlement, out *keys.Settled, estimate, cost int64) *Settlement {
	res := &Settlement{Settled: !out.Expired && !out.Duplicate, Duplicate: out.Duplicate, Charged: estimate, Binding: -1, Degraded: out.Degraded}
	if res.Settled {
		res.Charged = cost
	}
	for i, x := range s.bounds {
		l := stateOf(x, &out.Limits[i], set.Costs[i], &keys.Answer{Let: true})
		res.Limits = append(res.Limits, l)
		if res.Binding < 0 || l.binds(&res.Limits[res.Binding]) {
			res.Binding = i
		}
	}
	return res
}
