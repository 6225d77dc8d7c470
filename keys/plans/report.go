package plans

import (
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/guardd/guardd/keys"
)

// Report is what is known of a key's decisions in a span of time, from every
// instance: enough to show whoever was refused what he had used up.
type Report struct {
	Since, Until time.Time
	// Complete: nothing of the span is missing. Otherwise Missing says what.
	Complete bool
	Missing  string
	Decided
	First, Last time.Time // decisions; zero where there is none
	Rules       []RuleReport
	Seconds     []SecondReport  // oldest first
	Refusals    []RefusalReport // the last keys.TrailRefusals, oldest first
}

// Decided are decisions.
type Decided struct {
	// Asked = Allowed + Refused + Replayed.
	Asked, Allowed, Refused int64
	// Replayed repeated a request id and cost nothing.
	Replayed int64
	// Degraded of those asked were decided at an instance's share, while the shared
	// store was gone.
	Degraded int64
	Settled  int64 // settlements and refunds
	Cost     int64 // of those allowed, as they said
}

// RuleReport is one rule under one set of numbers.
type RuleReport struct {
	Rule string
	keys.Limit
	// Degraded: the numbers are an instance's share.
	Degraded bool
	Versions []string // of the definition
	// Taken is in tokens, less what settlements gave back.
	Taken   int64
	Refused int64 // requests that this rule decided against
	// Span from the first decision to the last, and Had, the most tokens that can
	// be had in it: the capacity and what flows back meanwhile.
	First, Last time.Time
	Had         int64
}

// SecondReport sums up a second.
type SecondReport struct {
	At time.Time
	Decided
	Versions []string
	Limits   []LevelReport
}

// LevelReport is one rule in a second, or at a refusal.
type LevelReport struct {
	Rule string
	keys.Limit
	// Tokens that were taken; at a refusal those that were asked for.
	Tokens, Remaining int64
	// Short: it has not enough. Binding: it decided (of a second: ever).
	Short, Binding bool
}

// RefusalReport is one refusal.
type RefusalReport struct {
	At time.Time
	// Rule that decided, "" where none did: then Reason says why.
	Rule, Reason string
	Route        string
	Cost         int64 // as the request said
	Remaining    int64 // of Rule, in tokens
	RetryAfter   time.Duration
	Version      string
	Degraded     bool
	Instance     string // 16 hex digits
	Limits       []LevelReport
}

// Report gathers what is known of a key since a time, at most keys.TrailLife ago.
// What other instances decided within the last second may not be in it yet. An
// unreachable Trail is no error: then the report is this instance's alone.
func (e *Evidence) Report(ctx context.Context, key keys.Account, since time.Time) (*Report, error) {
	now := time.UnixMicro(e.c.Now()).UTC()
	if oldest := now.Add(-keys.TrailLife); since.Before(oldest) {
		since = oldest
	}
	since = since.Truncate(time.Second).UTC()
	rows, whole, alone := e.rows(ctx, key, since.UnixMicro())
	r := &Report{Since: since, Until: now, Complete: true}
	switch {
	case alone != nil:
		r.Complete, r.Missing = false, "the shared store cannot be reached: this is what one instance has decided since it last could"
	case whole > since.UnixMicro():
		r.Complete, r.Missing = false, "what is older than "+time.UnixMicro(whole).UTC().Format(time.RFC3339)+" was dropped for want of room"
	}
	for _, x := range entries(rows) {
		if x.refusal {
			r.Refusals = append(r.Refusals, refusalOf(&x))
		} else {
			r.sum(&x)
		}
	}
	r.Refusals = r.Refusals[max(len(r.Refusals)-keys.TrailRefusals, 0):]
	for i := range r.Rules {
		r.Rules[i].Had = had(r.Rules[i].Limit, r.Rules[i].Last.Sub(r.Rules[i].First))
	}
	return r, nil
}

// had is the most tokens that a bucket gives in so long: full at first, it is.
func had(l keys.Limit, d time.Duration) int64 {
	passed := max(d.Microseconds(), 0)
	if passed > keys.MaxExact/l.Count { // longer than any trail; only garbage says so
		return keys.MaxExact
	}
	return l.Capacity + passed*l.Count/l.Period
}

func (c *Decided) add(x *entry) {
	c.Asked += x.allowed + x.refused + x.replayed
	c.Allowed += x.allowed
	c.Refused += x.refused
	c.Replayed += x.replayed
	c.Degraded += x.degraded
	c.Settled += x.settled
	c.Cost += x.cost
}

// sum takes in one second of one instance.
func (r *Report) sum(x *entry) {
	first, last := time.UnixMicro(x.first).UTC(), time.UnixMicro(x.last).UTC()
	r.add(x)
	if r.First.IsZero() {
		r.First = first
	}
	r.Last = later(r.Last, last)
	at := first.Truncate(time.Second)
	if n := len(r.Seconds); n == 0 || !r.Seconds[n-1].At.Equal(at) {
		r.Seconds = append(r.Seconds, SecondReport{At: at})
	}
	s := &r.Seconds[len(r.Seconds)-1]
	s.add(x)
	s.Versions = also(s.Versions, x.version)
	for i := range x.limits {
		l := &x.limits[i]
		level(s, l)
		y := r.rule(l, first)
		y.Versions = also(y.Versions, x.version)
		y.Taken += l.tokens
		y.Refused += l.refused
		y.Last = later(y.Last, last)
	}
}

// level adds a rule's line to its second; entries come in the order of time, so
// that what is left is of the last.
func level(s *SecondReport, l *entryLimit) {
	i := slices.IndexFunc(s.Limits, func(y LevelReport) bool { return y.Rule == l.rule && y.Limit == l.limit })
	if i < 0 {
		s.Limits = append(s.Limits, LevelReport{Rule: l.rule, Limit: l.limit})
		i = len(s.Limits) - 1
	}
	y := &s.Limits[i]
	y.Tokens, y.Remaining = y.Tokens+l.tokens, l.left
	y.Binding = y.Binding || l.refused > 0
	y.Short = y.Binding
}

func (r *Report) rule(l *entryLimit, first time.Time) *RuleReport {
	for i := range r.Rules {
		if y := &r.Rules[i]; y.Rule == l.rule && y.Limit == l.limit && y.Degraded == l.degraded {
			return y
		}
	}
	r.Rules = append(r.Rules, RuleReport{Rule: l.rule, Limit: l.limit, Degraded: l.degraded, First: first})
	return &r.Rules[len(r.Rules)-1]
}

func refusalOf(x *entry) RefusalReport {
	v := RefusalReport{At: time.UnixMicro(x.first).UTC(), Reason: x.reason, Route: x.route, Cost: x.cost,
		RetryAfter: time.Duration(x.wait) * time.Microsecond, Version: x.version, Degraded: x.degraded > 0, Instance: hex.EncodeToString(x.instance[:])}
	for i := range x.limits {
		l := &x.limits[i]
		y := LevelReport{Rule: l.rule, Limit: l.limit, Tokens: l.tokens, Remaining: l.left, Short: l.refused&1 != 0, Binding: l.refused&2 != 0}
		if y.Binding {
			v.Rule, v.Remaining = y.Rule, y.Remaining
		}
		v.Limits = append(v.Limits, y)
	}
	return v
}

func also(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
