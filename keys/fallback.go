package keys

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/guardd/guardd/keys/trace"
)

// FallbackConfig wires a Fallback.
type FallbackConfig struct {
	// Primary is the shared store. It is asked first, and once: a deadline is
	// spent on it alone. If it is a Records too, marks are put there; if it is not
	// Codes and Tallies too, those are for ever in an outage.
	Primary Store
	// Local is this instance's twin.
	Local *Memory
	// Instances is how many instances live off the shared store; each gives its
	// share of every limit while the store is gone. At least 1.
	Instances int
	// Live, when set, counts them instead (Live.Count): 0 means that nobody
	// knows, and the share is the least that there is.
	Live func() int
	// Breakers stand before the primary, so that what is dead of it costs a
	// deadline now and then and not one a call. Put and Revoke pass them by: they
	// are few, and must not miss a store that has just come back. nil: none.
	Breakers *Breakers
	// Heart says that heartbeats through the same breakers (Live) are their probes.
	// Then no attempt waits for a store that is gone, and none is let through there
	// before what the fleet owes has come back.
	Heart bool
	// Deadline bounds a Take that has to return what is owed first, and so calls
	// the primary twice. 0: each call has only the bound that the primary gives it.
	Deadline time.Duration
	// OnError is told of every failure of the primary: op is one of Operations.
	// nil: nobody is. It must not block.
	OnError func(op string, err error)
}

// Operations are the words that OnError can be told, for metrics.
var Operations = []string{"take", "give", "charge", "put", "revoke", "tally", "send code", "live code", "spend code", "confirm code", "unsend code", "settle", "lease", "acquire", "release"}

// ErrLate is what OnError is told when the primary came to an ask after its
// deadline.
var ErrLate = errors.New("the store came to it after the deadline")

// ErrRecords means that the primary keeps no records.
var ErrRecords = errors.New("the store keeps no records")

// Fallback is a Store made of two: friction degrades, service does not. When
// the primary fails or is late, the twin answers at once, at this instance's
// share of every limit, and the answer is marked Degraded. It goes on by the
// primary's clock as last seen, because tokens that the primary's time was
// sealed into must count in an outage, and the reverse. A fault has two
// forms, it did not happen, or it happened and the reply was lost; nobody can
// tell them apart, so in the second a guess is counted twice, never not at all.
// It is safe for concurrent use.
type Fallback struct {
	c       FallbackConfig
	records Records // nil: none
	tallies Tallies // never nil, as codes
	codes   Codes
	ahead   atomic.Int64 // the primary's clock less the twin's

	charger  Charger // nil: the primary cannot be charged, and nothing is owed
	debts    *debts
	returned atomic.Uint64

	mu     sync.RWMutex
	shares map[shareOf]*Rules
}

type shareOf struct {
	rules     *Rules
	instances int64
}

// sharesKept bounds the compiled shares: policies come and go with reloads.
const sharesKept = 64

// NewFallback returns a Fallback.
func NewFallback(c FallbackConfig) *Fallback {
	f := &Fallback{c: c, shares: map[shareOf]*Rules{}}
	f.c.Instances = max(c.Instances, 1)
	f.records, _ = c.Primary.(Records)
	f.tallies, f.codes = none{}, none{}
	if f.charger, _ = c.Primary.(Charger); f.charger != nil {
		f.debts = newDebts()
	}
	if t, ok := c.Primary.(Tallies); ok {
		f.tallies = t
	}
	if k, ok := c.Primary.(Codes); ok {
		f.codes = k
	}
	return f
}

// Take implements Store.
func (f *Fallback) Take(ctx context.Context, a *Ask, ans *Answer) error {
	at, err := f.at(first(a.Keys)), ErrOpen
	if !a.Alone {
		err = f.through(ctx, at, func() error { return f.takeShared(ctx, at, a, ans) })
	}
	if err == nil {
		f.c.Local.mirror(a, ans, !f.debts.unpaid(a.Keys))
		return nil
	}
	if errors.Is(err, ErrAsk) {
		return err
	}
	f.failed("take", err)
	local := *a
	local.Rules, local.gone = f.share(a.Rules), a.StoreGone
	local.Deadline = 0 // it is all that is left to answer
	local.Now = f.now(a.Now)
	stop := trace.Begin(ctx, trace.Twin)
	err = f.c.Local.Take(ctx, &local, ans)
	stop.End()
	ans.Degraded, ans.NextProbe = true, f.nextProbe(at)
	if err == nil && f.debts != nil {
		f.debts.add(&local, a.Rules, ans)
	}
	return err
}

