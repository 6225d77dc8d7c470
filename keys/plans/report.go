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
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	// Complete: nothing of the span is missing. Otherwise Missing says what.
	Complete bool   `json:"complete"`
	Missing  string `json:"missing,omitempty"`
	Decided
	First    time.Time       `json:"first,omitzero"` // decision
	Last     time.Time       `json:"last,omitzero"`
	Rules    []RuleReport    `json:"rules"`
	Seconds  []SecondReport  `json:"seconds"`  // oldest first
	Refusals []RefusalReport `json:"refusals"` // the last keys.TrailRefusals, oldest first
}

// Decided counts decisions.
type Decided struct {
	// Asked = Allowed + Refused + Replayed.
	Asked   int64 `json:"asked"`
	Allowed int64 `json:"allowed"`
	Refused int64 `json:"refused"`
	// Replayed repeated a request id and cost nothing.
	Replayed int64 `json:"replayed"`
	// Degraded of those asked were decided at an instance's share, while the shared
	// store was gone.
	Degraded int64 `json:"degraded"`
	Settled  int64 `json:"settled"` // settlements and refunds
	Cost     int64 `json:"cost"`    // of those allowed, as they said
}

// Numbers are a rule's, as they were in force.
type Numbers struct {
	Capacity int64  `json:"capacity"`
	Refill   string `json:"refill"` // COUNT/PERIOD in lowest terms; "" of a quota

	limit keys.Limit
}

func numbersOf(l keys.Limit) Numbers {
	if l.Count == 0 { // a quota's
		return Numbers{Capacity: l.Capacity, limit: l}
	}
	return Numbers{l.Capacity, keys.FormatRefill(l.Count, time.Duration(l.Period)*time.Microsecond), l}
}

// RuleReport is one rule under one set of numbers.
type RuleReport struct {
	Rule string `json:"rule"`
	Numbers
	// Degraded: the numbers are an instance's share.
	Degraded bool     `json:"degraded"`
	Versions []string `json:"versions"` // of the definition
	// Taken is in tokens, less what settlements gave back.
	Taken   int64 `json:"taken"`
	Refused int64 `json:"refused"` // requests that this rule decided against
	// Had is the most tokens that can be had from First to Last, the decisions of
	// the span: the capacity and what flows back meanwhile.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Had   int64     `json:"had"`
}

// SecondReport sums up a second.
type SecondReport struct {
	At time.Time `json:"at"`
	Decided
	Versions []string      `json:"versions"`
	Limits   []LevelReport `json:"limits"`
}

// LevelReport is one rule in a second, or at a refusal.
type LevelReport struct {
	Rule string `json:"rule"`
	Numbers
	// Tokens that were taken; at a refusal those that were asked for.
	Tokens    int64 `json:"tokens"`
	Remaining int64 `json:"remaining"` // whole tokens, after
	// Short: it has not enough. Binding: it decided. Of a second: once at least.
	Short   bool `json:"short"`
	Binding bool `json:"binding"`
}

// RefusalReport is one refusal.
type RefusalReport struct {
	At time.Time `json:"at"`
	// Rule that decided, "" where none did: then Reason says why.
	Rule         string        `json:"rule"`
	Reason       string        `json:"reason,omitempty"`
	Route        string        `json:"route,omitempty"`
	Cost         int64         `json:"cost"`      // as the request said
	Remaining    int64         `json:"remaining"` // of Rule, in tokens
	RetryAfterMS int64         `json:"retry_after_ms"`
	Version      string        `json:"version"`
	Degraded     bool          `json:"degraded"`
	Instance     string        `json:"instance"` // 16 hex digits
	Limits       []LevelReport `json:"limits"`
}

// Report gathers what is known of a key since a time, at most keys.TrailLife ago.
// What other instances refused within the last second, and let through within the
// last sumsWait, may not be in it yet. An
// unreachable Trail is no error: then the report is this instance's alone.
func (e *Evidence) Report(ctx context.Context, key keys.Account, since time.Time) (*Report, error) {
	now := time.UnixMicro(e.c.Now()).UTC()
	r := emptyReport(now, min(now.Sub(since), keys.TrailLife))
	rows, whole, alone := e.rows(ctx, key, r.Since.UnixMicro())
	r.Complete = true
	switch {
	case alone != nil:
		r.Complete, r.Missing = false, "the shared store cannot be reached: this is what one instance has decided since it last could"
	case whole > r.Since.UnixMicro():
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
		r.Rules[i].Had = had(r.Rules[i].limit, r.Rules[i].Last.Sub(r.Rules[i].First))
	}
	return r, nil
}

func emptyReport(now time.Time, since time.Duration) *Report {
	return &Report{Since: now.Add(-since).Truncate(time.Second).UTC(), Until: now, Rules: []RuleReport{}, Seconds: []SecondReport{}, Refusals: []RefusalReport{}}
}

// had is the most tokens that a bucket gives in so long: full at first, it is.
func had(l keys.Limit, d time.Duration) int64 {
	if l.Count == 0 {
		return l.Capacity
	}
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
	i := slices.IndexFunc(s.Limits, func(y LevelReport) bool { return y.Rule == l.rule && y.limit == l.limit })
	if i < 0 {
		s.Limits = append(s.Limits, LevelReport{Rule: l.rule, Numbers: numbersOf(l.limit)})
		i = len(s.Limits) - 1
	}
	y := &s.Limits[i]
	y.Tokens, y.Remaining = y.Tokens+l.tokens, l.left
	y.Binding = y.Binding || l.refused > 0
	y.Short = y.Binding
}

func (r *Report) rule(l *entryLimit, first time.Time) *RuleReport {
	for i := range r.Rules {
		if y := &r.Rules[i]; y.Rule == l.rule && y.limit == l.limit && y.Degraded == l.degraded {
			return y
		}
	}
	r.Rules = append(r.Rules, RuleReport{Rule: l.rule, Numbers: numbersOf(l.limit), Degraded: l.degraded, First: first})
	return &r.Rules[len(r.Rules)-1]
}

func refusalOf(x *entry) RefusalReport {
	v := RefusalReport{At: time.UnixMicro(x.first).UTC(), Reason: x.reason, Route: x.route, Cost: x.cost,
		RetryAfterMS: (x.wait + 999) / 1000, Version: x.version, Degraded: x.degraded > 0, Instance: hex.EncodeToString(x.instance[:])}
	for i := range x.limits {
		l := &x.limits[i]
		y := LevelReport{Rule: l.rule, Numbers: numbersOf(l.limit), Tokens: l.tokens, Remaining: l.left, Short: l.refused&1 != 0, Binding: l.refused&2 != 0}
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
