package delivery

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestTries plays failures against a clock that moves in pauses only.
func TestTries(t *testing.T) {
	fails := errors.New("no")
	again, lost, final := &failure{err: fails}, &failure{err: fails, unsure: true}, &failure{err: fails, final: true}
	after := func(d time.Duration) *failure { return &failure{err: fails, after: d} }
	never := make([]*failure, 40)
	for i := range never {
		never[i] = again
	}
	for _, row := range []struct {
		name      string
		life      time.Duration // of the code
		tries     []*failure    // nil succeeds
		interrupt int
		pauses    []time.Duration
		ending    string
	}{
		{"at once", time.Hour, []*failure{nil}, 0, nil, arrived},
		{"pauses double", time.Hour, []*failure{again, again, again, nil}, 0, seconds(.5, 1, 2), arrived},
		{"a final failure is not repeated", time.Hour, []*failure{again, final}, 0, seconds(.5), forGood},
		{"what is asked for is waited for", time.Hour, []*failure{after(40 * time.Second), nil}, 0, seconds(40), arrived},
		{"but not beyond the code's life", time.Minute, []*failure{after(time.Minute), nil}, 0, nil, forGood},
		{"nor beyond all bounds", time.Hour, []*failure{after(6 * time.Minute), nil}, 0, nil, forGood},
		{"life ends", 4 * time.Second, never, 0, seconds(.5, 1, 2), forGood},
		{"dead before the first try", 0, []*failure{nil}, 0, nil, forGood},
		{"five minutes are enough", 12 * time.Hour, never, 0, seconds(.5, 1, 2, 4, 8, 16, 30, 30, 30, 30, 30, 30, 30, 30), forGood},
		{"an answer lost, then refused", time.Hour, []*failure{lost, final}, 0, seconds(.5), uncertain},
		{"an answer lost, then too late", time.Second, []*failure{lost, again, again}, 0, seconds(.5), uncertain},
		{"guardd ends meanwhile", time.Hour, []*failure{again, nil}, 1, seconds(.5), forGood},
		{"guardd ends, and an answer was lost", time.Hour, []*failure{lost, nil}, 1, seconds(.5), uncertain},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &clock{at: t0, interrupt: row.interrupt}
			m := code("alice@example.com")
			m.ExpiresAt = t0.Add(row.life)
			n := 0
			err := c.retry().do(t.Context(), m, func(context.Context) *failure {
				n++
				return row.tries[n-1]
			})
			checkEnding(t, err, row.ending, m)
			if !slices.Equal(c.pauses, row.pauses) {
				t.Errorf("paused %v, want %v", c.pauses, row.pauses)
			}
		})
	}
}

// TestPausesDiffer: the messages of one outage do not all return at once.
func TestPausesDiffer(t *testing.T) {
	for _, share := range []float64{0, .5, .999} {
		c := &clock{at: t0}
		r := c.retry()
		r.share = func() float64 { return share }
		n := 0
		_ = r.do(t.Context(), code("a@example.com"), func(context.Context) *failure {
			if n++; n == 1 {
				return &failure{err: errors.New("no")}
			}
			return nil
		})
		want := time.Second/2 + time.Duration(share*float64(time.Second/2))
		if len(c.pauses) != 1 || c.pauses[0] != want {
			t.Errorf("share %v: paused %v, want %v", share, c.pauses, want)
		}
	}
}
