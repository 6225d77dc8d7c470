package plans

import (
	"context"

	"github.com/guardd/guardd/keys"
)

// UsageID is one key's quota in one period.
type UsageID struct {
	Key   keys.Account // the keyed hash
	Rule  string       // its name; where regions have shares of it NAME@REGION
	Start int64        // of the period, Unix microseconds
}

// Usage is what a ledger keeps of it.
type Usage struct {
	// Drawn are the tokens that instances have drawn, less those that they gave
	// back: what was spent, and what they have in hand.
	Drawn int64
	// Told is the highest percentage of Limit that was told, of Percents; 0: none.
	Limit int64
	Told  int
}

// Percents of a quota are told once each as they are reached.
var Percents = []int{80, 100}

// Ledger keeps usage where it outlives instances. It is safe for concurrent use.
type Ledger interface {
	// Change replaces the usage of id by what change makes of it, in one step: of
	// two that change it, each sees what the other has made. change may be called
	// several times. The usage can be forgotten at until, Unix microseconds. Where
	// change reports false nothing is written. After an error nobody knows whether
	// it was.
	Change(ctx context.Context, id UsageID, until int64, change func(Usage) (Usage, bool)) error
}

// The arithmetic of a ledger: pure, whole tokens.

// draw takes as many tokens as there are up to most, if there are least.
func (u Usage) draw(limit, least, most int64) (after Usage, got int64) {
	got = max(min(limit-u.Drawn, most), 0)
	if got < least {
		return u, 0
	}
	u.Drawn += got
	return u, got
}

// charge takes tokens that were spent already, though there be none.
func (u Usage) charge(n int64) Usage {
	u.Drawn = min(u.Drawn+n, keys.MaxExact)
	return u
}

// giveBack returns tokens that were not spent.
func (u Usage) giveBack(n int64) Usage {
	u.Drawn = max(u.Drawn-n, 0)
	return u
}

// tell lists the percentages of limit that are reached and were not told, and notes
// them. Giving back some forgets none of them: each is told once. Another limit is
// told of anew, but for what is reached of it and was told of the one before.
func (u Usage) tell(limit int64) (after Usage, reached []int) {
	if u.Limit != limit {
		if u.Limit != 0 && u.Told != 0 && !reaches(u.Drawn, limit, u.Told) {
			u.Told = 0
			for _, p := range Percents {
				if reaches(u.Drawn, limit, p) {
					u.Told = p
				}
			}
		}
		u.Limit = limit
	}
	for _, p := range Percents {
		if p > u.Told && reaches(u.Drawn, limit, p) {
			u.Told, reached = p, append(reached, p)
		}
	}
	return u, reached
}

// reaches reports whether n is at least so many percent of limit. Both are at most
// keys.MaxQuota: nothing overflows.
func reaches(n, limit int64, percent int) bool { return n*100 >= limit*int64(percent) }

// MaxQuota bounds a quota: a hundred of them fit an int64.
const MaxQuota = 1 << 52
