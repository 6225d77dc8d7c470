package keys

import (
	"context"
	"fmt"
	"time"
)

// Trail remembers rows about callers of a general API, so that a refusal can be
// accounted for later. What a row says is its writer's business. Rows are of two
// kinds: sums, kept for TrailLife, and refusals, of which the last TrailRefusals
// of each caller are kept and none longer than TrailLife. All of it together is
// bounded: where there is no room, the oldest go first, whosever they are.
// Implementations are safe for concurrent use.
type Trail interface {
	// Append keeps rows. With an error comes back what is left: those of which it
	// is not known that they are kept. Append them again, with something in Data by
	// which readers know repeats.
	Append(ctx context.Context, rows []TrailRow) (left []TrailRow, err error)
	// Rows returns a caller's rows from since on (Unix microseconds), of each kind
	// in the order of Append. From whole on nothing was dropped for want of room.
	Rows(ctx context.Context, caller Account, since int64) (rows []TrailRow, whole int64, err error)
}

// TrailRow is one row.
type TrailRow struct {
	Caller  Account
	At      int64 // Unix microseconds, by the clock of the decisions
	Refusal bool
	Data    []byte // at most MaxTrailData
}

// Bounds of a Trail.
const (
	TrailLife     = 6 * time.Hour
	TrailRefusals = 1000 // of one caller
	MaxTrailData  = 4096 // bytes
	// TrailSegment is the span of time whose sums lie together: they are found,
	// and where there is no room dropped, as one.
	TrailSegment = 30 * time.Minute
	// TrailOverhead is about what a row, or a list of rows, takes beside its Data.
	TrailOverhead = 160
)

// Valid refuses what no Trail should keep.
func (r *TrailRow) Valid() error {
	switch {
	case len(r.Data) == 0 || len(r.Data) > MaxTrailData:
		return badAsk(fmt.Sprintf("a row has between 1 and %d bytes", MaxTrailData))
	case r.At < 0 || r.At > MaxExact:
		return badAsk("a row's time is a number of microseconds since 1970")
	}
	return nil
}

// TrailSegmentOf numbers the segment of a time.
func TrailSegmentOf(at int64) int64 { return at / TrailSegment.Microseconds() }
