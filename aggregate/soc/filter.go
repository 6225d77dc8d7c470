package soc

import (
	"fmt"
	"slices"

	"github.com/guardd/guardd/aggregate"
)

// Decisions says which attempts and outcomes are told beside findings.
type Decisions string

// The choices. Refused are attempts that were not let through, or would not have
// been without shadow mode.
const (
	NoDecisions      Decisions = "none"
	RefusedDecisions Decisions = "refused"
	AllDecisions     Decisions = "all"
)

// UnmarshalText refuses any other word.
func (d *Decisions) UnmarshalText(text []byte) error {
	all := []Decisions{NoDecisions, RefusedDecisions, AllDecisions}
	if !slices.Contains(all, Decisions(text)) {
		return fmt.Errorf("must be one of %v, not %q", all, text)
	}
	*d = Decisions(text)
	return nil
}

// Filter says what is told. Its zero value tells every finding and no decision.
type Filter struct {
	What      []string // kinds of findings; none named: all
	Realms    []string // none named: all; what concerns all realms concerns each
	Min       Severity
	Decisions Decisions
}

func (f *Filter) passes(r *Record) bool {
	if len(f.Realms) > 0 && r.Realm != "" && !slices.Contains(f.Realms, r.Realm) || r.Severity < f.Min {
		return false
	}
	if r.Finding != nil {
		return len(f.What) == 0 || slices.Contains(f.What, r.Finding.What)
	}
	switch {
	case r.Event.Kind == aggregate.KindEnd:
		return false
	case f.Decisions == AllDecisions:
		return true
	}
	return f.Decisions == RefusedDecisions && r.Event.Kind == aggregate.KindAttempt && answered(r.Event) != "allow"
}
