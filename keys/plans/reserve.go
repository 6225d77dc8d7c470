package plans

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/gob"
	"fmt"

	"github.com/guardd/guardd/keys"
)

// reservation is what a sealed one holds: all that is needed to settle it at any
// instance, and nothing that names anybody.
type reservation struct {
	ID       [16]byte
	Digest   Digest // of the key: its own numbers may have changed meanwhile
	Rules    []string
	Route    string
	Tokens   []int64
	In       []keys.Limit
	Cost     int64
	Stamp    int64
	Degraded bool
	Instance [8]byte
}

// held is what ans took, as it can be settled.
func (t *Taker) held(r *Request, s *set, costs []int64, ans *keys.Answer) *reservation {
	v := &reservation{ID: ans.ID, Digest: r.key(), Route: r.Route, Cost: r.Cost, Stamp: ans.Now, Degraded: ans.Degraded, Instance: t.c.Instance}
	for i, x := range s.bounds {
		v.Rules = append(v.Rules, x.Name)
		took := int64(0)
		if ans.Limits[i].Took || ans.Replayed {
			took = costs[i]
		}
		v.Tokens, v.In = append(v.Tokens, took), append(v.In, ans.Limits[i].Limit)
	}
	return v
}

func (t *Taker) seal(v *reservation) string {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		panic(err) // plain data
	}
	return t.c.Sealer.Seal(b.Bytes())
}

// Settlement is the answer to a Settle.
type Settlement struct {
	// Settled: the cost is now what was said. Duplicate: it was settled before.
	// Neither: it has expired, and was charged as estimated.
	Settled, Duplicate bool
	// Charged is the whole cost in tokens, as counted now.
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
	var v reservation
	if !ok || gob.NewDecoder(bytes.NewReader(plain)).Decode(&v) != nil {
		bad.add("reservation", map[bool]string{true: "empty", false: "invalid"}[token == ""])
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
	return t.settle(ctx, &v, cost, func(_ *bound, cost, _ int64) int64 { return cost })
}

// Refund gives back what a request cost that was answered with status, once,
// where its rules say so. d must be this Taker's decision, of a request without
// Reserve. Errors as Settle's.
func (t *Taker) Refund(ctx context.Context, d *Decision, status int) error {
	if d.held == nil || status < 400 {
		return nil
	}
	refunds := func(x *bound) bool {
		return x.Refund == RefundAll || x.Refund == RefundServer && status >= 500
	}
	_, err := t.settle(ctx, d.held, d.held.Cost, func(x *bound, _, took int64) int64 {
		if refunds(x) {
			return 0
		}
		return took
	})
	return err
}

// settle corrects what v holds; cost says, of each rule, its cost now, given the
// cost that the caller names and what was taken.
func (t *Taker) settle(ctx context.Context, v *reservation, cost int64, costOf func(x *bound, cost, took int64) int64) (*Settlement, error) {
	req := Request{Rules: v.Rules, Route: v.Route, digest: v.Digest}
	_, s, err := t.book.Load().pick(&req)
	if err != nil {
		return nil, err
	}
	if s == nil || len(s.bounds) != len(v.Rules) {
		return nil, Faults{{"reservation", "its rules no longer count its route"}}
	}
	space := keys.PlanSpace(t.name(v.Digest))
	set := keys.Settlement{
		Now: t.now(), Rules: s.rules, Stamp: v.Stamp, Expires: v.Stamp + ReservationExpiry.Microseconds(),
		MarkKey: space.Settled(base64.RawURLEncoding.EncodeToString(v.ID[:])),
		Local:   v.Degraded && v.Instance == t.c.Instance,
	}
	for i, x := range s.bounds {
		set.Keys = append(set.Keys, space.Rule(x.Name))
		set.Took = append(set.Took, keys.TookMany{Tokens: v.Tokens[i], In: v.In[i]})
		c := x.Cost(v.Route, cost)
		if x.Counts == CountsRequests {
			c = v.Tokens[i] // the request was made, whatever it cost
		}
		c = costOf(x, c, v.Tokens[i])
		if v.Degraded && !set.Local { // another's twin gave it: only what is more can be charged
			c = max(c, v.Tokens[i])
		}
		set.Costs = append(set.Costs, c)
	}
	var out keys.Settled
	if err := t.c.Store.Settle(ctx, &set, &out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStore, err)
	}
	res := &Settlement{Settled: !out.Expired && !out.Duplicate, Duplicate: out.Duplicate, Charged: v.Cost, Binding: -1, Degraded: out.Degraded}
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
	return res, nil
}
