package plans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/guardd/guardd/keys"
)

// leases is what one instance holds of busy keys in advance (keys.Pocket), by
// which it decides without asking the store. It is safe for concurrent use.
//
// A take needs tokens of every rule of its set, and gets them from a pocket each:
// all or none, under one lock. Whoever finds a pocket short asks the store, one at
// a time for each, and who comes meanwhile waits for him.
type leases struct {
	t     *Taker
	start time.Time

	mu     sync.RWMutex
	young  map[Digest]*busyKey // asked for lately
	old    map[Digest]*busyKey // and before that
	turned int64

	holding sync.Map // *busyKey: tokens are held, or to be returned
	spawned spawner
	stats   leaseCounters
}

// keysWatched bounds, twice over, how many keys are counted to find the busy ones
// (some 700 bytes each), and watchedFor is how long, in microseconds, one is that
// asks for nothing.
const (
	keysWatched = 1 << 15
	watchedFor  = 2 * keys.Second
)

// busyKey is one key of a set that is leased, or spread over shards.
type busyKey struct {
	digest  Digest
	account keys.Account

	mu      sync.Mutex
	asks    keys.Demand // requests
	book    *Book       // that choices and pockets are of
	choices []*choice
	pockets []*pocket
	ahead   int64 // the store's clock less ours, at the last reply
}

// choice is what a request by a route for some rules counts against.
type choice struct {
	rules   []string
	route   string
	set     *set
	pockets []*pocket
}

// choicesKept bounds those of one key: callers choose routes and rules.
const choicesKept = 16

// pocket is what is held of one rule of a key.
type pocket struct {
	keys.Pocket
	*pursed
	demand keys.Demand
	busy   bool
	known  []keys.Known // of each shard
	flight *flight      // a call that is under way
	low    bool         // refill is about to make one
	stale  []keys.Hold  // of numbers that are no longer in force
}

type flight struct {
	done chan struct{}
	err  error
}

func newLeases(t *Taker) *leases {
	return &leases{t: t, start: time.Now(), young: map[Digest]*busyKey{}}
}

// clock is the holder's: it never goes back.
func (l *leases) clock() int64 {
	if l.t.c.Now != nil {
		return l.t.c.Now()
	}
	return time.Since(l.start).Microseconds() + keys.Second // never 0
}

// find returns the key if it is watched.
func (l *leases) find(d Digest) *busyKey {
	l.mu.RLock()
	h, old := l.young[d], l.old[d]
	l.mu.RUnlock()
	if h == nil && old != nil {
		return l.watch(d)
	}
	return h
}

// watch counts a key from now on.
func (l *leases) watch(d Digest) *busyKey {
	account := l.t.c.Hash(d)
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.young[d]; h != nil {
		return h
	}
	h := l.old[d]
	if h == nil {
		h = &busyKey{digest: d, account: account}
	}
	if len(l.young) >= keysWatched || now-l.turned >= watchedFor {
		l.old, l.young, l.turned = l.young, map[Digest]*busyKey{}, now
	}
	l.young[d] = h
	return h
}

// take decides by what is held. done is false where that is not the way: then the
// store decides.
func (l *leases) take(ctx context.Context, book *Book, r *Request, d *Decision) (done bool, err error) {
	h := l.find(r.key())
	if h == nil {
		if who, s, err := book.pick(r); err != nil || !leasable(who, s) {
			return false, nil
		}
		h = l.watch(r.key())
	}
	h.mu.Lock()
	c := h.choose(book, r)
	if c == nil {
		h.mu.Unlock()
		return false, nil
	}
	var room [MaxRules]int64
	costs := room[:len(c.pockets)]
	now := l.clock()
	if !l.counts(h, c, r, costs, now) {
		h.mu.Unlock()
		return false, nil
	}
	short, now, err := l.gather(ctx, h, c, costs, now)
	if err != nil {
		h.mu.Unlock()
		d.Version, d.Key = book.version, h.account
		return true, l.t.decide(ctx, r, c.set, d, err != errMoved)
	}
	d.Version, d.Key, d.At = book.version, h.account, time.UnixMicro(now+h.ahead).UTC()
	if short < 0 {
		l.spend(h, c, r, costs, d)
	}
	l.tell(c, costs, short, now, d)
	low := l.low(c, now)
	h.mu.Unlock()
	return true, l.after(ctx, h, c, r, d, low)
}

