package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
		unread := decode(f, c.Limits, &d)
		*bad = append(*bad, unread...)
		if !unread.inRows() {
			return
		}
		defer func(had int) { // of what could not be read, no more is told
			*bad = append((*bad)[:had], slices.DeleteFunc((*bad)[had:], func(fault string) bool { return unread.explain(fault, &d) })...)
		}(len(*bad))
	}
	book, wrong := plans.CompileFile(c.Region, &d, versionOf(&d))
	for _, f := range wrong {
		bad.add(f.Field, "%s (in %s)", f.Reason, c.Limits)
	}
	c.book = book
}

// inRow is the beginning of a path in a row of plan limits: its list, number and field.
var inRow = regexp.MustCompile(`^(rules|plans|keys)\[(\d+)\]\.([a-z0-9_]+)`)

// inRows reports whether all faults are of single fields of rows: of whole lists
// nothing can be told until they can be read.
func (f faults) inRows() bool {
	return !slices.ContainsFunc(f, func(fault string) bool { return !inRow.MatchString(fault) })
}

// explain reports whether a fault of d only follows of one of f: it is of a field that
// could not be read, or that lacks where the row has a key that is unknown, which may
// have been meant for it.
func (f faults) explain(fault string, d *plans.Definition) bool {
	m := inRow.FindStringSubmatch(fault)
	if m == nil {
		return false
	}
	row := m[1] + "[" + m[2] + "]."
	return slices.ContainsFunc(f, func(unread string) bool {
		n := inRow.FindStringSubmatch(unread)
		return n != nil && (n[0] == m[0] || strings.HasPrefix(unread, row) && strings.HasPrefix(unread, n[0]+": unknown key") && lacks(d, m))
	})
}

// lacks reports whether the field that inRow has matched was left as it is.
func lacks(d *plans.Definition, m []string) bool {
	list, row := map[string]reflect.Value{}, map[string]reflect.Value{}
	fieldsByName(reflect.ValueOf(d).Elem(), list)
	i, err := strconv.Atoi(m[2])
	if err != nil || i >= list[m[1]].Len() {
		return false
	}
	fieldsByName(list[m[1]].Index(i), row)
	field, ok := row[m[3]]
	return ok && field.IsZero()
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
