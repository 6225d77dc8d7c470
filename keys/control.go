package keys

import (
	"context"
	"fmt"
	"net/netip"
)

// Control is what the aggregator has set of a realm: its posture, its baseline
// and its suspect networks. Epoch says which of two is the later one: it is the
// time of the events that it was worked out from, so that of two aggregators
// that read one log the one that has read further wins, whoever comes first, and
// one that reads it all again after a restart changes nothing until it is as far
// as it was.
type Control struct {
	Epoch int64
	// Learning: too little is known of the realm to say anything of its posture and
	// its baseline. They stay as another has set them; the posture lapses by itself.
	Learning bool
	Posture  Posture
	Until    int64 // when the posture lapses to Normal
	Baseline Limit // the whole realm's; zero: none is learned
	// Suspects are the networks (Address.Counted or Address.Wide) to be set, and
	// until when. A time that has passed lets one go.
	Suspects map[netip.Prefix]int64
	// Tags are the passwords' tags to be set, in the same way.
	Tags map[string]int64
}

// EpochAhead is how far ahead of the store's clock an epoch may be. Those of a
// clock that has been set back since must not stand for ever.
const EpochAhead = 5 * 60 * Second

// SuspectLifetime is the longest that a suspect network is kept.
const SuspectLifetime = Day

// ControlStore is what a Control is written to.
type ControlStore interface {
	Documents
	Records
}

// SetControl writes c in every shard at now, the store's time, and reports
// whether it did: false when a later one is there, or another of the same epoch.
// Then nothing was written, and whoever asked is behind another. An operator's
// pin is left as it is. To set what is there already, after an error too, is no
// change. ErrSubBucket when a shard's part of the baseline is too small.
func (s Spaces) SetControl(ctx context.Context, st ControlStore, c *Control, now int64) (set bool, err error) {
	if err := c.validate(now); err != nil {
		return false, err
	}
	part := c.Baseline
	if !part.Zero() {
		if part, err = part.Sub(int64(len(s))); err != nil {
			return false, err
		}
	}
	stale := false
	_, err = s.ChangeState(ctx, st, func(was State) (State, bool) {
		is := was
		is.Epoch = c.Epoch
		if !c.Learning {
			is.Posture, is.Until, is.Baseline = c.Posture, c.Until, part
		}
		stale = was != is && was.Epoch >= c.Epoch && was.Epoch <= now+EpochAhead
		return is, !stale && was != is
	})
	if err != nil || stale {
		return false, err
	}
	mark := func(name func(Space) string, until int64) error {
		// What has passed stays for a moment: there is no other way to take it away.
		ttl := min(max(until-now, Second), SuspectLifetime)
		return s.Put(ctx, st, name, EncodeUntil(min(until, now+SuspectLifetime)), ttl)
	}
	for p, until := range c.Suspects {
		if err := mark(func(s Space) string { return s.Suspect(p) }, until); err != nil {
			return false, fmt.Errorf("suspect %s: %w", p, err)
		}
	}
	for tag, until := range c.Tags {
		if err := mark(func(s Space) string { return s.SuspectTag(tag) }, until); err != nil {
			return false, fmt.Errorf("suspect password: %w", err)
		}
	}
	return true, nil
}

func (c *Control) validate(now int64) error {
	switch {
	case c.Epoch < 1 || c.Epoch > MaxExact || c.Until < 0 || c.Until > MaxExact:
		return badAsk("a control needs an epoch")
	case c.Epoch > now+EpochAhead:
		return badAsk("a control's epoch is ahead of the clock")
	case c.Posture > Critical:
		return badAsk("a control needs one of the postures")
	case !c.Baseline.Zero() && (!c.Baseline.Exact() || c.Baseline.Units() > MaxBaseline || c.Baseline.Count > MaxBaseline):
		return badAsk("a baseline's numbers are too large")
	}
	return nil
}
