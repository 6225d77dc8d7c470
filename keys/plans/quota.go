package plans

import (
	"context"
	"sync"
	"time"

	"github.com/guardd/guardd/keys"
)

// Quotas count by the calendar, and what is spent does not flow back before the
// period ends: no bucket holds that exactly (a month has 2.7e12 microseconds, and
// capacity times that leaves the exact range at 3,400 tokens). So each instance
// draws tokens from a Ledger in batches and spends them here. However many
// instances there are and whichever dies, no more than the quota is ever drawn; what
// one that is killed had in hand is lost, and that is no more than it spends in a
// second (quotaBatch).
type quotas struct {
	t *Taker

	mu  sync.Mutex
	all map[quotaKey]*drawer
}

type quotaKey struct {
	key  keys.Account
	rule string
}

// drawer is what an instance has in hand of one key's quota.
type drawer struct {
	mu   sync.Mutex
	gone bool // given up: look for another

	who   Digest
	id    UsageID
	end   int64 // of the period
	limit int64 // in force when it was last looked at

	hand  int64 // drawn and not spent
	drawn int64 // in the ledger, as of when it was last asked
	known bool  // it was asked
	asked int64 // when
	dry   int64 // it had too little for so many: not asked again before
	many  int64
	owed  int64 // spent while the ledger was gone, and not drawn yet
	alone int64 // of those: what was granted on one's own account in this period

	second, spent, before int64 // this second, spent in it, and in the one before
	touched               int64
}

const (
	// quotaPart bounds a batch: of what is left a sixteenth, so that no instance has
	// in hand what others look for when little is left.
	quotaPart = 16
	// quotaAgain is how often a ledger that has too little is asked again, in
	// microseconds: others may have given some back, or the limit is another.
	quotaAgain = keys.Second
	// quotaIdle is after how long without a take what is in hand is given back, and
	// quotaForget after how long the drawer is forgotten.
	quotaIdle, quotaForget = 2 * keys.Second, 600 * keys.Second
	// drawersMost bounds the drawers: more keys draw what they need each time.
	drawersMost = 1 << 16
	// ledgerTime bounds one call of the ledger.
	ledgerTime = 500 * time.Millisecond
)

func newQuotas(t *Taker) *quotas { return &quotas{t: t, all: map[quotaKey]*drawer{}} }

// spend is what a take got of one quota.
type spend struct {
	d      *drawer
	id     UsageID
	tokens int64
}

// batch is how much is drawn at once: what was spent in the second before.
func (d *drawer) batch() int64 {
	left := max(d.limit-d.drawn, 0)
	return min(max(d.before, d.spent), left/quotaPart)
}

// tick takes note of the time.
func (d *drawer) tick(now int64) {
	switch s := now / keys.Second; {
	case s == d.second:
	case s == d.second+1:
		d.second, d.spent, d.before = s, 0, d.spent
	default:
		d.second, d.spent, d.before = s, 0, 0
	}
}

// drawer finds one, or makes it. It is locked. Beyond drawersMost it is kept only if it
// must be.
func (q *quotas) drawer(k quotaKey, must bool) *drawer {
	for {
		q.mu.Lock()
		d := q.all[k]
		if d == nil {
			d = &drawer{}
			if must || len(q.all) < drawersMost {
				q.all[k] = d
			}
		}
		q.mu.Unlock()
		d.mu.Lock()
		if !d.gone {
			return d
		}
		d.mu.Unlock()
	}
}

// clock is by what a request's period is chosen: the moment that it is let in.
func (q *quotas) clock() int64 {
	if q.t.c.Now != nil {
		return q.t.c.Now()
	}
	return time.Now().UnixMicro()
}

