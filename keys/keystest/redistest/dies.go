package redistest

import "testing"

// EveryKeyDies looks at every key that a test has left in s: each has a TTL, and
// there are at least so many.
func EveryKeyDies(t testing.TB, s *Server, least int) {
	t.Helper()
	ctx := t.Context()
	n := 0
	for keys := s.Client().Scan(ctx, 0, "*", 500).Iterator(); keys.Next(ctx); n++ {
		// In whole milliseconds: the slowest buckets of tests live for centuries,
		// which is more nanoseconds than a Duration holds.
		if ms, err := s.Client().Do(ctx, "PTTL", keys.Val()).Int64(); err != nil || ms == -1 { // -2: it has died since
			t.Errorf("%s has no TTL (%d ms, %v)", keys.Val(), ms, err)
		}
	}
	if n < least {
		t.Errorf("only %d keys were left to look at", n)
	}
}
