package plans

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys"
)

// This file is how what is held and not used goes back, and what else a take by a
// pocket has to do once it is decided.

// tidyEvery is how often it is looked for what nobody asks for any more, and
// returnAhead how long before its end a lease is returned: a call takes its time,
// and after the end the store refuses it.
const (
	tidyEvery   = 100 * time.Millisecond
	returnAhead = int64(2 * tidyEvery / time.Microsecond)
)

// spawner runs what nobody waits for.
type spawner struct {
	group sync.WaitGroup
	here  bool // at once, for tests that own time
}

// Go runs f.
func (s *spawner) Go(f func()) {
	if s.here {
		f()
		return
	}
	s.group.Go(f)
}

// after is what is left to do when a take is decided, without the lock.
func (l *leases) after(ctx context.Context, h *busyKey, c *choice, r *Request, d *Decision, low uint) error {
	for i, k := range c.pockets {
		if low&(1<<i) != 0 {
			l.refill(h, k)
		}
	}
	if !d.Allowed && c.set.purse.sharded {
		// What was got together of a cost that is not there is somebody else's.
		l.spawned.Go(func() { l.tidyKey(context.Background(), h) })
	}
	if d.held == nil {
		return nil
	}
	if r.RequestID != "" {
		if err := l.once(ctx, h, c, r, d); err != nil || d.Replayed {
			return err
		}
	}
	if !r.Reserve {
		return nil
	}
	if _, err := io.ReadFull(l.t.c.Rand, d.own.id[:]); err != nil {
		return fmt.Errorf("making an identity: %w", err)
	}
	d.Reservation = l.t.c.Sealer.Seal(d.held.encode())
	return nil
}

// once makes a repeat of a request charge nothing. A set of several slots has no
// call that could do both, so what is taken comes first, and goes back if it was a
// repeat.
func (l *leases) once(ctx context.Context, h *busyKey, c *choice, r *Request, d *Decision) error {
	sum := fnv.New32a()
	sum.Write([]byte(r.RequestID))
	space := keys.PlanShard(h.account, int(sum.Sum32()%uint32(c.set.purse.most())))
	ask := keys.Ask{Now: l.t.now(), Rules: plenty, Keys: []string{space.Rule("")}, Cost: 1,
		Request: keys.Request{Key: space.Request(r.RequestID), Body: r.body(), Life: RequestMemory.Microseconds()}}
	var ans keys.Answer
	switch err := l.t.c.Store.Take(ctx, &ask, &ans); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrStore, err)
	case ans.Status == keys.Conflict:
		l.unspend(h, d.held)
		return ErrConflict
	case ans.Replayed:
		l.unspend(h, d.held)
		d.held, d.Replayed = nil, true
	}
	d.Degraded = ans.Degraded
	return nil
}

// plenty never refuses: of a request that is told apart only.
var plenty = mustRules([]keys.TierSpec{tierOf("", keys.Limit{Capacity: 1 << 20, Count: 1 << 20, Period: 1})})

// most is how many slots the rule with most of them is spread over.
func (p *purse) most() (n int64) {
	for i := range p.of {
		n = max(n, p.of[i].shards)
	}
	return n
}

// unspend puts back what was not used after all, as far as the leases live that it
// came of.
func (l *leases) unspend(h *busyKey, v *reservation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range v.held {
		l.putBack(h, &v.held[i])
	}
}

// putBack reports whether x was put back; its tokens are 0 then. The caller holds
// h.mu.
func (l *leases) putBack(h *busyKey, x *held) bool {
	if x.tokens > 0 && !x.pocket.Unspend(l.clock(), x.from, x.tokens) {
		return false
	}
	l.stats.spent.Add(-uint64(x.tokens))
	x.tokens = 0
	l.holding.Store(h, struct{}{})
	return true
}

// refund gives back at once what a request cost that was answered with status, and
// reports whether nothing is left to be settled with the store.
func (l *leases) refund(d *Decision, status int) (all bool) {
	h := l.find(d.held.digest)
	if h == nil {
		return false
	}
	var room [MaxRules]int64
	deltas, all := room[:len(d.held.held)], true
	h.mu.Lock()
	for i := range d.held.held {
		x := &d.held.held[i]
		if x.pocket == nil { // a quota's
			all = false
			continue
		}
		if tokens := x.tokens; x.pocket.refunds(status) {
			if l.putBack(h, x) {
				deltas[i] = -tokens
			} else {
				all = false
			}
		}
	}
	at := l.clock() + h.ahead
	h.mu.Unlock()
	if l.t.c.Evidence != nil && slices.ContainsFunc(deltas, func(n int64) bool { return n != 0 }) {
		l.t.c.Evidence.settled(d.Key, d.Version, at, d.Limits, deltas, false)
	}
	return all
}

