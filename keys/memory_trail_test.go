package keys_test

import (
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
)

func TestMemoryTrail(t *testing.T) {
	keystest.RunTrail(t, func(_ *testing.T, room int64) keys.Trail { return keys.NewMemoryTrail(room, nil) })
}

// A row ends by the clock, whether or not others come.
func TestAMemoryTrailForgetsByTheClock(t *testing.T) {
	now := 1_800_000_000 * keys.Second
	m := keys.NewMemoryTrail(1<<20, func() int64 { return now })
	a := keys.Account{1}
	if _, err := m.Append(t.Context(), []keys.TrailRow{{Caller: a, At: now, Data: []byte("x")}, {Caller: a, At: now, Refusal: true, Data: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pass int64
		want int
	}{{keys.TrailLife.Microseconds() - 1, 2}, {1, 0}} {
		now += step.pass
		if rows, _, _ := m.Rows(t.Context(), a, 0); len(rows) != step.want {
			t.Errorf("%d rows after %d more microseconds, not %d", len(rows), step.pass, step.want)
		}
	}
}
