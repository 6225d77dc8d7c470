package plans

import "context"

// InLine has what nobody waits for done before the take returns, so that a test
// that owns time knows when it is done.
func (t *Taker) InLine() { t.leases.spawned.here = true }

// Tidy is one round of Run.
func (t *Taker) Tidy(ctx context.Context) { t.leases.tidy(ctx) }

// Drain is the end of Run.
func (t *Taker) Drain(ctx context.Context) { t.leases.drain(ctx) }