// tidy returns what is held and not asked for any more, or soon would end.
func (l *leases) tidy(ctx context.Context) {
	l.holding.Range(func(h, _ any) bool {
		l.tidyKey(ctx, h.(*busyKey))
		return ctx.Err() == nil
	})
}

func (l *leases) tidyKey(ctx context.Context, h *busyKey) {
	h.mu.Lock()
	now := l.clock()
	idle := h.asks.PerWindow(now) == 0
	var back []returned
	held := false
	for _, k := range h.pockets {
		before := now + returnAhead
		if idle || !k.busy {
			before = keys.MaxExact
		}
		back = appendHolds(back, k, k.Drop(before))
		back = appendHolds(back, k, k.stale)
		k.stale = nil
		l.stats.lost.Add(uint64(k.Lost))
		k.Lost = 0
		held = held || k.Held(now) > 0
	}
	if !held {
		l.holding.Delete(h)
	}
	h.mu.Unlock()
	for i := range back {
		l.giveBack(ctx, h, &back[i])
	}
}

// drain returns everything that is held.
func (l *leases) drain(ctx context.Context) {
	l.holding.Range(func(v, _ any) bool {
		h := v.(*busyKey)
		h.mu.Lock()
		var back []returned
		for _, k := range h.pockets {
			back = appendHolds(back, k, k.Drop(keys.MaxExact))
			back = appendHolds(back, k, k.stale)
			k.stale = nil
		}
		h.mu.Unlock()
		for i := range back {
			l.giveBack(ctx, h, &back[i])
		}
		return ctx.Err() == nil
	})
	l.spawned.group.Wait()
}

type returned struct {
	keys.Hold
	x *pursed
}

func appendHolds(all []returned, k *pocket, holds []keys.Hold) []returned {
	for _, h := range holds {
		all = append(all, returned{h, k.pursed})
	}
	return all
}

// giveBack returns one lease's tokens. What does not arrive is lost, as when the
// holder dies.
func (l *leases) giveBack(ctx context.Context, h *busyKey, b *returned) {
	if int64(b.Shard) >= b.x.shards { // that bucket is no more
		l.stats.lost.Add(uint64(b.Left))
		return
	}
	space := keys.PlanShard(h.account, b.Shard)
	var out keys.Settled
	err := l.t.c.Store.Settle(ctx, &keys.Settlement{Now: l.t.now(), Rules: b.x.rules, Keys: []string{space.Rule(b.x.Name)},
		Took: []keys.TookMany{{Tokens: b.Left, In: b.In}}, Costs: []int64{0}, Whole: true, Stamp: b.Stamp, Expires: b.Stamp + b.x.terms.Life,
		MarkKey: space.Settled(base64.RawURLEncoding.EncodeToString(b.ID[:]))}, &out)
	if err != nil || out.Expired || out.Duplicate || out.Degraded {
		l.stats.lost.Add(uint64(b.Left))
		return
	}
	l.stats.returned.Add(uint64(b.Left))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.pockets {
		if k.sub == b.x.sub && k.Name == b.x.Name && b.Shard < len(k.known) {
			k.known[b.Shard] = keys.Known{} // there is more than was known
		}
	}
}

// Run returns what is leased, or drawn of a quota, and not used, until ctx ends, and
// then all of it. Without it what is not used ends, and is lost. It returns at once when there is
// nothing else to do.
func (t *Taker) Run(ctx context.Context) {
	tick, second := time.NewTicker(tidyEvery), time.NewTicker(time.Second)
	defer tick.Stop()
	defer second.Stop()
	for {
		select {
		case <-tick.C:
			t.leases.tidy(ctx)
		case <-second.C:
			t.quotas.tidy(ctx, false)
		case <-ctx.Done():
			last, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer stop()
			t.leases.drain(last)
			t.quotas.tidy(last, true)
			return
		}
	}
}

// LeaseStats is what became of leases since the start.
type LeaseStats struct {
	Calls  uint64 // of the store that were answered
	Failed uint64 // and that were not
	// Tokens that were leased, spent, returned unspent, and lost: neither spent nor
	// returned in time, or repaid by refill when they came back.
	Leased, Spent, Returned, Lost uint64
	Allowed, Refused              uint64 // decisions by what was held
	Keys                          int    // that something is held of
}

type leaseCounters struct {
	calls, failed, leased, spent, returned, lost, allowed, refused atomic.Uint64
}

func (c *leaseCounters) decided(allowed bool) {
	if allowed {
		c.allowed.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// Leases counts.
func (t *Taker) Leases() LeaseStats {
	c := &t.leases.stats
	s := LeaseStats{Calls: c.calls.Load(), Failed: c.failed.Load(), Leased: c.leased.Load(), Spent: c.spent.Load(), Returned: c.returned.Load(),
		Lost: c.lost.Load(), Allowed: c.allowed.Load(), Refused: c.refused.Load()}
	t.leases.holding.Range(func(any, any) bool { s.Keys++; return true })
	return s
}
