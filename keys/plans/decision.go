package plans

import (
	"time"

	"github.com/guardd/guardd/keys"
)

// Decision is the answer to a take. Whatever it is, it is not an error. All of
// it is of one moment.
type Decision struct {
	Allowed bool
	// Impossible: the cost is above a rule's whole capacity. Waiting never helps.
	Impossible bool
	// Binding is the index in Limits of the rule that decides: of a refusal the
	// one that asks for the longest wait, else the one with least left. -1: none.
	Binding int
	Limits  []LimitState
	// RetryAfter is how long to wait until the same request can be let through,
	// if nobody else takes in between; 0 unless refused, and where no wait helps.
	RetryAfter time.Duration
	// Degraded: answered at this instance's share while the shared store is gone.
	Degraded bool
	// Replayed: the first answer to the same request id, again.
	Replayed bool
	// Reservation is to be settled within ReservationExpiry.
	Reservation string
	// Reason is why no rule decided: ReasonSuspended, ReasonUncounted, or "".
	Reason  string
	Version string       // of the book
	Key     keys.Account // the keyed hash, for evidence and logs
	At      time.Time    // by the store's clock

	held *reservation // what it took
	own  reservation  // held, where it was leased
}

// reset makes it anew but for what can be used again.
func (d *Decision) reset() {
	limits, kept := d.Limits[:0], d.own.held[:0]
	*d = Decision{Binding: -1, Limits: limits}
	d.own.held = kept
}

// Reasons of decisions that no rule made.
const (
	ReasonSuspended = "suspended" // the key is
	ReasonUncounted = "uncounted" // no rule of the plan counts the route
	// ReasonImpossible is said in evidence only: Decision.Impossible.
	ReasonImpossible = "impossible"
)

// LimitState is one rule after the decision.
type LimitState struct {
	Rule  string
	Limit keys.Limit // in force: an instance's share when degraded
	// Cost is what the request takes of it, in tokens.
	Cost    int64
	Left    int64 // units, after
	Allowed bool  // this rule would have let it through
	// Wait until it has the cost; 0 where it has. Reset until it is full.
	Wait, Reset time.Duration
	// Begins and Ends are the period of a quota, whose Limit has no refill; zero of
	// other rules.
	Begins, Ends time.Time
}

// Window is the time from empty to full: of a quota its period.
func (l *LimitState) Window() time.Duration {
	if l.Limit.Count == 0 {
		return l.Ends.Sub(l.Begins)
	}
	return time.Duration(l.Limit.TimeToFull()) * time.Microsecond
}

// Remaining is the whole tokens left.
func (l *LimitState) Remaining() int64 { return l.Left / l.Limit.Period }

// Next is how long until one more token than Remaining is there; 0 when full.
func (l *LimitState) Next() time.Duration {
	switch {
	case l.Left >= l.Limit.Units():
		return 0
	case l.Limit.Count == 0:
		return l.Reset
	}
	return micros((l.Remaining()+1)*l.Limit.Period-l.Left, l.Limit.Count)
}

// leastRetry is how long to wait at least until a store that is gone may be back:
// what Retry-After rounds up to.
const leastRetry = time.Second

// read takes over what the store says.
func (d *Decision) read(s *set, costs []int64, ans *keys.Answer) {
	d.Allowed, d.Impossible = ans.Let && ans.Status == keys.Decided, ans.Status == keys.Impossible
	d.Degraded, d.Replayed = ans.Degraded, ans.Replayed
	d.At = time.UnixMicro(ans.Now).UTC()
	d.Binding, d.Limits, d.RetryAfter = -1, d.Limits[:0], 0
	for i := range ans.Limits {
		x := s.bounds[ans.Limits[i].Tier]
		l := stateOf(x, &ans.Limits[i], costs[ans.Limits[i].Tier], ans)
		if d.Degraded && !l.Allowed && l.Cost <= x.limit.Capacity && l.Wait == 0 {
			// The share never holds it, or the rule is closed: only the shared store helps.
			l.Wait = max(time.Duration(ans.NextProbe)*time.Microsecond, leastRetry)
			if l.Left >= l.Cost*l.Limit.Period { // closed: what is there cannot be had
				l.Left, l.Reset = 0, l.Wait
			}
		}
		d.Limits = append(d.Limits, l)
		if d.Binding < 0 || l.binds(&d.Limits[d.Binding]) {
			d.Binding = i
		}
	}
	if !d.Allowed && !d.Impossible && d.Binding >= 0 {
		d.RetryAfter = d.Limits[d.Binding].Wait
	}
}

// openOnly reports whether, in an outage, only rules refuse that are to let
// everything through then.
func (d *Decision) openOnly(s *set) bool {
	if !d.Degraded || d.Allowed || d.Impossible || !s.open {
		return false
	}
	for i := range d.Limits {
		if !d.Limits[i].Allowed && s.bounds[i].Failure != Open {
			return false
		}
	}
	return true
}

func stateOf(x *bound, a *keys.LimitAnswer, cost int64, ans *keys.Answer) LimitState {
	l := LimitState{Rule: x.Name, Limit: a.Limit, Cost: cost, Left: a.Left, Allowed: true}
	l.Reset = micros(a.Limit.Units()-a.Left, a.Limit.Count)
	switch {
	case a.Took || ans.Let:
		return l // judged before taking, and let through
	case cost > a.Limit.Capacity:
		l.Allowed = false
	case a.Left < max(cost, 1)*a.Limit.Period:
		l.Allowed = false
		l.Wait = micros(max(cost, 1)*a.Limit.Period-a.Left, a.Limit.Count)
	case ans.Causes&keys.ByStoreGone != 0 && x.Failure == Closed:
		l.Allowed = false
	}
	return l
}

// binds reports whether l stands before b at the top of a decision.
func (l *LimitState) binds(b *LimitState) bool {
	switch {
	case l.Allowed != b.Allowed:
		return !l.Allowed
	case !l.Allowed && l.Wait != b.Wait:
		return l.Wait > b.Wait
	}
	// Of both that have enough: how many more such requests they have.
	return l.Left/l.Limit.Period/max(l.Cost, 1) < b.Left/b.Limit.Period/max(b.Cost, 1)
}

// micros is the time in which units flow back, rounded up.
func micros(units, count int64) time.Duration {
	if units <= 0 {
		return 0
	}
	return time.Duration((units+count-1)/count) * time.Microsecond
}