// leasable reports whether a set is decided by what is held.
func leasable(who *owner, s *set) bool {
	return s != nil && s.purse != nil && (who == nil || who.State != Suspended)
}

// choose finds what the request counts against; nil: nothing that is leased. The
// caller holds h.mu.
func (h *busyKey) choose(book *Book, r *Request) *choice {
	if h.book != book {
		h.book, h.choices = book, nil
	}
	for _, c := range h.choices {
		if c.route == r.Route && slices.Equal(c.rules, r.Rules) {
			return c
		}
	}
	who, s, err := book.pick(r)
	if err != nil || !leasable(who, s) {
		return nil
	}
	c := &choice{rules: slices.Clone(r.Rules), route: r.Route, set: s}
	for i := range s.purse.of {
		c.pockets = append(c.pockets, h.pocket(&s.purse.of[i]))
	}
	if len(h.choices) == choicesKept {
		h.choices = nil
	}
	h.choices = append(h.choices, c)
	return c
}

// pocket finds that of a rule, and puts the numbers in force that it has now.
func (h *busyKey) pocket(x *pursed) *pocket {
	i := slices.IndexFunc(h.pockets, func(k *pocket) bool { return k.Name == x.Name })
	if i < 0 {
		h.pockets = append(h.pockets, &pocket{pursed: x, known: make([]keys.Known, x.shards)})
		return h.pockets[len(h.pockets)-1]
	}
	k := h.pockets[i]
	if k.sub != x.sub || k.shards != x.shards {
		k.stale = append(k.stale, k.Drop(keys.MaxExact)...)
		k.known = make([]keys.Known, x.shards)
	}
	k.pursed = x
	return k
}

// counts counts the request, finds what it takes of each rule, and reports whether
// it is one to be decided here: of a busy key, or where there is what it takes, or
// of sub-buckets, of which no one call can tell.
func (l *leases) counts(h *busyKey, c *choice, r *Request, costs []int64, now int64) bool {
	h.asks.Add(now, 1)
	asks, busy, held, possible := h.asks.PerWindow(now), true, true, true
	for i, k := range c.pockets {
		if r.Cost > 0 { // a look takes nothing, not even where requests count
			costs[i] = k.Cost(r.Route, r.Cost)
		}
		k.busy = k.terms.Busy(asks, k.busy)
		k.demand.Add(now, min(costs[i], k.limit.Capacity))
		busy = busy && k.busy
		held = held && k.Held(now) >= costs[i]
		possible = possible && costs[i] <= k.limit.Capacity
	}
	if c.set.purse.sharded {
		return true
	}
	return (busy || held) && possible && r.Cost > 0 && r.RequestID == ""
}

// gather sees that every pocket has what the request takes of it; short is the
// first that has not, and cannot have it now, or -1. The caller holds h.mu, and
// does so again when it returns, but not all the while: now is the time of the
// return.
func (l *leases) gather(ctx context.Context, h *busyKey, c *choice, costs []int64, at int64) (short int, now int64, err error) {
	for tries, now := 0, at; ; tries, now = tries+1, l.clock() {
		short := -1
		for i, k := range c.pockets {
			switch {
			case k.bound != c.set.purse.of[i].bound:
				return 0, now, errMoved // the rules have changed meanwhile
			case costs[i] > k.limit.Capacity:
				return i, now, nil
			case short < 0 && k.Held(now) < costs[i]:
				short = i
			}
		}
		if short < 0 {
			return short, now, nil
		}
		k := c.pockets[short]
		shard := l.open(k, now)
		switch {
		case shard < 0:
			return short, now, nil
		case tries > 2*len(k.known)+len(c.pockets)+2: // others are faster, each time
			if c.set.purse.sharded {
				return short, now, nil
			}
			return 0, now, errMoved
		case k.flight != nil:
			err = h.await(ctx, k.flight)
		default:
			err = l.fetch(ctx, h, k, shard, costs[short]-k.Held(now))
		}
		if err != nil {
			return 0, now, err
		}
	}
}

