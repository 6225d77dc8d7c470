package main

import (
	"context"
	"time"

	"github.com/guardd/guardd/api"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

// firstReading is how long to wait at the start for the database of plan limits,
// so that the first takes need not be told to come again. Without an answer guardd
// starts all the same: logins do not need it.
const firstReading = 2 * time.Second

// badRowsLogged is how many of a reading's bad rows are logged; metrics count all.
const badRowsLogged = 20

// followLimits has the database of plan limits followed to the end.
func (s *server) followLimits() error {
	if s.limitsDB == nil {
		s.metrics.watchLimits(nil)
		return nil
	}
	read := make(chan struct{}, 1)
	s.follower = s.limitsDB.NewFollower(plandb.FollowConfig{
		Region: s.config.Region,
		Last:   s.config.book,
		Swap: func(b *plans.Book, bad plans.Faults) {
			s.swapLimits(b, bad)
			select {
			case read <- struct{}{}:
			default:
			}
		},
		OnError: func(op string, err error) {
			if s.limitsLogged.due() {
				s.log.Warn("the database of plan limits does not answer: what is in force stays", "operation", op, "error", err)
			}
		},
	})
	s.metrics.watchLimits(s.follower.Stats)
	s.background(s.follower.Run)
	select {
	case <-read:
	case <-time.After(firstReading):
		s.log.Warn("no plan limits from their database yet", "limits_db", redactURL(s.config.LimitsDB), "in_force_until_then", s.config.Limits)
	}
	return nil
}

func (s *server) swapLimits(b *plans.Book, bad plans.Faults) {
	s.limits.Swap(b)
	for _, f := range bad[:min(len(bad), badRowsLogged)] {
		s.log.Error("a row of plan limits is bad: what was in force in its place stays", "field", f.Field, "reason", f.Reason)
	}
	s.tellRegions(b)
	rules, ps, ks := b.Sizes()
	s.log.Info("plan limits in force", "version", b.Version(), "rules", rules, "plans", ps, "keys", ks, "bad", len(bad))
}

// limitsDesk is the database as operators change it here: this instance has the
// change before they ask it again.
type limitsDesk struct {
	*plandb.DB
	follower *plandb.Follower
}

// Change is DB's.
func (d *limitsDesk) Change(ctx context.Context, o plans.Order) ([]plans.Record, error) {
	records, err := d.DB.Change(ctx, o)
	d.follower.Refresh()
	return records, err
}

// limitsStore is nil where there is no database.
func (s *server) limitsStore() api.LimitsStore {
	if s.limitsDB == nil {
		return nil
	}
	return &limitsDesk{s.limitsDB, s.follower}
}
