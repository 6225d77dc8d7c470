package keys

import (
	"context"
	"errors"
	"fmt"
)

// Tallies count what may happen once or a few times: answers to a challenge,
// renderings of its picture, notices to an account. Implementations are safe
// for concurrent use, and count exactly under any concurrency.
type Tallies interface {
	// Tally counts one more event under key, in a window of the given length in
	// microseconds that begins with its first event. n is the event's number in
	// its window, from 1. before is how many the window before held, when that
	// one ended less than one window ago, else 0. now 0 is the store's clock.
	//
	// An error means that the event may have been counted or not; one that wraps
	// ErrNoStore, that there is no room to remember it. What must happen only
	// once is refused then.
	Tally(ctx context.Context, key string, now, window int64) (n, before int64, err error)
}

// ErrNoStore is wrapped by errors that say that nobody remembers, for now: the
// shared store is gone, or the twin is full.
var ErrNoStore = errors.New("no store remembers it")

// ValidTally refuses what no store should be asked. Every store calls it first.
func ValidTally(key string, now, window int64) error {
	switch {
	case key == "":
		return badAsk("a tally needs a key")
	case now < 0 || now > MaxExact/2:
		return badAsk("the time is out of range")
	case window <= 0 || window > MaxWindow:
		return badAsk(fmt.Sprintf("a window must be from 1 to %d microseconds", MaxWindow))
	}
	return nil
}

// MaxWindow is the longest window of a tally in microseconds.
const MaxWindow = 30 * Day