// take takes cost of one quota, 0 to look. no is what the answer says of it.
func (q *quotas) take(ctx context.Context, who Digest, x *bound, cost int64) (got spend, l LimitState, degraded bool) {
	key := q.t.c.LedgerID(who)
	now := q.clock()
	start, end := x.calendar.Period(time.UnixMicro(now))
	d := q.drawer(quotaKey{key, x.Name}, false)
	defer d.mu.Unlock()
	if id := (UsageID{key, x.usageRule(), start.UnixMicro()}); d.id != id {
		q.turn(ctx, d, id)
	}
	if d.limit != x.Capacity {
		d.limit, d.dry = x.Capacity, 0
	}
	d.who, d.end, d.touched = who, end.UnixMicro(), now
	d.tick(now)
	l = LimitState{Rule: x.Name, Limit: keys.Limit{Capacity: x.Capacity, Period: 1}, Cost: cost, Begins: start, Ends: end, Reset: time.Duration(d.end-now) * time.Microsecond}
	if cost > x.Capacity {
		l.Left = d.left()
		return spend{}, l, false
	}
	if d.asks(cost, now) {
		degraded = q.draw(ctx, d, cost, now) != nil
	}
	need := max(cost, 1)
	switch {
	case d.hand >= need, cost == 0 && !degraded && d.left() >= 1:
		l.Allowed = true
		d.hand -= cost
	case degraded && q.grant(d, x, need):
		l.Allowed = true
		d.owed, d.alone = d.owed+cost, d.alone+cost
	case degraded:
		l.Wait = leastRetry
	default:
		l.Wait = l.Reset
	}
	l.Left = d.left()
	if l.Allowed && cost > 0 {
		d.spent += cost
		got = spend{d, d.id, cost}
	}
	if !l.Allowed && degraded { // what is there cannot be had
		l.Left = 0
	}
	return got, l, degraded
}

// asks reports whether the ledger is to be asked: for what is not in hand, unless it
// had too little just now; by a look, if that was never known or is of some time ago.
func (d *drawer) asks(cost, now int64) bool {
	if cost == 0 {
		return d.hand == 0 && (!d.known || d.asked+quotaAgain <= now)
	}
	return d.hand < cost && (!d.known || d.dry <= now || cost-d.hand < d.many)
}

// left is what this instance can still spend, as far as it knows.
func (d *drawer) left() int64 { return max(d.limit-d.drawn-d.owed, 0) + d.hand }

// draw asks the ledger for what is needed, and a batch more; for a cost of 0 only how
// much there is.
func (q *quotas) draw(ctx context.Context, d *drawer, cost, now int64) error {
	least, most := max(cost-d.hand, 0), int64(0)
	if cost > 0 {
		most = max(least, d.batch())
	}
	owed := d.owed
	var got, drawn int64
	var reached []int
	err := q.change(ctx, d.id, d.end, func(u Usage) (Usage, bool) {
		u = u.charge(owed)
		u, got = u.draw(d.limit, least, most)
		drawn = u.Drawn
		was := u
		u, reached = u.tell(d.limit)
		return u, got > 0 || owed > 0 || u != was
	})
	if err != nil {
		return err
	}
	d.owed, d.alone = d.owed-owed, 0
	d.hand += got
	d.drawn, d.known, d.asked, d.dry = drawn, true, now, 0
	if got < least {
		d.dry, d.many = now+quotaAgain, least
	}
	q.tell(d, reached)
	return nil
}

// grant is what is let through while the ledger is gone: as the rule's failure says.
// Local grants an instance's share of what was left when the ledger last answered,
// and of a quota of which nothing is known keys.MinShare.
func (q *quotas) grant(d *drawer, x *bound, need int64) bool {
	switch x.Failure {
	case Closed:
		return false
	case Open:
		return true
	}
	share := min(keys.MinShare, d.limit)
	if n := q.t.instances(); d.known && n > 0 {
		share = max(d.limit-d.drawn, 0) / n
	}
	return d.alone+need <= share
}

// turn begins a period: what is in hand of the one before goes back, for the
// record, and what is owed is charged to it.
func (q *quotas) turn(ctx context.Context, d *drawer, id UsageID) {
	q.settleUp(ctx, d)
	if d.owed > 0 { // the ledger is gone
		q.remember(d.id, d.end, d.limit, d.owed)
	}
	d.id, d.hand, d.drawn, d.known, d.dry, d.owed, d.alone = id, 0, 0, false, 0, 0, 0
}

// remember keeps what is owed to a period that is over until the ledger takes it.
func (q *quotas) remember(id UsageID, end, limit, owed int64) {
	k := quotaKey{id.Key, id.Rule + "\x00" + time.UnixMicro(id.Start).UTC().Format(time.RFC3339)} // no rule's name
	d := q.drawer(k, true)
	d.id, d.end, d.limit, d.owed = id, end, limit, d.owed+owed
	d.mu.Unlock()
}

