package keys

import (
	"context"
	"errors"
	"fmt"
)

var (
	_ Codes   = (*Fallback)(nil)
	_ Tallies = (*Fallback)(nil)
)

// Tally implements Tallies. While the primary is gone this instance counts
// alone, so that what may happen once may happen once on every instance.
func (f *Fallback) Tally(ctx context.Context, key string, now, window int64) (n, before int64, err error) {
	err = f.through(ctx, f.at(key), func() (err error) { n, before, err = f.tallies.Tally(ctx, key, now, window); return err })
	if err == nil || errors.Is(err, ErrAsk) {
		return n, before, err
	}
	f.failed("tally", err)
	return f.c.Local.Tally(ctx, key, f.now(now), window)
}

// SendCode implements Codes. While the primary is gone the error wraps
// ErrNoStore and the code is that of the quarter of an hour. The twin still
// sees to it that no address has mail sent for more than MaxSenderAccounts
// accounts, and none goes out while the last code lives; after MaxQuarterMails
// in a day each costs an image.
func (f *Fallback) SendCode(ctx context.Context, a *CodeAsk, ans *CodeAnswer) error {
	err := f.lost("send code", f.through(ctx, f.at(a.Key), func() error { return f.codes.SendCode(ctx, a, ans) }))
	if err == nil && a.Now == 0 {
		f.learn(ans.Now)
	}
	if !errors.Is(err, ErrNoStore) {
		return err
	}
	local := *a
	local.Deadline, local.Now = 0, f.now(a.Now)
	if bad := f.c.Local.sendCode(&local, ans, true); bad != nil && !errors.Is(bad, ErrNoStore) {
		return bad
	}
	return err
}

// LiveCode implements Codes. The error wraps ErrNoStore while the primary is
// gone: nobody knows which code lives there, and the code is the one of the
// quarter that this instance sent, if it did.
func (f *Fallback) LiveCode(ctx context.Context, key string, now int64) (Code, error) {
	var c Code
	err := f.through(ctx, f.at(key), func() (err error) { c, err = f.codes.LiveCode(ctx, key, now); return err })
	if err = f.lost("live code", err); !errors.Is(err, ErrNoStore) {
		return c, err
	}
	if local, bad := f.c.Local.LiveCode(ctx, key, f.now(now)); bad == nil {
		c = local
	}
	return c, err
}

// SpendCode implements Codes. The error wraps ErrNoStore while the primary is
// gone; the code may have been spent there. In the twin it has been if it was
// sent by it, so that its owner can have another.
func (f *Fallback) SpendCode(ctx context.Context, key string, serial, now int64) (bool, error) {
	var spent bool
	err := f.through(ctx, f.at(key), func() (err error) { spent, err = f.codes.SpendCode(ctx, key, serial, now); return err })
	if err = f.lost("spend code", err); !errors.Is(err, ErrNoStore) {
		return spent, err
	}
	if local, bad := f.c.Local.SpendCode(ctx, key, serial, f.now(now)); bad == nil {
		spent = local
	}
	return spent, err
}

// ConfirmCode implements Codes, in the primary alone: what a twin had sent needs
// no confirmation.
func (f *Fallback) ConfirmCode(ctx context.Context, key string, serial, now int64) error {
	return f.lost("confirm code", f.through(ctx, f.at(key), func() error { return f.codes.ConfirmCode(ctx, key, serial, now) }))
}

// UnsendCode implements Codes: in the primary and in the twin, whichever had it
// sent.
func (f *Fallback) UnsendCode(ctx context.Context, key string, serial, now int64) error {
	err := f.through(ctx, f.at(key), func() error { return f.codes.UnsendCode(ctx, key, serial, now) })
	if errors.Is(err, ErrAsk) {
		return err
	}
	if here := f.c.Local.UnsendCode(ctx, key, serial, f.now(now)); here != nil {
		return here
	}
	return f.lost("unsend code", err)
}

// lost says of a failure of the primary that nobody remembers.
func (f *Fallback) lost(op string, err error) error {
	if err == nil || errors.Is(err, ErrAsk) {
		return err
	}
	f.failed(op, err)
	return fmt.Errorf("%s: %w: %w", op, ErrNoStore, err)
}

// none is a primary that keeps no codes and no tallies.
type none struct{}

func (none) Tally(context.Context, string, int64, int64) (n, before int64, err error) {
	return 0, 0, ErrNoStore
}
func (none) SendCode(context.Context, *CodeAsk, *CodeAnswer) error   { return ErrNoStore }
func (none) LiveCode(context.Context, string, int64) (Code, error)   { return Code{}, ErrNoStore }
func (none) ConfirmCode(context.Context, string, int64, int64) error { return ErrNoStore }
func (none) UnsendCode(context.Context, string, int64, int64) error  { return ErrNoStore }
func (none) SpendCode(context.Context, string, int64, int64) (bool, error) {
	return false, ErrNoStore
}
