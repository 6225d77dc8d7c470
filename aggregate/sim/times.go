package sim

import (
	"context"
	"math"
	"slices"

	"github.com/guardd/guardd/aggregate"
)

// Never stands for the time of what did not happen.
const Never = math.MaxInt64

// Times are how soon one attack was found in many runs, and forgotten after its
// end, in microseconds, sorted.
type Times struct {
	Found   []int64 // from its first guess until the posture or its suspects were in force
	Relaxed []int64 // from its end until neither was; bins only
	Early   int     // runs that say nothing: the level was up before the attack began
}

// Quantile is the time within which that share of runs were; Never when they
// were not, or there is none.
func Quantile(sorted []int64, share float64) int64 {
	if len(sorted) == 0 {
		return Never
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// writing is what it takes at most from a bin's end until what follows from it
// is in force, beside what late events are waited for: the aggregator writes
// once a second.
const writing = second

// InBins are the times of n attacks as bins, with the seeds from first on, at a
// site that learnt what learnt says. What late events are waited for is in
// them. The error says what is wrong with learnt.
func InBins(perDay float64, learnt []byte, a Attack, first int64, n int) (t Times, err error) {
	for i := range int64(n) {
		f, err := Attacked(perDay, first+i, learnt, a, hour)
		if err != nil {
			return t, err
		}
		t.add(f)
	}
	slices.Sort(t.Found)
	slices.Sort(t.Relaxed)
	return t, nil
}

func (t *Times) add(f Finding) {
	if f.Early {
		t.Early++
		return
	}
	found, relaxed := int64(Never), int64(Never)
	if f.After >= 0 {
		found = f.After + aggregate.Lateness + writing
	}
	if f.Relaxed >= 0 {
		relaxed = f.Relaxed
	}
	t.Found, t.Relaxed = append(t.Found, found), append(t.Relaxed, relaxed)
}

// ByEvent are the times of n attacks attempt by attempt, through guard, store and
// aggregator, with the seeds from first on; each run ends once the attack was
// found, or after a quarter of an hour. progress, unless nil, is told how far it is.
func (s Scenario) ByEvent(ctx context.Context, c Config, first int64, n int, progress func(float64)) (t Times, err error) {
	c.AnyHour, c.UntilFound = true, true
	c.Before, c.During, c.After = quarter, quarter, minute
	for i := range int64(n) {
		c.Seed = first + i
		c.Progress = func(done float64) {
			if progress != nil {
				progress((float64(i) + done) / float64(n))
			}
		}
		score, err := s.Run(ctx, c)
		if err != nil {
			return t, err
		}
		found := score.Posture
		switch {
		case score.Early:
			t.Early++
			continue
		case found < 0:
			found = Never
		}
		t.Found = append(t.Found, found)
	}
	slices.Sort(t.Found)
	return t, nil
}

const quarter = 15 * minute