// settleUp books what is owed, and gives back what is in hand.
func (q *quotas) settleUp(ctx context.Context, d *drawer) {
	if d.hand == 0 && d.owed == 0 {
		return
	}
	hand, owed := d.hand, d.owed
	var drawn int64
	var reached []int
	d.hand = 0 // whatever becomes of the call: given back twice it would be spent twice
	err := q.change(ctx, d.id, d.end, func(u Usage) (Usage, bool) {
		u = u.charge(owed).giveBack(hand)
		drawn = u.Drawn
		u, reached = u.tell(d.limit)
		return u, true
	})
	if err != nil {
		return
	}
	d.owed, d.alone = d.owed-owed, 0
	d.drawn, d.dry = drawn, 0
	q.tell(d, reached)
}

// putBack undoes takes that came to nothing: they have been nowhere but here.
func (q *quotas) putBack(all []spend) {
	for _, s := range all {
		s.d.mu.Lock()
		if s.d.id == s.id && !s.d.gone {
			q.returned(s.d, s.tokens)
		} else {
			q.later(s, -s.tokens)
		}
		s.d.mu.Unlock()
	}
}

// returned takes tokens back into the hand, or off what is owed.
func (q *quotas) returned(d *drawer, n int64) {
	off := min(n, d.owed)
	d.owed -= off
	d.alone -= min(n, d.alone)
	d.hand += n - off
	d.spent -= min(n, d.spent)
}

// later has the ledger changed by n tokens, once, in the background.
func (q *quotas) later(s spend, n int64) {
	id, end := s.id, s.d.end
	go q.correct(context.Background(), id, end, n)
}

// correct changes what is drawn by n tokens that were spent, or were not.
func (q *quotas) correct(ctx context.Context, id UsageID, end, n int64) error {
	return q.change(ctx, id, end, func(u Usage) (Usage, bool) {
		if n < 0 {
			return u.giveBack(-n), true
		}
		return u.charge(n), true
	})
}

// keepUsage is for how long a period is kept after its end: whoever is billed for it
// asks then.
const keepUsage = 35 * keys.Day

func (q *quotas) change(ctx context.Context, id UsageID, end int64, change func(Usage) (Usage, bool)) error {
	if q.t.c.Ledger == nil {
		return ErrStore
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	err := q.t.c.Ledger.Change(ctx, id, end+keepUsage, change)
	if err != nil && q.t.c.LedgerFailed != nil {
		q.t.c.LedgerFailed(err)
	}
	return err
}

// QuotaReached is told once each time that a quota's use reaches a percentage.
type QuotaReached struct {
	Key     Digest
	Name    string // of the key, if it is registered and has one
	Rule    string
	Percent int
	Drawn   int64 // tokens: spent, and in hand at instances
	Limit   int64
	Begins  time.Time
	Ends    time.Time
}

func (q *quotas) tell(d *drawer, reached []int) {
	if q.t.c.Reached == nil {
		return
	}
	name, _ := q.t.Book().Registered(d.who)
	for _, p := range reached {
		q.t.c.Reached(QuotaReached{d.who, name.Name, d.id.Rule, p, d.drawn, d.limit, time.UnixMicro(d.id.Start).UTC(), time.UnixMicro(d.end).UTC()})
	}
}

// tidy gives back what lies idle, books what is owed, and forgets who no longer comes.
// all: everything is given back now, the process ends.
func (q *quotas) tidy(ctx context.Context, all bool) {
	q.mu.Lock()
	list := make(map[quotaKey]*drawer, len(q.all))
	for k, d := range q.all {
		list[k] = d
	}
	q.mu.Unlock()
	now := q.clock()
	for k, d := range list {
		d.mu.Lock()
		idle := now - d.touched
		if all || idle >= quotaIdle || d.owed > 0 || now >= d.end {
			q.settleUp(ctx, d)
		}
		if (all || idle >= quotaForget || now >= d.end) && d.owed == 0 && d.hand == 0 {
			d.gone = true
			q.mu.Lock()
			delete(q.all, k)
			q.mu.Unlock()
		}
		d.mu.Unlock()
	}
}
