package keys

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxShards bounds how many slots one realm is spread over: what is written for
// all of them is written that many times.
const MaxShards = 256

// MinSubBucket is the fewest tokens of a sub-bucket. In a smaller one two or
// three accounts that hash alike would ask each other for a captcha.
const MinSubBucket int64 = 10

// ErrSubBucket: so many shards leave each fewer than MinSubBucket tokens.
var ErrSubBucket = fmt.Errorf("a shard would hold fewer than %d tokens", MinSubBucket)

// Spaces are the shards of one realm. An attempt goes by its account's: what is
// counted by account or by pair is exact, what many accounts share (address,
// network, global) has a bucket in every shard, of Limit.Sub.
type Spaces []Space

// NewSpaces returns the key spaces of a realm in so many shards, at least 1.
func NewSpaces(realm string, shards int) Spaces {
	s := make(Spaces, max(shards, 1))
	for i := range s {
		s[i] = NewSpace(realm, i)
	}
	return s
}

// Of is the shard of an account. Its name is a keyed hash, so nobody outside
// can choose accounts of one shard.
func (s Spaces) Of(a Account) Space {
	return s[binary.BigEndian.Uint64(a[:])%uint64(len(s))]
}

// Put stores a record in every shard, since an attempt reads its own shard's
// only: key names it there (Space.Suspect, Space.K). All shards are tried; an
// error means that some may not have it: repeat it.
func (s Spaces) Put(ctx context.Context, r Records, key func(Space) string, value []byte, ttl int64) error {
	var errs []error
	for _, shard := range s {
		errs = append(errs, r.Put(ctx, key(shard), value, ttl))
	}
	return errors.Join(errs...)
}

// PutState stores the realm's posture and baseline in every shard. The baseline
// is the whole realm's; each shard gets its part of it. ErrSubBucket when that
// is too small: then nothing is written.
func (s Spaces) PutState(ctx context.Context, r Records, state State, ttl int64) error {
	if !state.Baseline.Zero() {
		part, err := state.Baseline.Sub(int64(len(s)))
		if err != nil {
			return err
		}
		state.Baseline = part
	}
	return s.Put(ctx, r, Space.State, state.Encode(), ttl)
}

// Sub is one of n sub-buckets, which together never grant more than l: capacity
// / n rounded down, the refill scaled exactly by stretching the period. For n of
// 1 it is l. ErrSubBucket when fewer than MinSubBucket tokens would be left,
// ErrInexact when the stretched period leaves the exact range.
func (l Limit) Sub(n int64) (Limit, error) {
	if n <= 1 {
		return l, nil
	}
	if l.Capacity/n < MinSubBucket {
		return Limit{}, ErrSubBucket
	}
	// n is at most MaxShards and the period at most 2^53: no overflow.
	period := l.Period * n
	g := gcd(l.Count, period)
	sub := Limit{Capacity: l.Capacity / n, Count: l.Count / g, Period: period / g}
	if n > MaxShards || !sub.Exact() {
		return Limit{}, ErrInexact
	}
	return sub, nil
}
