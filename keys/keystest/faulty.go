package keystest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/guardd/guardd/keys"
)

// ErrFault is what a Faulty store returns.
var ErrFault = errors.New("connection lost")

// Fault is what goes wrong with each call of a Faulty store.
type Fault int32

// The faults.
const (
	Healthy Fault = iota
	// NotDone: the call never reached the store.
	NotDone
	// ReplyLost: the store did it, and nobody heard.
	ReplyLost
	// TooLate: the store came to it after the deadline, and said so.
	TooLate
)

// Faulty is a Subject whose faults a test chooses. Both forms of a fault
// matter: who treats them alike must come out right after either.
type Faulty struct {
	Subject
	mu    sync.RWMutex // of Subject, for Replace
	fault atomic.Int32
	calls atomic.Int64
}

// Set chooses what goes wrong from now on.
func (f *Faulty) Set(fault Fault) { f.fault.Store(int32(fault)) }

// Replace puts another store behind it, as when one comes back empty. It waits for
// calls that are under way: whoever confirms a delivery does so by itself.
func (f *Faulty) Replace(s Subject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Subject = s
}

func (f *Faulty) subject() Subject {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.Subject
}

// Calls counts the calls so far.
func (f *Faulty) Calls() int64 { return f.calls.Load() }

func (f *Faulty) call(do, late func() error) error {
	f.calls.Add(1)
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch Fault(f.fault.Load()) {
	case NotDone:
		return ErrFault
	case ReplyLost:
		if err := do(); err != nil {
			return err
		}
		return ErrFault
	case TooLate:
		return late()
	}
	return do()
}

// Take implements keys.Store.
func (f *Faulty) Take(ctx context.Context, a *keys.Ask, ans *keys.Answer) error {
	return f.call(func() error {
		var lost keys.Answer
		if Fault(f.fault.Load()) == ReplyLost {
			return f.Subject.Take(ctx, a, &lost)
		}
		return f.Subject.Take(ctx, a, ans)
	}, func() error { *ans = keys.Answer{Status: keys.Late}; return nil })
}

// Give implements keys.Store.
func (f *Faulty) Give(ctx context.Context, r *keys.Return, rcp *keys.Receipt) error {
	return f.call(func() error { return f.Subject.Give(ctx, r, rcp) },
		func() error { *rcp = keys.Receipt{Status: keys.Late}; return nil })
}

// Charge implements keys.Charger where the Subject does.
func (f *Faulty) Charge(ctx context.Context, c *keys.Charge) error {
	charger, ok := f.subject().(keys.Charger)
	if !ok {
		return keys.ErrNoStore
	}
	return f.call(func() error { return charger.Charge(ctx, c) }, tooLate)
}

// Settle implements keys.Settler where the Subject does.
func (f *Faulty) Settle(ctx context.Context, s *keys.Settlement, out *keys.Settled) error {
	settler, ok := f.subject().(keys.Settler)
	if !ok {
		return keys.ErrNoStore
	}
	return f.call(func() error { return settler.Settle(ctx, s, out) }, tooLate)
}

// Lease implements keys.Leaser where the Subject does.
func (f *Faulty) Lease(ctx context.Context, a *keys.LeaseAsk, out *keys.Leased) error {
	leaser, ok := f.subject().(keys.Leaser)
	if !ok {
		return keys.ErrNoStore
	}
	var got keys.Leased
	err := f.call(func() error { return leaser.Lease(ctx, a, &got) }, tooLate)
	if err == nil {
		*out = got
	}
	return err
}

// Put implements keys.Records.
func (f *Faulty) Put(ctx context.Context, key string, value []byte, ttl int64) error {
	return f.call(func() error { return f.Subject.Put(ctx, key, value, ttl) }, func() error { return ErrFault })
}

// Revoke implements keys.Records.
func (f *Faulty) Revoke(ctx context.Context, key string, now, ttl int64) (stamp int64, err error) {
	err = f.call(func() (err error) { stamp, err = f.Subject.Revoke(ctx, key, now, ttl); return err }, func() error { return ErrFault })
	if err != nil {
		stamp = 0
	}
	return stamp, err
}

// Tally implements keys.Tallies.
func (f *Faulty) Tally(ctx context.Context, key string, now, window int64) (n, before int64, err error) {
	err = f.call(func() (err error) { n, before, err = f.Subject.Tally(ctx, key, now, window); return err }, tooLate)
	if err != nil {
		n, before = 0, 0
	}
	return n, before, err
}

// SendCode implements keys.Codes.
func (f *Faulty) SendCode(ctx context.Context, a *keys.CodeAsk, ans *keys.CodeAnswer) error {
	var got keys.CodeAnswer
	err := f.call(func() error { return f.Subject.SendCode(ctx, a, &got) }, tooLate)
	if err == nil {
		*ans = got
	}
	return err
}

// LiveCode implements keys.Codes.
func (f *Faulty) LiveCode(ctx context.Context, key string, now int64) (c keys.Code, err error) {
	err = f.call(func() (err error) { c, err = f.Subject.LiveCode(ctx, key, now); return err }, tooLate)
	if err != nil {
		c = keys.Code{}
	}
	return c, err
}

// SpendCode implements keys.Codes.
func (f *Faulty) SpendCode(ctx context.Context, key string, serial, now int64) (spent bool, err error) {
	err = f.call(func() (err error) { spent, err = f.Subject.SpendCode(ctx, key, serial, now); return err }, tooLate)
	return spent && err == nil, err
}

// ConfirmCode implements keys.Codes.
func (f *Faulty) ConfirmCode(ctx context.Context, key string, serial, now int64) error {
	return f.call(func() error { return f.Subject.ConfirmCode(ctx, key, serial, now) }, tooLate)
}

// UnsendCode implements keys.Codes.
func (f *Faulty) UnsendCode(ctx context.Context, key string, serial, now int64) error {
	return f.call(func() error { return f.Subject.UnsendCode(ctx, key, serial, now) }, tooLate)
}

func tooLate() error { return keys.ErrLate }
