package plans

import "context"

// InLine has what nobody waits for done before the take returns, so that a test
// that owns time knows when it is done.
func (t *Taker) InLine() { t.leases.spawned.here = true }

// Tidy is one round of Run.
func (t *Taker) Tidy(ctx context.Context) { t.leases.tidy(ctx) }

// TidyQuotas and CloseQuotas are what Run does now and then, and at its end.
func (t *Taker) TidyQuotas(ctx context.Context) { t.quotas.tidy(ctx, false) }

func (t *Taker) CloseQuotas(ctx context.Context) { t.quotas.tidy(ctx, true) }

// Drain is the end of Run.
func (t *Taker) Drain(ctx context.Context) { t.leases.drain(ctx) }