// errMoved: what is held cannot decide, and the store has not failed.
var errMoved = errors.New("to be decided by the store")

// open is a shard that may have what the pocket needs, this instance's own first;
// -1: all had less than was wanted, a moment ago.
func (l *leases) open(k *pocket, now int64) int {
	for i := range k.known {
		if s := (l.t.home + i) % len(k.known); now >= k.known[s].Next {
			return s
		}
	}
	return -1
}

// await waits for a call that is under way. The caller holds h.mu, and does so
// again when it returns.
func (h *busyKey) await(ctx context.Context, f *flight) error {
	h.mu.Unlock()
	defer h.mu.Lock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch asks a shard for what is needed, and for more where the key is busy. The
// caller holds h.mu, and does so again when it returns.
func (l *leases) fetch(ctx context.Context, h *busyKey, k *pocket, shard int, need int64) error {
	now := l.clock()
	want := need
	if k.busy {
		want = k.terms.Want(k.Held(now), k.demand.PerWindow(now), need)
	}
	if want < 1 {
		return nil
	}
	x := k.pursed
	if x.shards > 1 {
		need = 0 // what one has not, others may
	}
	f := &flight{done: make(chan struct{})}
	k.flight = f
	h.mu.Unlock()
	ask := keys.LeaseAsk{Now: l.t.now(), Rules: x.rules, Key: keys.PlanShard(h.account, shard).Rule(x.Name), Need: need, Want: want}
	var out keys.Leased
	// Who hangs up does not take it from those who wait for it.
	f.err = l.t.c.Store.Lease(context.WithoutCancel(ctx), &ask, &out)
	h.mu.Lock()
	k.flight = nil
	close(f.done)
	if f.err != nil {
		l.stats.failed.Add(1)
		return f.err
	}
	return l.book(h, k, x, shard, now, want, &out)
}

// book puts what was granted, to an ask made at sent, into the pocket.
func (l *leases) book(h *busyKey, k *pocket, x *pursed, shard int, sent, want int64, out *keys.Leased) error {
	l.stats.calls.Add(1)
	l.stats.leased.Add(uint64(out.Tokens))
	now := l.clock()
	h.ahead = out.Now - now
	hold := keys.Hold{Shard: shard, In: out.Limit, Stamp: out.Now, Ends: sent + x.terms.Life, Tokens: out.Tokens}
	if out.Tokens > 0 {
		l.holding.Store(h, struct{}{})
		if _, err := io.ReadFull(l.t.c.Rand, hold.ID[:]); err != nil {
			return fmt.Errorf("making an identity: %w", err)
		}
	}
	if k.sub != x.sub || k.shards != x.shards { // the rule changed meanwhile
		if hold.Left = out.Tokens; hold.Left > 0 {
			k.stale = append(k.stale, hold)
		}
		return nil
	}
	k.known[shard].Learn(now, out.Limit, out.Left, want, out.Tokens, rand.Uint64())
	if out.Tokens > 0 {
		k.Put(hold)
	}
	return nil
}

// low is which pockets are to be refilled before they are empty, a bit each.
func (l *leases) low(c *choice, now int64) (which uint) {
	for i, k := range c.pockets {
		if k.busy && !k.low && k.flight == nil && k.terms.Low(k.Held(now), k.demand.PerWindow(now)) && l.open(k, now) >= 0 {
			k.low = true
			which |= 1 << i
		}
	}
	return which
}

// refill asks for more for a pocket that is low, beside the requests.
func (l *leases) refill(h *busyKey, k *pocket) {
	l.spawned.Go(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		k.low = false
		if shard := l.open(k, l.clock()); k.flight == nil && shard >= 0 {
			_ = l.fetch(context.Background(), h, k, shard, 0) // whoever finds the pocket empty hears of it
		}
	})
}

