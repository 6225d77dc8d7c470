package oracle

import (
	"math/big"
	"slices"
)

// Return is the outcome of an attempt.
type Return struct {
	Now, Deadline            int64
	Rules                    *Rules
	Keys                     []string
	State                    string
	K                        [2]string
	Outcome                  string
	Stamp, Expires           int64
	Took                     []Took
	Mark, Place, FailuresKey string
	Wrong                    string
	Tags                     [2]string
}

// Took is one limit that an attempt took a token from.
type Took struct {
	Kind, Name string
	In         Limit
}

// Receipt is what was booked.
type Receipt struct {
	Late, Expired, Recorded, Duplicate bool
	Prior                              string
	Failures, Gave                     int
}

// Give books an outcome once.
func (w *World) Give(r Return) (rcp Receipt) {
	if r.Deadline > 0 && r.Now > r.Deadline {
		return Receipt{Late: true}
	}
	if r.Now >= r.Expires {
		return Receipt{Expired: true}
	}
	rcp.Prior = w.outcomes[r.Mark]
	second := rcp.Prior == "second_factor_pending" && (r.Outcome == "success" || r.Outcome == "failure")
	if rcp.Prior != "" && !second {
		rcp.Duplicate = true
		return rcp
	}
	rcp.Recorded = true
	w.outcomes[r.Mark] = r.Outcome
	if r.Wrong != "" {
		w.judgePassword(&r, second)
	}
	switch r.Outcome {
	case "failure", "unknown_account":
		if r.FailuresKey != "" {
			w.failures[r.FailuresKey] = append(w.failures[r.FailuresKey], r.Now)
		}
	case "success", "second_factor_pending", "denied_by_policy", "not_checked":
		if !second {
			rcp.Gave = w.back(&r)
		}
	}
	if r.Outcome == "success" && r.Place != "" {
		w.places[r.Place] = max(w.places[r.Place], r.Stamp)
	}
	last := w.failures[r.FailuresKey]
	for _, t := range last[max(len(last)-10, 0):] {
		if r.FailuresKey != "" && r.Now-t < day {
			rcp.Failures++
		}
	}
	return rcp
}

// judgePassword: what failed first of all was wrong, what succeeded or waits for a
// second factor was right. Nothing older than a day is kept, and eight at most.
func (w *World) judgePassword(r *Return, second bool) {
	wrong := (r.Outcome == "failure" || r.Outcome == "unknown_account") && !second
	right := r.Outcome == "success" || r.Outcome == "second_factor_pending"
	if !wrong && !right {
		return
	}
	last := r.Stamp
	var others []mistake
	for _, m := range w.mistakes[r.Wrong] {
		switch {
		case slices.Contains(r.Tags[:], m.tag):
			last = max(last, m.at)
		case r.Now-m.at < day:
			others = append(others, m)
		}
	}
	if wrong {
		others = append([]mistake{{r.Tags[0], last}}, others...)
	}
	w.Forgotten += max(len(others)-8, 0)
	w.mistakes[r.Wrong] = others[:min(len(others), 8)]
}

// back returns to each limit the token less what refill may have repaid since.
func (w *World) back(r *Return) (gave int) {
	if len(r.Took) == 0 {
		return 0
	}
	posture, baseline, k := w.inForce(r.State, r.K, r.Now)
	for ti := range r.Rules.Tiers {
		t := &r.Rules.Tiers[ti]
		old := w.buckets[r.Keys[ti]]
		if old == nil || old.stamp < r.Stamp {
			continue // gone, or another than the one that was taken from
		}
		longest := new(big.Rat)
		for i := range t.Limits {
			if l, counted := r.Rules.limit(t, i, posture, baseline, k); counted {
				longest = maxRat(longest, wholeUp(l.toFull()))
			}
		}
		_, stamp, _ := clock(old.stamp, r.Now, longest)
		b := bucket{stamp, old.distrust, map[string]cell{}}
		n := 0
		for i, s := range t.Limits {
			l, counted := r.Rules.limit(t, i, posture, baseline, k)
			if !counted {
				continue
			}
			spent, at := new(big.Int), old.stamp
			if c, ok := old.cells[s.Name]; ok {
				spent, at = spentNow(c, l, max(stamp-c.at, 0)), c.at
			}
			for _, took := range r.Took {
				if took.Kind != t.Kind || took.Name != s.Name || at < r.Stamp {
					continue
				}
				back := stillCosts(took.In, l, max(r.Now-r.Stamp, 0))
				if back.Cmp(spent) > 0 {
					back = spent
				}
				if back.Sign() > 0 {
					spent = new(big.Int).Sub(spent, back)
					n++
				}
			}
			b.cells[s.Name] = cell{spent, l.units(), stamp}
		}
		b.others(old)
		if n > 0 {
			w.buckets[r.Keys[ti]] = &b
			gave += n
		}
	}
	return gave
}

// stillCosts is what one token of old costs after so long, in units of l.
func stillCosts(old, l Limit, passed int64) *big.Int {
	if old.toFull().Cmp(l.toFull()) != 0 {
		return new(big.Int)
	}
	return unrepaid(old, l, 1, passed)
}
