package main

import (
	"context"
	"errors"
	"time"

	"github.com/guardd/guardd/keys/plans"
)

// errUsedUp: others have taken what this answer would go on with.
var errUsedUp = errors.New("the limit is used up")

// settleEvery is how long a reservation is let run: it expires, charged as
// estimated, after plans.ReservationExpiry.
const settleEvery = plans.ReservationExpiry / 2

// meter charges one answer for what it turns out to be. It is for one goroutine.
type meter struct {
	taker *plans.Taker
	now   func() time.Time
	key   string
	rule  string

	reservation string
	since       time.Time
	reserved    int64 // by the reservation
	used        int64 // of it
}

// reserve asks for the most that is still to come. The decision is nil where
// nobody knows.
func (m *meter) reserve(ctx context.Context, tokens int64) (*plans.Decision, error) {
	d, err := m.taker.Take(ctx, &plans.Request{Key: m.key, Rules: []string{m.rule}, Cost: tokens, Reserve: true})
	if err != nil {
		return nil, err
	}
	m.reservation, m.since, m.reserved, m.used = d.Reservation, m.now(), tokens, 0
	return d, nil
}

// count adds tokens that were sent. An answer that takes long is settled meanwhile,
// and what is still to come is reserved anew.
func (m *meter) count(ctx context.Context, tokens int64) error {
	m.used += tokens
	rest := m.reserved - m.used
	if m.now().Sub(m.since) < settleEvery || rest <= 0 {
		return nil
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	switch d, err := m.reserve(ctx, rest); {
	case err != nil:
		return err
	case !d.Allowed:
		return errUsedUp
	}
	return nil
}

// settle says what was used of the reservation, once.
func (m *meter) settle(ctx context.Context) error {
	if m.reservation == "" {
		return nil
	}
	_, err := m.taker.Settle(ctx, m.reservation, m.used)
	m.reservation = ""
	return err
}