// spend takes what the request costs from the pockets, all of which have it.
func (l *leases) spend(h *busyKey, c *choice, r *Request, costs []int64, d *Decision) {
	v := &d.own
	*v = reservation{digest: r.key(), instance: l.t.c.Instance, leased: true, cost: r.Cost, route: r.Route, held: v.held[:0], stamp: keys.MaxExact, at: d.At.UnixMicro()}
	for i, k := range c.pockets {
		from := k.Spend(costs[i])
		v.stamp = min(v.stamp, from.Stamp)
		v.held = append(v.held, held{rule: k.Name, tokens: costs[i], in: from.In, shard: from.Shard, from: from, pocket: k})
		l.stats.spent.Add(uint64(costs[i]))
	}
	if d.held = nil; r.Cost > 0 {
		d.held = v
	}
}

// tell fills d with what is known. short is the rule that has not enough, or -1.
func (l *leases) tell(c *choice, costs []int64, short int, now int64, d *Decision) {
	d.Allowed, d.Binding, d.Limits = short < 0, -1, d.Limits[:0]
	for i, k := range c.pockets {
		s := LimitState{Rule: k.Name, Limit: k.limit, Cost: costs[i], Left: k.units(now), Allowed: true}
		has := max(costs[i], 1) * k.limit.Period
		switch {
		case short < 0: // judged before taking
		case costs[i] > k.limit.Capacity:
			s.Allowed, d.Impossible = false, true
		case i == short:
			s.Allowed, s.Left = false, min(s.Left, has-1)
			s.Wait = micros(max(k.wait(now, max(costs[i], 1)), 1), 1)
		case s.Left < has:
			s.Allowed = false
			s.Wait = micros(has-s.Left, k.limit.Count)
		}
		s.Reset = micros(k.limit.Units()-s.Left, k.limit.Count)
		d.Limits = append(d.Limits, s)
		if d.Binding < 0 || s.binds(&d.Limits[d.Binding]) {
			d.Binding = i
		}
	}
	if d.RetryAfter = 0; !d.Allowed && !d.Impossible {
		d.RetryAfter = d.Limits[d.Binding].Wait
	}
	l.stats.decided(d.Allowed)
}

// units is what is left of the rule for this instance, as far as is known: what it
// holds, and what the store had.
func (k *pocket) units(now int64) int64 {
	left := k.Held(now) * k.limit.Period
	if len(k.known) == 1 {
		left += k.known[0].Units(now, k.sub)
	} else {
		for i := range k.known {
			left += k.known[i].Units(now, k.sub) / k.sub.Period * k.limit.Period
		}
	}
	return min(left, k.limit.Units())
}

// wait is how long until a take of cost tokens can be let through, if nobody else
// takes any.
func (k *pocket) wait(now, cost int64) int64 {
	missing := cost - k.Held(now)
	if len(k.known) == 1 {
		return k.known[0].Wait(now, missing)
	}
	for i := range k.known {
		missing -= k.known[i].Units(now, k.sub) / k.sub.Period
	}
	// As many whole tokens more from each, but of one token only from the first that
	// has it.
	each := max((missing+k.shards-1)/k.shards, 0)
	var first, last int64 = keys.MaxExact, 0
	for i := range k.known {
		w := k.known[i].Wait(now, k.known[i].Units(now, k.sub)/k.sub.Period+each)
		first, last = min(first, w), max(last, w)
	}
	if missing == 1 {
		return first
	}
	return last
}
