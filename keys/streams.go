package keys

import (
	"context"
	"errors"
	"fmt"
)

// Streams are lists of what happened, each bounded in entries and in time, that
// one part appends to and others read from the end. Implementations are safe for
// concurrent use.
type Streams interface {
	// Append adds values at the end of a stream, in order. The stream's last keep
	// entries stay, and perhaps a few older ones, but none from before ttl
	// microseconds ago; without an Append for so long it is gone whole. After an
	// error nobody knows whether it happened.
	Append(ctx context.Context, key string, values [][]byte, keep int, ttl int64) error
	// Page returns up to most values, the newest first: those older than before,
	// which is "" for the newest of all. next is what to give as before for those
	// that are older still, "" when there are none.
	Page(ctx context.Context, key, before string, most int) (values [][]byte, next string, err error)
}

// The bounds of one call.
const (
	MaxAppend      = 256     // values
	MaxAppendBytes = 1 << 20 // together
	MaxPage        = 1000
)

// ErrPlace: a place in a stream that Page has not returned.
var ErrPlace = errors.New("no place in a stream")

// ValidAppend refuses what no store should be asked. Every store calls it first.
func ValidAppend(key string, values [][]byte, keep int, ttl int64) error {
	n := 0
	for _, v := range values {
		n += len(v)
	}
	switch {
	case key == "":
		return badAsk("a stream needs a key")
	case keep < 1:
		return badAsk("a stream keeps at least one entry")
	case ttl <= 0:
		return badAsk("a stream needs a lifetime")
	case len(values) > MaxAppend || n > MaxAppendBytes:
		return badAsk(fmt.Sprintf("an append is of at most %d values of %d bytes together", MaxAppend, MaxAppendBytes))
	}
	return nil
}

// ValidPage is ValidAppend's counterpart.
func ValidPage(key string, most int) error {
	switch {
	case key == "":
		return badAsk("a stream needs a key")
	case most < 1 || most > MaxPage:
		return badAsk(fmt.Sprintf("a page is of 1 to %d entries", MaxPage))
	}
	return nil
}