// takeShared asks the primary, which gets back first what this ask's buckets owe.
func (f *Fallback) takeShared(ctx context.Context, at *Breaker, a *Ask, ans *Answer) error {
	if f.debts.any() {
		var cancel context.CancelFunc
		ctx, cancel = f.within(ctx) // both calls together
		defer cancel()
		if err := f.settle(ctx, at, a); err != nil {
			return err
		}
	}
	if err := f.c.Primary.Take(ctx, a, ans); err != nil {
		return err
	}
	if a.Now == 0 && !ans.Replayed {
		f.learn(ans.Now)
	}
	if ans.Status == Late {
		return ErrLate
	}
	return nil
}

// Give implements Store. The outcome is booked in the primary; in the twin
// while the primary is gone, but then nothing is given back there, because it
// was not taken there. An attempt that the twin answered gets back from the
// twin's buckets.
func (f *Fallback) Give(ctx context.Context, r *Return, rcp *Receipt) error {
	book := *r
	if r.Local {
		book.Took = nil
	}
	err := f.through(ctx, f.at(r.OutcomeKey), func() error {
		if err := f.c.Primary.Give(ctx, &book, rcp); err != nil {
			return err
		}
		if r.Now == 0 {
			f.learn(rcp.Now)
		}
		if rcp.Status == Late {
			return ErrLate
		}
		return nil
	})
	if errors.Is(err, ErrAsk) {
		return err
	}
	switch {
	case err != nil:
		f.failed("give", err)
	case !r.Local:
		f.c.Local.mirrorOutcome(r, rcp)
		return nil
	case !rcp.Recorded:
		return nil
	}
	local := *r
	local.Deadline = 0
	local.Now = f.now(r.Now)
	if r.Local {
		local.Rules = f.share(r.Rules)
	} else {
		local.Took = nil
	}
	if err != nil {
		stop := trace.Begin(ctx, trace.Twin)
		err = f.c.Local.Give(ctx, &local, rcp)
		stop.End()
		rcp.Degraded = true
		f.forgive(&local, rcp)
		return err
	}
	// The primary has booked it; only the tokens are here. The twin's own mark
	// makes sure that they come back once, whatever the primary had lost.
	local.PlaceKey, local.FailuresKey = "", ""
	var here Receipt
	err = f.c.Local.Give(ctx, &local, &here)
	rcp.Gave = here.Gave
	f.forgive(&local, &here)
	return err
}

// forgive takes back what an attempt still owes the shared store, when the twin
// has given it back. What has been charged there by then stays: nobody can say
// how much of it was this attempt's.
func (f *Fallback) forgive(r *Return, rcp *Receipt) {
	if f.debts != nil && rcp.Gave > 0 {
		f.debts.back(r, rcp.Now)
	}
}

// Put implements Records: in the primary, whose failure is returned, and in the
// twin, so that an outage knows what was known.
func (f *Fallback) Put(ctx context.Context, key string, value []byte, ttl int64) error {
	if err := f.c.Local.Put(ctx, key, value, ttl); err != nil {
		return err
	}
	if f.records == nil {
		return ErrRecords
	}
	err := f.records.Put(ctx, key, value, ttl)
	if err != nil {
		f.failed("put", err)
	}
	return err
}

