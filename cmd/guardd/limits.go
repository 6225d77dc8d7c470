package main

import (
	"os"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plandb"
	"github.com/guardd/guardd/keys/plans"
)

// loadLimits reads and compiles the file of plan limits; without one there are
// none, or those of the database, once it has answered. At start and at a reload
// a fault refuses the whole file.
func (c *config) loadLimits(bad *faults) {
	if c.Limits == "" && c.LimitsDB != "" {
		c.book = plans.Unknown()
		return
	}
	var d plans.Definition
	if c.Limits != "" {
		f, err := os.Open(c.Limits)
		if err != nil {
			bad.add("limits", "%v", err)
			return
		}
		defer f.Close()
		if wrong := decode(f, c.Limits, &d); len(wrong) > 0 {
			*bad = append(*bad, wrong...)
			return
		}
	}
	book, wrong := plans.CompileIn(c.Region, &d, versionOf(&d), nil)
	for _, f := range wrong {
		bad.add(f.Field, "%s (in %s)", f.Reason, c.Limits)
	}
	c.book = book
}

func (c *config) checkLimitsDB(bad *faults) {
	if c.LimitsDB == "" {
		return
	}
	if db, err := plandb.Open(c.LimitsDB); err != nil {
		bad.add("limits_db", "%v", err)
	} else {
		db.Close()
	}
}

// openLimits makes what decides about plan limits.
func (s *server) openLimits(st store) error {
	if s.config.LimitsDB != "" {
		db, err := plandb.Open(s.config.LimitsDB)
		if err != nil {
			return err
		}
		s.undo.push(db.Close)
		s.limitsDB = db
		s.background(s.forgetUsage)
	}
	s.limits = plans.NewTaker(plans.Config{
		Store: st, Sealer: s.secrets.Reservations(), Slots: s.secrets.Slots(), Instance: s.instance,
		Hash:     func(d plans.Digest) keys.Account { return s.guard.CallerHash(d) },
		Recorder: func(_ *plans.Request, d *plans.Decision) { s.metrics.took(d) }, SlotRecorder: s.metrics.slotted,
		Evidence: s.openEvidence(),
		Ledger:   s.ledger(), LedgerID: s.ledgerID(), LedgerFailed: s.ledgerFailed, Reached: s.quotaReached, Instances: s.liveInstances,
	})
	s.limits.Swap(s.config.book)
	s.metrics.watchLeases(s.limits.Leases)
	s.background(s.limits.Run)
	if rules, ps, ks := s.config.book.Sizes(); rules > 0 {
		s.log.Info("plan limits in force", "file", s.config.Limits, "rules", rules, "plans", ps, "keys", ks)
	}
	s.tellRegions(s.config.book)
	return s.followLimits()
}

// reloadLimits is what SIGHUP does to plan limits: the file that stands in for a
// database counts at start only.
func (s *server) reloadLimits(c *config) {
	if s.follower != nil {
		s.follower.Refresh()
		return
	}
	s.limits.Swap(c.book)
	s.tellRegions(c.book)
}

// tellRegions says which rules admit more in all regions than they say.
func (s *server) tellRegions(b *plans.Book) {
	for _, r := range b.Generous() {
		sum, tokens := r.Regions.InAll(r.Capacity)
		s.log.Warn("the regions of a rule admit more in all than its capacity", "rule", r.Name, "regions", r.Regions.String(), "in_all", sum, "capacity", r.Capacity, "capacity_in_all", tokens)
	}
}
