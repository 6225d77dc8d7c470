package plans

import (
	"context"
	"fmt"
	"time"

	"github.com/guardd/guardd/keys"
)

// decide decides a take of which some rules are quotas. They come first: what they
// gave is put back where another rule refuses, and it has been nowhere but here.
// What a quota refuses is asked of nobody else.
func (q *quotas) decide(ctx context.Context, book *Book, r *Request, d *Decision) error {
	who, s, err := book.pick(r)
	if err != nil {
		return err
	}
	if s == nil || len(s.quotas) == 0 || who != nil && who.State == Suspended {
		return q.t.rates(ctx, book, r, d)
	}
	d.Key = q.t.c.Hash(r.key())
	got, states, degraded := q.takeAll(ctx, r, s)
	if refuses(states) {
		q.putBack(got)
		return q.refuse(ctx, book, r, s, states, degraded, d)
	}
	if err := q.t.rates(ctx, book, r, d); err != nil {
		q.putBack(got)
		return err
	}
	if !d.Allowed || d.Replayed {
		q.putBack(got)
		for i := range states {
			states[i].Left = min(states[i].Left+states[i].Cost, states[i].Limit.Capacity)
		}
	}
	q.t.merge(r, s, states, d)
	d.Degraded = d.Degraded || degraded
	return nil
}

func (q *quotas) takeAll(ctx context.Context, r *Request, s *set) (got []spend, states []LimitState, degraded bool) {
	for _, x := range s.quotas {
		var cost int64
		if r.Cost > 0 {
			cost = x.Cost(r.Route, r.Cost)
		}
		sp, l, alone := q.take(ctx, r.key(), x, cost)
		degraded = degraded || alone
		states = append(states, l)
		if !l.Allowed {
			break
		}
		if sp.tokens > 0 {
			got = append(got, sp)
		}
	}
	return got, states, degraded
}

func refuses(states []LimitState) bool { return !states[len(states)-1].Allowed }

// refuse answers no, unless the same request was let through before.
func (q *quotas) refuse(ctx context.Context, book *Book, r *Request, s *set, states []LimitState, degraded bool, d *Decision) error {
	for i := range states[:len(states)-1] {
		states[i].Left += states[i].Cost
	}
	if r.RequestID != "" && r.Cost > 0 {
		if found, err := q.t.replay(ctx, r, s, d); err != nil || found {
			if found {
				q.t.merge(r, s, nil, d)
			}
			return err
		}
	}
	no := &states[len(states)-1]
	*d = Decision{Version: book.version, Key: d.Key, At: time.UnixMicro(q.clock()).UTC(), Degraded: degraded, Impossible: no.Cost > no.Limit.Capacity,
		Binding: len(states) - 1, Limits: append(d.Limits[:0], states...), own: d.own}
	if !d.Impossible {
		d.RetryAfter = no.Wait
	}
	return nil
}

// replay finds the first answer to a request id, and takes nothing: so much can never
// be had.
func (t *Taker) replay(ctx context.Context, r *Request, s *set, d *Decision) (found bool, err error) {
	ask, ans := new(keys.Ask), new(keys.Answer)
	costs, err := t.askOf(r, s, d.Key, ask)
	if err != nil {
		return false, err
	}
	ask.Cost, ask.Costs = keys.MaxExact, nil
	if err := t.c.Store.Take(ctx, ask, ans); err != nil {
		return false, fmt.Errorf("%w: %w", ErrStore, err)
	}
	switch {
	case ans.Status == keys.Conflict:
		return false, ErrConflict
	case !ans.Replayed:
		return false, nil
	}
	d.read(s, costs, ans)
	if ans.Taken {
		d.held = t.held(r, s, costs, ans)
	}
	return true, nil
}

// merge puts the quotas beside what else was decided.
func (t *Taker) merge(r *Request, s *set, states []LimitState, d *Decision) {
	if s.bare {
		d.Limits, d.Binding = d.Limits[:0], -1
		if d.held != nil {
			d.held.held = d.held.held[:0]
		}
	}
	d.Limits = append(d.Limits, states...)
	d.Binding = bindingOf(d.Limits)
	if d.held == nil {
		return
	}
	for _, x := range s.quotas {
		// Of a repeat: as the first was held.
		start, _ := x.calendar.Period(d.At)
		d.held.held = append(d.held.held, held{rule: x.Name, tokens: x.Cost(r.Route, r.Cost), in: keys.Limit{Capacity: x.Capacity, Period: start.UnixMicro()}})
	}
	if r.Reserve {
		d.Reservation = t.c.Sealer.Seal(d.held.encode())
	}
}

func bindingOf(limits []LimitState) int {
	b := -1
	for i := range limits {
		if b < 0 || limits[i].binds(&limits[b]) {
			b = i
		}
	}
	return b
}

// quota reports whether h is held of a quota: then in.Period is where its period
// begins.
func (h *held) quota() bool { return h.in.Count == 0 }

// split takes v apart: what buckets hold, and what quotas.
func (v *reservation) split(s *set) (rates *reservation, quotas []held) {
	w := *v
	w.held = nil
	for _, h := range v.held {
		if h.quota() {
			quotas = append(quotas, h)
		} else {
			w.held = append(w.held, h)
		}
	}
	if s.bare {
		w.held = []held{{tokens: v.cost, in: unlimited.limit}}
	}
	return &w, quotas
}

// settle charges quotas what their part really cost, in the period of the take. It
// returns what the quotas are now and by how much they have changed.
func (q *quotas) settle(ctx context.Context, s *set, v *reservation, all []held, cost int64, costOf func(x *bound, cost, took int64) int64) (states []LimitState, deltas []int64) {
	for i, x := range s.quotas {
		h := &all[i]
		c := x.Cost(v.route, cost)
		if x.Counts == CountsRequests {
			c = h.tokens
		}
		c = costOf(x, c, h.tokens)
		deltas = append(deltas, c-h.tokens)
		states = append(states, q.amend(ctx, v.digest, x, h.in.Period, c, c-h.tokens))
	}
	return states, deltas
}

// amend changes what was spent of a period by n tokens: here, if it is the one that
// runs, else in the ledger.
func (q *quotas) amend(ctx context.Context, who Digest, x *bound, period, cost, n int64) LimitState {
	_, l, _ := q.take(ctx, who, x, 0) // a look
	key := q.t.c.LedgerID(who)
	l.Cost, l.Allowed, l.Wait = cost, true, 0
	d := q.drawer(quotaKey{key, x.Name}, false)
	defer d.mu.Unlock()
	id := UsageID{key, x.usageRule(), period}
	switch {
	case n == 0:
	case d.id == id && n < 0:
		q.returned(d, -n)
	case d.id == id:
		now := min(d.hand, n)
		d.hand -= now
		d.owed += n - now
		d.spent += n
	default:
		_, end := x.calendar.Period(time.UnixMicro(period))
		if err := q.correct(ctx, id, end.UnixMicro(), n); err != nil && n > 0 {
			q.remember(id, end.UnixMicro(), x.Capacity, n)
		}
	}
	if d.id == id {
		l.Left = d.left()
	}
	return l
}
