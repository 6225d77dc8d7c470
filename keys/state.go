package keys

import (
	"context"
	"fmt"
)

// StateLifetime is how long a realm's state outlives its last change: postures
// and pins end by themselves long before, a baseline must outlive a holiday.
const StateLifetime = 90 * Day

// ChangeState changes the realm's posture, pin or baseline in every shard: change
// is given what a shard has and returns what it is to have, or false where there
// is nothing to change. Whatever change leaves alone stays as others have set it,
// also while they do: an operator's pin and the aggregator's posture are one
// record. It may be called several times a shard, and must give the same answer
// for the same state. changed says that some shard was. After an error some
// shards may have been: repeat it.
func (s Spaces) ChangeState(ctx context.Context, d Documents, change func(State) (State, bool)) (changed bool, err error) {
	for i, shard := range s {
		done, err := Change(ctx, d, shard.State(), func(was []byte) ([]byte, int64, bool, error) {
			next, ok := change(DecodeState(was))
			if !ok || next == (State{}) {
				return nil, 0, ok && len(was) > 0, nil
			}
			return next.Encode(), StateLifetime, true, nil
		})
		if err != nil {
			return changed, fmt.Errorf("shard %d: %w", i, err)
		}
		changed = changed || done
	}
	return changed, nil
}

// Until reads a record of EncodeUntil: when it ends, 0 for none.
func Until(b []byte) int64 {
	var n [1]int64
	readDoubles(b, n[:])
	return n[0]
}
