package keys

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	// OnError is told of every failure of the primary: op is take, give, put,
	// revoke, tally, send code, live code, spend code or unsend code. nil: nobody is. It must not block.
	OnError func(op string, err error)
}

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

	mu     sync.RWMutex
	shares map[*Rules]*Rules
}

// sharesKept bounds the compiled shares: policies come and go with reloads.
const sharesKept = 64

// NewFallback returns a Fallback.
func NewFallback(c FallbackConfig) *Fallback {
	f := &Fallback{c: c, shares: map[*Rules]*Rules{}}
	f.c.Instances = max(c.Instances, 1)
	f.records, _ = c.Primary.(Records)
	f.tallies, f.codes = none{}, none{}
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
	err := f.c.Primary.Take(ctx, a, ans)
	if err == nil && a.Now == 0 && !ans.Replayed {
		f.learn(ans.Now)
	}
	if err == nil && ans.Status == Late {
		err = ErrLate
	}
	if err == nil || errors.Is(err, ErrAsk) {
		return err
	}
	f.failed("take", err)
	local := *a
	local.Rules = f.share(a.Rules)
	local.Deadline = 0 // it is all that is left to answer
	local.Now = f.now(a.Now)
	err = f.c.Local.Take(ctx, &local, ans)
	ans.Degraded = true
	return err
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
	err := f.c.Primary.Give(ctx, &book, rcp)
	if err == nil && r.Now == 0 {
		f.learn(rcp.Now)
	}
	if err == nil && rcp.Status == Late {
		err = ErrLate
	}
	if errors.Is(err, ErrAsk) {
		return err
	}
	if err != nil {
		f.failed("give", err)
	} else if !r.Local || !rcp.Recorded {
		return nil
	}
	local := *r
	local.Deadline = 0
	local.Now = f.now(r.Now)
	if !r.Local {
		local.Took = nil
	} else if len(r.Took) > 0 && r.Rules != nil {
		local.Rules = f.share(r.Rules)
	}
	if err != nil {
		err = f.c.Local.Give(ctx, &local, rcp)
		rcp.Degraded = true
		return err
	}
	// The primary has booked it; only the tokens are here. The twin's own mark
	// makes sure that they come back once, whatever the primary had lost.
	local.PlaceKey, local.FailuresKey = "", ""
	var here Receipt
	err = f.c.Local.Give(ctx, &local, &here)
	rcp.Gave = here.Gave
	return err
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
	if err != nil {
		f.failed("revoke", err)
		stamp = f.now(now)
	}
	here, lerr := f.c.Local.Revoke(ctx, key, stamp, ttl)
	if err == nil {
		err = lerr
	}
	return max(stamp, here), err
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

func (f *Fallback) failed(op string, err error) {
	if f.c.OnError != nil {
		f.c.OnError(op, err)
	}
}

// share compiles this instance's share of rules, once per policy.
func (f *Fallback) share(r *Rules) *Rules {
	f.mu.RLock()
	s := f.shares[r]
	f.mu.RUnlock()
	if s != nil || r == nil {
		return s
	}
	s = r.WithShare(int64(f.c.Instances))
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.shares) >= sharesKept {
		clear(f.shares)
	}
	f.shares[r] = s
	return s
}
