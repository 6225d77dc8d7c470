package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/guardd/guardd/keys"
	"github.com/guardd/guardd/keys/keystest"
	"github.com/guardd/guardd/keys/keystest/redistest"
)

// subject is a Store on a server of its own, which tests may tamper with.
type subject struct {
	*Store
	raw *redis.Client
}

func (s subject) SetWrongType(key string) error {
	ctx := context.Background()
	if err := s.raw.Del(ctx, key).Err(); err != nil {
		return err
	}
	if err := s.raw.RPush(ctx, key, "x").Err(); err != nil {
		return err
	}
	return s.raw.Expire(ctx, key, time.Hour).Err()
}

func (s subject) Persist(key string) error { return s.raw.Persist(context.Background(), key).Err() }

func (s subject) FlushScripts() error { return s.raw.ScriptFlush(context.Background()).Err() }

// open returns a Store on s. Its deadline is long: what a busy test machine
// does to 5 ms is no fault of the arithmetic.
func open(t testing.TB, s *redistest.Server) subject {
	t.Helper()
	c, err := Open(s.URL(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return subject{New(Config{Client: c, Deadline: 10 * time.Second}), s.Client()}
}

func TestSuite(t *testing.T) {
	s := redistest.Start(t)
	keystest.Run(t, func(t *testing.T) keystest.Subject { return open(t, s) })
}

func TestScriptWalksWithTheOracle(t *testing.T) {
	steps := 10_000
	if testing.Short() {
		steps = 1_000
	}
	s := redistest.Start(t)
	keystest.Walk(t, 20, steps, keystest.Named{Name: "redis", Subject: open(t, s)})
	noKeyIsForEver(t, s)
}

func TestScriptWalksWithTheTwinOverCodes(t *testing.T) {
	s := redistest.Start(t)
	keystest.CodeWalk(t, 10, 1_000,
		keystest.Named{Name: "twin", Subject: keystest.Twin{Memory: keys.NewMemory(keys.MemoryConfig{})}},
		keystest.Named{Name: "redis", Subject: open(t, s)})
	noKeyIsForEver(t, s)
}

// noKeyIsForEver looks at every key that a run has left.
func noKeyIsForEver(t *testing.T, s *redistest.Server) {
	t.Helper()
	ctx := t.Context()
	n := 0
	for keys := s.Client().Scan(ctx, 0, "*", 500).Iterator(); keys.Next(ctx); n++ {
		// In whole milliseconds: the walk's slowest buckets live for centuries,
		// which is more nanoseconds than a Duration holds.
		if ms, err := s.Client().Do(ctx, "PTTL", keys.Val()).Int64(); err != nil || ms <= 0 {
			t.Errorf("%s has no TTL (%d ms, %v)", keys.Val(), ms, err)
		}
	}
	if n < 100 {
		t.Errorf("only %d keys were left to look at", n)
	}
}