// Revoke implements Records. An error means that other instances may not know
// of it yet: repeat it. This instance does, either way.
func (f *Fallback) Revoke(ctx context.Context, key string, now, ttl int64) (int64, error) {
	if f.records == nil {
		return 0, ErrRecords
	}
	stamp, err := f.records.Revoke(ctx, key, now, ttl)
	if err == nil {
		f.c.Local.learnRevoked(key, stamp, ttl)
		return stamp, nil
	}
	f.failed("revoke", err)
	if stamp, lerr := f.c.Local.Revoke(ctx, key, f.now(now), ttl); lerr == nil {
		return stamp, err
	}
	return 0, err
}

// learn takes in the time of a fresh answer of the primary, if it gave one.
func (f *Fallback) learn(primary int64) {
	if primary > 0 {
		f.ahead.Store(primary - f.c.Local.now())
	}
}

// now is the primary's time as far as the twin knows it, unless the caller owns
// time.
func (f *Fallback) now(owned int64) int64 {
	if owned != 0 {
		return owned
	}
	return min(max(f.c.Local.now()+f.ahead.Load(), 1), MaxExact)
}

func (f *Fallback) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.c.Deadline <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, f.c.Deadline)
}

// at is the breaker before what key lives on; nil: none.
func (f *Fallback) at(key string) *Breaker {
	if f.c.Breakers == nil {
		return nil
	}
	return f.c.Breakers.At(key)
}

// first of the keys of one slot; what has none is refused by the store.
func first(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// pass asks a breaker for leave to ask the primary.
func (f *Fallback) pass(at *Breaker) (Pass, error) {
	if at == nil {
		return Pass{}, nil
	}
	ask := at.Closed
	if !f.c.Heart {
		ask = func() (Pass, bool) { return at.Ask(f.c.Local.now()) }
	}
	if p, ok := ask(); ok {
		return p, nil
	}
	return Pass{}, ErrOpen
}

// through asks the primary, if the breaker before it lets it.
func (f *Fallback) through(ctx context.Context, at *Breaker, call func() error) error {
	pass, err := f.pass(at)
	if err != nil {
		return err
	}
	err = call()
	f.tell(ctx, at, pass, err)
	return err
}

// tell says to the breaker what became of a call.
func (f *Fallback) tell(ctx context.Context, at *Breaker, p Pass, err error) {
	if at != nil {
		at.Tell(p, f.c.Local.now(), resultOf(ctx, err))
	}
}

// resultOf is what an error says about the store that it is of. A visitor who
// hangs up must not open a breaker.
func resultOf(ctx context.Context, err error) Result {
	switch {
	case err == nil:
		return Worked
	case errors.Is(err, ErrAsk), errors.Is(err, ErrNoStore), err == errOwing, errors.Is(ctx.Err(), context.Canceled):
		return Void
	}
	return Failed
}

// nextProbe is the time in microseconds until what is behind a breaker is asked
// again, 0 where it is asked at once: what was refused only because this instance
// gives no more than its share may be worth another try then.
func (f *Fallback) nextProbe(at *Breaker) int64 {
	if at == nil {
		return 0
	}
	return at.Next(f.c.Local.now())
}

// Breakers counts what those before the primary have done: all, and each.
func (f *Fallback) Breakers() (all BreakerStats, each []PartStats) {
	if f.c.Breakers == nil {
		return all, nil
	}
	return f.c.Breakers.Stats(f.c.Local.now())
}

// failed tells of a failure; calls that the breaker held back it counts itself.
func (f *Fallback) failed(op string, err error) {
	if f.c.OnError != nil && err != ErrOpen && err != errOwing {
		f.c.OnError(op, err)
	}
}

// instances is how many share the limits.
func (f *Fallback) instances() int64 {
	if f.c.Live == nil {
		return int64(f.c.Instances)
	}
	if n := f.c.Live(); n > 0 {
		return int64(n)
	}
	return MaxInstances
}

// share compiles this instance's share of rules, once per policy and count.
func (f *Fallback) share(r *Rules) *Rules {
	of := shareOf{r, f.instances()}
	f.mu.RLock()
	s := f.shares[of]
	f.mu.RUnlock()
	if s != nil || r == nil {
		return s
	}
	s = r.WithShare(of.instances)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.shares) >= sharesKept {
		clear(f.shares)
	}
	f.shares[of] = s
	return s
}
