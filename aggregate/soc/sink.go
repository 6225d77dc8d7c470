package soc

import (
	"context"
	"errors"
	"time"
)

// Sink is where records go. An Outlet calls it from one goroutine.
type Sink interface {
	// Deliver brings records, in their order. It returns how many of them, from the
	// first, have been taken for good; where that is not all, the error says why the
	// next was not: if it is ErrRefused it never will be, else it is tried again,
	// and may have arrived.
	Deliver(ctx context.Context, records []*Record) (done int, err error)
	// Close hangs up.
	Close() error
}

// Keeper is a Sink that forgets what it is not told again: as Alertmanager does
// with alerts. What it is told of a campaign that is open is kept on the bus, so
// that a successor tells it again.
type Keeper interface {
	Sink
	// Again tells it of what is open, and is called each Every.
	Again(ctx context.Context) error
	Every() time.Duration
}

// ErrRefused marks a record that a sink will not take, however often it is tried.
var ErrRefused = errors.New("refused for good")

// After is an error of a sink that says when to try again.
type After struct {
	Err  error
	Wait time.Duration // at least
}

// Error is Err's.
func (a *After) Error() string { return a.Err.Error() }

// Unwrap is Err.
func (a *After) Unwrap() error { return a.Err }
