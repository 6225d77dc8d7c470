package limits_test

import (
	"context"
	"strings"
	"testing"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/plans"
)

type world struct {
	*plans.Taker
	t   *testing.T
	now int64
}

type plainSealer struct{}

func (plainSealer) Seal(b []byte) string { return "r." + string(b) }

func (plainSealer) Open(s string) ([]byte, bool) {
	b, ok := strings.CutPrefix(s, "r.")
	return []byte(b), ok
}

func newWorld(t *testing.T, d *plans.Definition) *world {
	t.Helper()
	w := &world{t: t, now: 1_800_000_000 * keys.Second}
	now := func() int64 { return w.now }
	w.Taker = plans.NewTaker(plans.Config{Store: keys.NewMemory(keys.MemoryConfig{Now: now}), Sealer: plainSealer{}, Slots: plainSealer{}, Hash: hash, Now: now})
	b, faults := plans.Compile(d, "1", nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	w.Swap(b)
	return w
}

func (w *world) take(r plans.Request) *plans.Decision {
	w.t.Helper()
	d, err := w.Take(context.Background(), &r)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func hash(d plans.Digest) keys.Account { return keys.Account(d[:16]) }
