package plans_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest/redistest"
	"github.com/guardd/guardd/keys/plans"
	"github.com/guardd/guardd/keys/redisstore"
)

// world is a Taker on an owned clock.
type world struct {
	t     *testing.T
	now   int64
	store plans.Store
	salt  byte // worlds on one store do not meet
	*plans.Taker
}

// plainSealer stands in for escalation's seals, which keys cannot import.
type plainSealer struct{}

func (plainSealer) Seal(b []byte) string { return "r." + string(b) }

func (plainSealer) Open(s string) ([]byte, bool) {
	b, ok := strings.CutPrefix(s, "r.")
	return []byte(b), ok
}

func newWorld(t *testing.T, d *plans.Definition) *world {
	t.Helper()
	w := &world{t: t, now: 1_800_000_000 * keys.Second}
	w.store = keys.NewMemory(keys.MemoryConfig{Now: func() int64 { return w.now }})
	return w.over(w.store, d)
}

// onEveryStore runs a test over the twin and over a real Redis. newWorld makes a
// world of its own there.
func onEveryStore(t *testing.T, test func(t *testing.T, newWorld func(*testing.T, *plans.Definition) *world)) {
	t.Run("twin", func(t *testing.T) { test(t, newWorld) })
	t.Run("redis", func(t *testing.T) {
		const long = 10 * time.Second // no test here is about being late
		client, err := redisstore.Open(redistest.Start(t).URL(), long)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		store := redisstore.New(redisstore.Config{Client: client, Deadline: long})
		worlds := byte(0)
		test(t, func(t *testing.T, d *plans.Definition) *world {
			worlds++
			w := &world{t: t, now: 1_800_000_000 * keys.Second, store: store, salt: worlds}
			return w.over(store, d)
		})
	})
}

func (w *world) over(store plans.Store, d *plans.Definition) *world {
	w.t.Helper()
	w.Taker = plans.NewTaker(plans.Config{Store: store, Sealer: plainSealer{}, Slots: plainSealer{}, Now: func() int64 { return w.now }, Hash: func(d plans.Digest) keys.Account {
		a := hash(d)
		a[15] ^= w.salt
		return a
	}})
	w.load(d)
	return w
}

// load puts d in force; it must be without fault.
func (w *world) load(d *plans.Definition) {
	w.t.Helper()
	b, faults := plans.Compile(d, "1", w.Book())
	if len(faults) > 0 {
		w.t.Fatal(faults)
	}
	w.Swap(b)
}

func (w *world) take(r plans.Request) *plans.Decision {
	w.t.Helper()
	d, err := w.Take(context.Background(), &r)
	if err != nil {
		w.t.Fatalf("%+v: %v", r, err)
	}
	return d
}

// allowed counts how many of n takes of one token are let through.
func (w *world) allowed(n int, rules ...string) (yes int) {
	w.t.Helper()
	for range n {
		if w.take(plans.Request{Key: "k", Rules: rules, Cost: 1}).Allowed {
			yes++
		}
	}
	return yes
}

func (w *world) pass(d time.Duration) { w.now += d.Microseconds() }

func one(capacity int64, refill string) *plans.Definition {
	return &plans.Definition{Rules: []plans.Rule{{Name: "r", Capacity: capacity, Refill: refill}}}
}

func isFault(err error, field string) bool {
	var f plans.Faults
	if errors.As(err, &f) {
		for _, x := range f {
			if x.Field == field {
				return true
			}
		}
	}
	return false
}

func hash(d plans.Digest) keys.Account { return keys.Account(d[:16]) }
