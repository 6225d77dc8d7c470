package keys

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSubBucketsTogetherGrantNoMoreThanTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(2, MaxShards).Draw(t, "n")
		whole, err := NewLimit(rapid.Int64Range(1, 1e6).Draw(t, "capacity"), rapid.Int64Range(1, 1e4).Draw(t, "count"),
			time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "us"))*time.Microsecond)
		if err != nil {
			t.Fatal(err)
		}
		sub, err := whole.Sub(n)
		if small := whole.Capacity/n < MinSubBucket; small != errors.Is(err, ErrSubBucket) {
			t.Fatalf("%s in %d: %v", whole, n, err)
		}
		if err != nil {
			return
		}
		if sub.Capacity*n > whole.Capacity || (sub.Capacity+1)*n <= whole.Capacity {
			t.Fatalf("%d x %d of %d", n, sub.Capacity, whole.Capacity)
		}
		if !sameRatio(sub.Count*n, sub.Period, whole.Count, whole.Period) {
			t.Fatalf("%d x %s is not the refill of %s", n, sub, whole)
		}
	})
}

func TestASubBucketKeepsTenTokens(t *testing.T) {
	l := Limit{Capacity: 40, Count: 1, Period: 30 * Second}
	for n, want := range map[int64]int64{1: 40, 2: 20, 3: 13, 4: 10} {
		if sub, err := l.Sub(n); err != nil || sub.Capacity != want || sub.Period != 30*Second*n {
			t.Errorf("in %d: %s, %v", n, sub, err)
		}
	}
	if _, err := l.Sub(5); !errors.Is(err, ErrSubBucket) {
		t.Errorf("8 tokens a shard: %v", err)
	}
	huge := Limit{Capacity: 1000, Count: 1, Period: MaxExact / 1000 / 2}
	if _, err := huge.Sub(64); err != nil { // floor(1000/64) x 64 <= 1000
		t.Errorf("as many units as before: %v", err)
	}
	if _, err := (Limit{Capacity: 1 << 20, Count: 1, Period: 1}).Sub(MaxShards + 1); err == nil {
		t.Error("more shards than there may be")
	}
}

func TestAccountsSpreadOverAllShardsAndStay(t *testing.T) {
	p, err := NewPepper([]byte("a secret of the tests, long enough"), "default")
	if err != nil {
		t.Fatal(err)
	}
	s, seen := NewSpaces("default", 8), map[Space]int{}
	for i := range 800 {
		a := p.Account(strings.Repeat("a", i+1))
		if s.Of(a) != NewSpaces("default", 8).Of(a) {
			t.Fatal("an account has moved")
		}
		seen[s.Of(a)]++
	}
	for i, shard := range s {
		if n := seen[shard]; n < 50 || n > 150 {
			t.Errorf("shard %d has %d of 800 accounts", i, n)
		}
	}
	if one := NewSpaces("default", 0); len(one) != 1 || one.Of(Account{255}) != NewSpace("default", 0) {
		t.Error("a realm without shards is not the one that it was")
	}
}

// puts remembers what it was told, and fails for one key.
type puts struct {
	Records
	got  map[string][]byte
	fail string
}

func (p *puts) Put(_ context.Context, key string, value []byte, _ int64) error {
	if key == p.fail {
		return errors.New("gone")
	}
	p.got[key] = value
	return nil
}

func TestWhatBearsOnAllIsWrittenToEveryShard(t *testing.T) {
	ctx, s := t.Context(), NewSpaces("default", 4)
	p := &puts{got: map[string][]byte{}}
	state := State{Posture: High, Until: 9, Baseline: Limit{Capacity: 100, Count: 1, Period: Second}}
	if err := s.PutState(ctx, p, state, Day); err != nil {
		t.Fatal(err)
	}
	for _, shard := range s {
		got := DecodeState(p.got[shard.State()])
		if want := (Limit{Capacity: 25, Count: 1, Period: 4 * Second}); got.Baseline != want || got.Posture != High {
			t.Errorf("%s: %+v", shard.State(), got)
		}
	}
	state.Baseline.Capacity = 39
	p.got = map[string][]byte{}
	if err := s.PutState(ctx, p, state, Day); !errors.Is(err, ErrSubBucket) || len(p.got) != 0 {
		t.Errorf("9 tokens a shard: %v, and %d written", err, len(p.got))
	}
	p.fail = s[0].State()
	if err := s.Put(ctx, p, Space.State, nil, Day); err == nil || len(p.got) != 3 {
		t.Errorf("one shard gone: %v, and %d of the others written", err, len(p.got))
	}
}
