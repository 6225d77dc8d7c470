package keys_test

import (
	"errors"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/guardd/guardd/keys"
)

func TestPart(t *testing.T) {
	for _, c := range []struct {
		capacity, count, parts, whole int64
		per                           time.Duration
		want                          keys.Limit
		err                           error
	}{
		{10, 10, 6000, 10_000, time.Hour, keys.Limit{Capacity: 6, Count: 1, Period: 600 * keys.Second}, nil},
		{10, 10, 4000, 10_000, time.Hour, keys.Limit{Capacity: 4, Count: 1, Period: 900 * keys.Second}, nil},
		{10, 10, 10_000, 10_000, time.Hour, keys.Limit{Capacity: 10, Count: 1, Period: 360 * keys.Second}, nil},
		{100, 100, 3333, 10_000, time.Second, keys.Limit{Capacity: 33, Count: 3333, Period: 100 * keys.Second}, nil},
		{3, 1, 3333, 10_000, time.Hour, keys.Limit{}, keys.ErrCapacity},
		{3, 1, 3334, 10_000, time.Hour, keys.Limit{Capacity: 1, Count: 1667, Period: 5000 * 3600 * keys.Second}, nil},
		{100_000, 100_000, 3333, 10_000, 24 * time.Hour, keys.Limit{Capacity: 33_330, Count: 1111, Period: 2880 * keys.Second}, nil},
		{10, 5, 1, 5, 7 * time.Microsecond, keys.Limit{Capacity: 2, Count: 1, Period: 7}, nil},
		{100_000, 99_991, 3333, 10_000, 24 * time.Hour, keys.Limit{}, keys.ErrInexact},
	} {
		l, err := keys.NewLimit(c.capacity, c.count, c.per)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.Part(c.parts, c.whole); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d/%d of %s: %+v, %v, want %+v, %v", c.parts, c.whole, l, got, err, c.want, c.err)
		}
	}
}

// Of a product that no 64 bits hold the low ones may look like a period.
func TestPartThatOverflows(t *testing.T) {
	l := keys.Limit{Capacity: 3, Count: 1, Period: 1<<51 + 1}
	if got, err := l.Part(8191, 8192); !errors.Is(err, keys.ErrInexact) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever is cut, the refill is that part of the whole exactly, the capacity no more
// than it, and no number leaves the range; what is refused as inexact would.
func TestPartIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(1, 10_000).Draw(t, "whole")
		parts := rapid.Int64Range(1, whole).Draw(t, "parts")
		l, err := keys.NewLimit(rapid.Int64Range(1, 1<<40).Draw(t, "capacity"), rapid.Int64Range(1, keys.MaxExact).Draw(t, "count"),
			time.Duration(rapid.Int64Range(1, 1<<40).Draw(t, "period"))*time.Microsecond)
		if err != nil {
			t.Skip() // rapid draws another: NewLimit refuses such numbers
		}
		share := big.NewRat(parts, whole)
		want := new(big.Rat).Mul(big.NewRat(l.Count, l.Period), share)
		most := new(big.Rat).Mul(big.NewRat(l.Capacity, 1), share)
		floor := new(big.Int).Quo(most.Num(), most.Denom())
		if got := keys.PartOf(l.Capacity, parts, whole); got != floor.Int64() {
			t.Fatalf("capacity %d, want %s", got, floor)
		}
		part, err := l.Part(parts, whole)
		switch {
		case errors.Is(err, keys.ErrCapacity) && floor.Sign() == 0:
		case errors.Is(err, keys.ErrInexact):
			units := new(big.Int).Mul(floor, want.Denom())
			if units.Add(units, want.Num()).Cmp(big.NewInt(keys.MaxExact)) <= 0 {
				t.Fatalf("%d/%d of %s was refused and is exact", parts, whole, l)
			}
		case err != nil || part.Capacity != floor.Int64() || big.NewRat(part.Count, part.Period).Cmp(want) != 0 || !part.Exact():
			t.Fatalf("%d/%d of %s: %+v, %v", parts, whole, l, part, err)
		}
	})
}
