package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/guardd/guardd/escalation"
)

// The back-off between tries: doubling from the first to the longest, each
// drawn from its upper half so that the messages of one outage do not return
// together.
const (
	firstPause   = time.Second
	longestPause = time.Minute
	// longestTrying bounds all tries together, whatever a code's life: after
	// five minutes the visitor does better to ask again, and what waits half a
	// day for a dead server takes the place of what could be delivered.
	longestTrying = 5 * time.Minute
)

// retry repeats a delivery. Its fields are seams: tests own time and chance.
type retry struct {
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
	share func() float64 // in [0, 1)
}

func newRetry() retry { return retry{now: time.Now, sleep: escalation.Pause, share: rand.Float64} }

// failure is one try that brought nothing, or of which we do not know.
type failure struct {
	err   error
	final bool          // no repetition can succeed
	after time.Duration // not to be repeated earlier
	// unsure: the message may have arrived, only the answer did not.
	unsure bool
}

// do tries until success, a final failure, the end of the message's life or
// that of ctx. The error wraps ErrUndeliverable only when it is certain that
// no try arrived: a message that may have arrived must count as sent, or a
// receiver whose answers are lost could be sent to without end.
func (r retry) do(ctx context.Context, m *escalation.Message, try func(context.Context) *failure) error {
	until := r.now().Add(longestTrying)
	if !m.ExpiresAt.IsZero() && m.ExpiresAt.Before(until) {
		until = m.ExpiresAt
	}
	if !r.now().Before(until) {
		return undeliverable(errors.New("expired before the first try"), false)
	}
	unsure := false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		f := try(ctx)
		if f == nil {
			return nil
		}
		unsure = unsure || f.unsure
		if f.final {
			return undeliverable(f.err, unsure)
		}
		wait := max(f.after, pause/2+time.Duration(r.share()*float64(pause/2)))
		if !r.now().Add(wait).Before(until) {
			return undeliverable(fmt.Errorf("given up: %w", f.err), unsure)
		}
		if err := r.sleep(ctx, wait); err != nil {
			return undeliverable(fmt.Errorf("%w after: %w", err, f.err), unsure)
		}
	}
}

func undeliverable(err error, unsure bool) error {
	if unsure {
		return fmt.Errorf("may have arrived: %w", err)
	}
	return fmt.Errorf("%w: %w", escalation.ErrUndeliverable, err)
}
