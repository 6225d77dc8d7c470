package aggregate

import (
	"maps"

	"github.com/guardd/guardd/aggregate/detect"
)

// WatchStatus is what a Watch sees and has done, for whoever looks at it from
// outside (Grafana, the status page). Rates are cold failures a minute.
type WatchStatus struct {
	Level            detect.Level // what it asks for
	Learning         bool         // it knows too little to do anything
	Expected, Excess float64      // over the last two minutes
	Networks, Tags   int          // suspects in force
	Open             map[string]int
	// Found counts the findings, Changes how often each level was set.
	Found   map[FindingCount]uint64
	Changes [detect.Levels]uint64
}

// FindingCount is what findings are counted by.
type FindingCount struct{ What, State string }

// FindingStates are the states that findings of campaigns are counted by: one of a
// campaign that is open already is an update. Those of a moment are FindingOnce.
var FindingStates = []string{"open", "update", "closed"}

// tally is what a Detection keeps for its WatchStatus.
type tally struct {
	is   WatchStatus
	open map[string]string // campaigns' kinds by id
}

func newTally() tally {
	return tally{WatchStatus{Found: map[FindingCount]uint64{}, Learning: true}, map[string]string{}}
}

// bin takes what a bin led to.
func (t *tally) bin(r *detect.Result) {
	t.is.Level, t.is.Learning = r.Level, r.Reading.Learning
	t.is.Expected, t.is.Excess = r.Reading.Expected, r.Reading.Excess
	t.is.Networks, t.is.Tags = len(r.Suspects), len(r.Tags)
	if r.Changed {
		t.is.Changes[r.Level]++
	}
	for i := range r.Campaigns {
		c := &r.Campaigns[i]
		if c.End != 0 {
			delete(t.open, c.ID)
		} else {
			t.open[c.ID] = c.What
		}
	}
}

// found counts a finding that is published.
func (t *tally) found(f *Finding, again bool) {
	state := f.State
	if again && state == "open" {
		state = "update"
	}
	t.is.Found[FindingCount{f.What, state}]++
}

// status is a copy.
func (t *tally) status() WatchStatus {
	s := t.is
	s.Found, s.Open = maps.Clone(s.Found), map[string]int{}
	for _, what := range t.open {
		s.Open[what]++
	}
	return s
}

// Status is Watch's.
func (w *Detection) Status() WatchStatus { return w.tally.status() }

// count adds findings to those that were counted.
func (s *WatchStatus) count(k FindingCount, n uint64) {
	if s.Found == nil {
		s.Found = map[FindingCount]uint64{}
	}
	if n > 0 {
		s.Found[k] += n
	}
}

// add takes up what an earlier reader has counted.
func (s *WatchStatus) add(was *WatchStatus) {
	for k, n := range was.Found {
		s.count(k, n)
	}
	for i, n := range was.Changes {
		s.Changes[i] += n
	}
}
