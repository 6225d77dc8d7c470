package keys

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// This file brings back to the shared store what this instance let through
// alone. The shared bucket was refilled all the while; without that, what the
// instances granted would come on top, and an outage be worth two refills (40
// guesses were measured where DESIGN 1 allows 32).
//
// What was sent and not answered is sent again under the same mark, so that a
// lost reply charges nobody twice.

// errOwing means that the shared store was not asked: it is owed something, and
// has not worked since.
var errOwing = errors.New("the store is owed what was let through here, and has not worked since")

// settle pays what an ask's buckets owe before they are asked again. Nothing is
// sent before the store works: a charge that is counted early in an outage is
// refilled there in the rest of it, beside what the share refills here.
func (f *Fallback) settle(ctx context.Context, at *Breaker, a *Ask) error {
	if err := a.Validate(); err != nil {
		return err
	}
	if f.c.Heart && at.Failing() && f.debts.owes(a) {
		return errOwing
	}
	c := f.debts.of(a, f.now(a.Now))
	if c == nil {
		return nil
	}
	return f.charge(ctx, c)
}

func (f *Fallback) charge(ctx context.Context, c *charge) error {
	err := f.charger.Charge(ctx, &c.Charge)
	switch {
	case err == nil:
		f.returned.Add(1)
	case errors.Is(err, ErrAsk):
		f.debts.lost.Add(1) // it will not be better next time
	default:
		f.debts.again(c)
	}
	return err
}

// returnBatch is how many charges one round sends, and returnPause the time
// between rounds, half more or less: at most about a thousand a second of each
// instance, so that a store that has just come back is not run over.
const (
	returnBatch = 32
	returnPause = 30 * time.Millisecond
)

// Return sends one batch of what this instance let through alone to the shared
// store, in any order, and reports whether more is owed. While the breaker before
// a bucket is open it waits until a probe has worked, and goes ahead then: so what
// is owed has come back before anybody is let through there again, unless it is
// more than a second's worth.
func (f *Fallback) Return(ctx context.Context) (more bool) {
	for range returnBatch {
		if !f.debts.any() || ctx.Err() != nil || !f.returnOne(ctx) {
			break
		}
	}
	return f.debts.any()
}

// returnOne sends one charge and reports whether the next may follow.
func (f *Fallback) returnOne(ctx context.Context) bool {
	c := f.debts.next(f.now(0), f.takesCharges)
	if c == nil {
		return false
	}
	at := f.at(c.Keys[0])
	var pass Pass
	if at != nil && !at.Open() {
		var ok bool
		if pass, ok = at.Ask(f.c.Local.now()); !ok { // it has just opened
			f.debts.again(c)
			return false
		}
	} else {
		at = nil // a probe has worked: this is none
	}
	err := f.charge(ctx, c)
	f.tell(ctx, at, pass, err)
	if err != nil {
		f.failed("charge", err)
	}
	return err == nil
}

// takesCharges reports whether what key lives on may be sent what it is owed.
func (f *Fallback) takesCharges(key string) bool {
	at := f.at(key)
	switch {
	case at == nil:
		return true
	case at.Open():
		return at.Recovering()
	}
	return !f.c.Heart || !at.Failing()
}

// Run returns what is owed, whenever something is, until ctx ends.
func (f *Fallback) Run(ctx context.Context) {
	if f.debts == nil {
		return
	}
	timer := time.NewTimer(returnPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		f.Return(ctx)
		timer.Reset(returnPause/2 + rand.N(returnPause))
	}
}

// DebtStats is what became of what this instance let through alone.
type DebtStats struct {
	Owed     int    // buckets, and charges that were sent and not answered
	Returned uint64 // charges that the shared store has counted
	Lost     uint64 // debts forgotten for want of room, or not answered for too long
}

// Debts counts.
func (f *Fallback) Debts() DebtStats {
	if f.debts == nil {
		return DebtStats{}
	}
	return DebtStats{Owed: int(f.debts.size.Load()), Returned: f.returned.Load(), Lost: f.debts.lost.Load()}
}
