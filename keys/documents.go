package keys

import (
	"context"
	"errors"
	"fmt"
)

// Documents are records that several writers change at once: operators and the
// aggregator the posture, operators the lists. Whoever writes says what it
// replaces, so that nobody's change is lost. Implementations are safe for
// concurrent use. They hold what Records holds: what is Put can be had with Get.
type Documents interface {
	// Get returns the value under key; nil when there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	// Swap stores value under key for ttl microseconds, if what is there now is
	// was (nil: nothing), and reports whether it did. A value of no bytes takes
	// away what is there. After an error nobody knows whether it happened.
	Swap(ctx context.Context, key string, was, value []byte, ttl int64) (bool, error)
}

// Clearer takes buckets away, as an operator asks. Whoever is counted by one that
// is gone has all of every limit again. It touches buckets only: no revocation,
// no proof's use, no code.
type Clearer interface {
	// Held counts those of the buckets that are there. One that has refilled
	// may be, for a while.
	Held(ctx context.Context, buckets []string) (int, error)
	// Clear takes them away, and counts those that were there.
	Clear(ctx context.Context, buckets []string) (int, error)
}

// MaxDocument is the largest value of Swap in bytes.
const MaxDocument = 8 << 20

// ValidSwap refuses what no store should be asked. Every store calls it first.
func ValidSwap(key string, value []byte, ttl int64) error {
	switch {
	case key == "":
		return badAsk("a document needs a key")
	case len(value) > MaxDocument:
		return badAsk(fmt.Sprintf("a document holds at most %d bytes", MaxDocument))
	case len(value) > 0 && ttl <= 0:
		return badAsk("a document needs a lifetime")
	}
	return nil
}

// ErrBusy means that others changed a document as often as it was tried.
var ErrBusy = errors.New("others are changing it: try again")

// swapTries is how often Change tries: each one that fails is another's that
// did not, so only a crowd gets here.
const swapTries = 32

// Change changes a document: change is given what is there (nil: nothing) and
// returns what is to be there (of no bytes: nothing) and for how many
// microseconds, or false where there is nothing to change. It may be called
// several times. Errors: change's own, ErrBusy, the store's.
func Change(ctx context.Context, d Documents, key string, change func(was []byte) (value []byte, ttl int64, ok bool, err error)) (changed bool, err error) {
	for range swapTries {
		was, err := d.Get(ctx, key)
		if err != nil {
			return false, err
		}
		value, ttl, ok, err := change(was)
		if err != nil || !ok {
			return false, err
		}
		if done, err := d.Swap(ctx, key, was, value, ttl); done || err != nil {
			return done, err
		}
	}
	return false, ErrBusy
}
