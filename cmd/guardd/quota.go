package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"
	_ "time/tzdata" // a container may have no zones, and a quota's would be refused there

	"github.com/guardd/guardd/aggregate"
	"github.com/guardd/guardd/escalation"
	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

// quotasWaiting is how many findings of quotas wait for the bus.
const quotasWaiting = 1024

// ledger is where quotas are kept: the database of plan limits, or else the store.
func (s *server) ledger() plans.Ledger {
	if s.limitsDB != nil {
		return s.limitsDB.Ledger()
	}
	return plans.StoreLedger(s.keeper)
}

// ledgerID names a key in the ledger: in the database, which has its SHA-256 anyway, by
// that. The store's names are made with a secret, which may end with the process.
func (s *server) ledgerID() func(plans.Digest) keys.Account {
	if s.limitsDB == nil {
		return nil
	}
	return func(d plans.Digest) keys.Account { return keys.Account(d[:16]) }
}

// ledgerFailed counts, and logs the first of many.
func (s *server) ledgerFailed(err error) {
	s.metrics.ledgerFailures.Inc()
	if s.ledgerLogged.due() {
		s.log.Warn("quotas cannot be counted: what is drawn of them is spent, and then it goes by each rule's failure", "error", err)
	}
}

// quotaReached has it told, in the background.
func (s *server) quotaReached(q plans.QuotaReached) {
	f := findingOfQuota(&q)
	s.log.Info("a quota is used", "sha256", q.Key.String(), "name", q.Name, "rule", q.Rule, "percent", q.Percent, "drawn", q.Drawn, "quota", q.Limit)
	select {
	case s.quotaFindings <- f:
	default:
		s.log.Error("a finding about a quota has no room", "id", f.ID)
	}
}

// findingOfQuota is the same whoever tells it.
func findingOfQuota(q *plans.QuotaReached) aggregate.Finding {
	now := time.Now().UTC()
	return aggregate.Finding{V: aggregate.FindingVersion, Realm: escalation.DefaultRealm, What: aggregate.QuotaReached, State: aggregate.FindingOnce,
		ID:    fmt.Sprintf("%s-%s-%s-%s-%d-%d", aggregate.QuotaReached, q.Key, q.Rule, strconv.FormatInt(q.Begins.Unix(), 36), q.Limit, q.Percent),
		Start: now, Last: now, Reason: fmt.Sprintf("%d %% of quota %s: %d of %d tokens, until %s", q.Percent, q.Rule, q.Drawn, q.Limit, q.Ends.Format(time.RFC3339)),
		Groups: []aggregate.FindingGroup{{Kind: "api_key", Key: cmp.Or(q.Name, q.Key.String())}, {Kind: "rule", Key: q.Rule}}}
}

// publishQuotas publishes what is told of quotas until ctx ends; what the bus does not
// take is tried again, and has the same id then.
func (s *server) publishQuotas(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-s.quotaFindings:
			b, err := f.AppendTo(nil)
			for err == nil {
				if err = s.bus.Publish(ctx, aggregate.TopicFindings, []aggregate.Message{{Key: f.Realm, Value: b}}); err == nil {
					s.quotasTold.Add(1)
					break
				}
				if s.ledgerLogged.due() {
					s.log.Warn("what is told of a quota is not published: it is tried again", "error", err)
				}
				err = nil
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
				}
			}
		}
	}
}

// toldMoments counts the findings of a moment that this instance has published.
func (s *server) toldMoments(realm, what string) uint64 {
	n := s.moments.Told(realm, what)
	if what == aggregate.QuotaReached && realm == escalation.DefaultRealm {
		n += s.quotasTold.Load()
	}
	return n
}

// forgetUsage deletes, now and then, what was drawn in periods that are long over.
func (s *server) forgetUsage(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := s.limitsDB.ForgetUsage(ctx, time.Now().UnixMicro()); err != nil {
				s.ledgerFailed(err)
			}
		}
	}
}

func (s *server) liveInstances() int64 {
	if s.live == nil {
		return 1
	}
	return int64(s.live.Count())
}
